"""Who may import whom, and what a run never loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gbfix

ROOT = Path(gbfix.__file__).parent
ANY = {"*"}
# A module (the longest prefix counts) and the modules of gbfix that it may import. A new arrow is a line here.
ALLOWED = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "rule": {"facts.lattice"},
    "facts.lattice": set(),
    "facts": {"facts", "errors"},
    "config": {"errors"},
    "sources": {"errors"},
    "cache": {"errors"},
    "registry": {"rule", "errors"},
    "context": {"rule", "facts", "errors"},
    "engine": {"context", "rule", "facts", "errors"},
    "runner": {"engine", "facts.lattice", "sources", "config", "cache", "registry", "rule", "errors"},
    "verify": {"verify"},  # the child's side
    **{f"verify.{name}": {"engine", "rule", "errors", "verify"} for name in ("choose", "driver", "session")},
    "observe": {"observe", "facts", "errors"},
    "report": {"report", "rule", "verify", "errors"},
    "report.facts": {"facts"},
    "terminal": {"errors"},
    "options": {"config"},
    "output": ANY,
    "check": ANY,
    "cli": ANY,
    "place": ANY,
    "server": ANY,
    "testing": ANY,
}
# The only parts that may import torch: verify's child, and the half of observe that runs in the user's process.
WITH_TORCH = {"verify", "observe"}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
    }


def imports(path: Path) -> set[str]:
    """The dotted names of all imports, in functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner.removeprefix("gbfix.") in modules() else node.module or "")
    return names


def within(name: str, prefixes: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_follow_the_table(module: str) -> None:
    keys = [key for key in ALLOWED if within(module, {key})]
    assert keys, f"{module} has no line in the table"
    allowed = ALLOWED[max(keys, key=len)]
    ours = {name.removeprefix("gbfix.") for name in imports(modules()[module]) if name.startswith("gbfix.")}
    if allowed is ANY:
        assert "verify.worker" not in ours
    else:
        assert {name for name in ours if not within(name, allowed)} == set()
    if not within(module, WITH_TORCH) or "engine" in allowed:
        assert not [name for name in imports(modules()[module]) if within(name, {"torch"})]


PROBE = """
import sys
from gbfix.cli import run
code = run(sys.argv[1:])
print(code, *(name for name in ("torch", "libcst", "rich", "gbfix.engine") if name in sys.modules), file=sys.stderr)
"""


def loaded(cwd: Path, *args: str) -> list[str]:
    """The exit code of a command and which of the heavy modules it loaded."""
    done = subprocess.run([sys.executable, "-c", PROBE, *args], cwd=cwd, capture_output=True, text=True)
    return done.stderr.splitlines()[-1].split()


def test_light_commands_load_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    assert loaded(tmp_path, "--version") == ["0"]
    assert loaded(tmp_path, "--help") == ["0"]
    assert loaded(tmp_path, "plain.py") == ["0"]
    assert loaded(tmp_path, "--output-format", "json", "plain.py") == ["0"]


@pytest.mark.parametrize("mode", [(), ("--diff",), ("--fix",), ("--output-format", "json")])
def test_no_mode_loads_torch(tmp_path: Path, mode: tuple[str, ...]) -> None:
    (tmp_path / "a.py").write_text(
        "import torch\n\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n        print(x)\n        return x\n"
    )
    assert "torch" not in loaded(tmp_path, *mode, "a.py")[1:]
