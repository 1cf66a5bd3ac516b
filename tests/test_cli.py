"""The command line: exit codes row by row, what goes to which stream, and bad input."""

from __future__ import annotations

import importlib.resources
import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import fake_engine
import jsonschema
import pytest
from click.shell_completion import ShellComplete

from gbfix import cli, engine, registry, sources
from gbfix.check import Check
from gbfix.registry import Registry
from gbfix.terminal import wants_color

REAL_LOAD = registry.load
SAFE = b"import torch\n\n\ndef step(x):\n    torch._dynamo.graph_break()\n    return x\n"
SAFE_FIXED = SAFE.replace(b"    torch._dynamo.graph_break()\n", b"")
UNSAFE = b"import torch\n\n\ndef step(x):\n    print(x)\n    return x\n"
NONE = b"import torch\n\n\ndef step(x):\n    return x.item()\n"
BOTH = b"import torch\n\n\ndef step(x):\n    torch._dynamo.graph_break()\n    return x.item()\n"
CLEAN = b"import torch\n"
BROKEN = b"import torch\ndef step(:\n"
CRASH = b"import torch\ncrash!\n"


@dataclass(frozen=True)
class Ran:
    """What a command gave back."""

    code: int
    out: bytes
    err: str


Gbfix = Callable[..., Ran]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "GBFIX_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engine, "run", fake_engine.run)
    monkeypatch.setattr(registry, "load", lambda: fake_engine.REGISTRY)
    sources._repository.cache_clear()
    sources._ignore_file.cache_clear()
    root = Path(os.path.realpath(tmp_path))
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def gbfix(root: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Gbfix:
    def run(*args: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.run(list(args))
        out, err = capfdbinary.readouterr()
        return Ran(code, out, err.decode())

    return run


def put(root: Path, **texts: bytes) -> None:
    for name, text in texts.items():
        (root / f"{name}.py").write_bytes(text)


ROWS: list[tuple[str, dict[str, bytes], tuple[str, ...], int]] = [
    ("clean", {"a": CLEAN}, (), 0),
    ("clean diff", {"a": CLEAN}, ("--diff",), 0),
    ("clean fix", {"a": CLEAN}, ("--fix",), 0),
    ("findings", {"a": SAFE}, (), 1),
    ("findings without a fix", {"a": NONE}, (), 1),
    ("findings in every format", {"a": SAFE}, ("--output-format", "json"), 1),
    ("diff with changes", {"a": SAFE}, ("--diff",), 1),
    ("diff, nothing fixable", {"a": NONE}, ("--diff",), 1),
    ("diff, only unsafe", {"a": UNSAFE}, ("--diff",), 1),
    ("fix, all fixed", {"a": SAFE}, ("--fix",), 0),
    ("fix, all fixed, said aloud", {"a": SAFE}, ("--fix", "--exit-non-zero-on-fix"), 1),
    ("fix, nothing to fix, said aloud", {"a": CLEAN}, ("--fix", "--exit-non-zero-on-fix"), 0),
    ("fix, some left", {"a": BOTH}, ("--fix",), 1),
    ("fix, unsafe left", {"a": UNSAFE}, ("--fix",), 1),
    ("fix, unsafe too", {"a": UNSAFE}, ("--fix", "--unsafe-fixes"), 0),
    ("fix-only, some left", {"a": BOTH}, ("--fix-only",), 0),
    ("fix-only, said aloud", {"a": BOTH}, ("--fix-only", "--exit-non-zero-on-fix"), 1),
    ("fix and diff: a diff", {"a": SAFE}, ("--fix", "--diff"), 1),
    ("syntax error", {"a": BROKEN}, (), 1),
    ("syntax error, diff", {"a": BROKEN}, ("--diff",), 1),
    ("syntax error, fix", {"a": BROKEN}, ("--fix",), 1),
    ("syntax error, exit-zero", {"a": BROKEN}, ("--exit-zero",), 0),
    ("exit-zero", {"a": SAFE}, ("--exit-zero",), 0),
    ("exit-zero, diff", {"a": SAFE}, ("--exit-zero", "--diff"), 0),
    ("crash", {"a": CRASH}, (), 2),
    ("crash wins over findings", {"a": CRASH, "b": SAFE}, (), 2),
    ("crash, exit-zero", {"a": CRASH}, ("--exit-zero",), 2),
    ("crash, fix-only", {"a": CRASH}, ("--fix-only",), 2),
    ("bad option", {"a": CLEAN}, ("--nope",), 2),
    ("bad value", {"a": CLEAN}, ("--output-format", "xml"), 2),
    ("unknown rule", {"a": CLEAN}, ("--select", "NOPE"), 2),
    ("unknown rule, no candidates", {"a": b"x = 1\n"}, ("--ignore", "NOPE"), 2),
    ("bad inline setting", {"a": CLEAN}, ("--config", "slect = []"), 2),
    ("missing path", {"a": SAFE}, ("a.py", "nowhere.py"), 2),
    ("empty folder", {}, (), 0),
    ("deselected", {"a": SAFE}, ("--ignore", "GB0025"), 0),
    ("version", {}, ("--version",), 0),
    ("help", {}, ("-h",), 0),
    ("help of check", {}, ("check", "--help"), 0),
    ("verify without entry", {"a": SAFE}, ("--verify",), 2),
    ("stdin and a path", {"a": SAFE}, ("-", "a.py"), 2),
    ("silent", {"a": SAFE}, ("-s",), 1),
]


@pytest.mark.parametrize(("files", "args", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_exit_codes(gbfix: Gbfix, root: Path, files: dict[str, bytes], args: tuple[str, ...], code: int) -> None:
    put(root, **files)
    assert gbfix(*args).code == code


@pytest.mark.parametrize("args", [(), ("--output-format", "rdjson"), ("--statistics",), ("-q",), ("--diff",)])
@pytest.mark.parametrize(("text", "code"), [(CLEAN, 0), (SAFE, 1), (NONE, 1), (BROKEN, 1), (CRASH, 2)])
def test_exit_code_does_not_depend_on_the_output(
    gbfix: Gbfix, root: Path, args: tuple[str, ...], text: bytes, code: int
) -> None:
    put(root, a=text)
    assert gbfix(*args).code == code


def test_report_mode_changes_nothing(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE, b=UNSAFE, c=NONE)
    ran = gbfix("--output-format", "concise")
    assert ran.out.decode().splitlines() == [
        "a.py:5:5: GBF101 (GB0025) [*] `torch._dynamo.graph_break()` breaks the graph",
        "b.py:5:5: GBF301 (GB0059) [?] `print(x)` breaks the graph",
        "c.py:5:5: GBF201 (GB0124) `return x.item()` breaks the graph",
    ]
    assert ran.err.splitlines() == [
        "Found 3 graph breaks in 3 files (3 files checked).",
        "[*] 1 fixable with --fix, [?] 1 more with --unsafe-fixes.",
    ]
    assert [(root / name).read_bytes() for name in ("a.py", "b.py", "c.py")] == [SAFE, UNSAFE, NONE]


def test_diff_is_all_that_stdout_holds(gbfix: Gbfix, root: Path) -> None:
    put(root, a=BOTH, b=UNSAFE, c=BROKEN)
    ran = gbfix("--diff")
    assert ran.out == (
        b"--- a/a.py\n+++ b/a.py\n@@ -2,5 +2,4 @@\n \n \n def step(x):\n"
        b"-    torch._dynamo.graph_break()\n     return x.item()\n"
    )
    assert ran.err.splitlines() == [
        "c.py:2:10: GB-SYNTAX invalid syntax; file skipped",
        "a.py:6:5: GBF201 (GB0124) `return x.item()` breaks the graph [note: the value is used as a Python number]",
        "b.py:5:5: GBF301 (GB0059) [?] `print(x)` breaks the graph [no safe fix; one with --unsafe-fixes]",
        "Would fix 1 graph break in 1 file; 2 left.",
    ]
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "apply"], cwd=root, input=ran.out, check=True)
    assert gbfix("--diff", "a.py").out == b""


def test_diff_of_a_changed_configuration_of_names(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE)
    assert gbfix("--diff", "--no-prefix", "-U", "0").out.startswith(b"--- a.py\n+++ a.py\n@@ -5 +4,0 @@\n")


@pytest.mark.parametrize(
    "text",
    [
        SAFE,
        SAFE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + SAFE,
        SAFE[:-1],
        b"# -*- coding: latin-1 -*-\n# \xe9\n" + SAFE,
        SAFE.replace(b"    return x\n", b"    return x\r\n"),
    ],
    ids=["lf", "crlf", "bom", "no final newline", "latin-1", "mixed"],
)
def test_diff_and_fix_keep_every_other_byte(gbfix: Gbfix, root: Path, text: bytes) -> None:
    put(root, a=text, b=text)
    patch = gbfix("--diff", "a.py").out
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=root, input=patch, check=True)
    assert gbfix("--fix", "b.py").code == 0
    expected = b"".join(line for line in text.splitlines(keepends=True) if b"graph_break" not in line)
    assert (root / "a.py").read_bytes() == (root / "b.py").read_bytes() == expected


def test_fix_writes_and_shows_what_is_left_where_it_is_now(gbfix: Gbfix, root: Path) -> None:
    put(root, a=BOTH)
    (root / "a.py").chmod(0o755)
    ran = gbfix("--fix", "--output-format", "concise")
    assert ran.out == b"a.py:5:5: GBF201 (GB0124) `return x.item()` breaks the graph\n"
    assert ran.err == "Fixed 1 graph break in 1 file; 1 left.\n"
    assert (root / "a.py").read_bytes() == BOTH.replace(b"    torch._dynamo.graph_break()\n", b"")
    assert (root / "a.py").stat().st_mode & 0o777 == 0o755
    assert gbfix("--fix").err == "Fixed 0 graph breaks in 0 files; 1 left.\n"


def test_fix_only_is_quiet_about_what_is_left(gbfix: Gbfix, root: Path) -> None:
    put(root, a=BOTH)
    assert gbfix("--fix-only", "-q") == Ran(0, b"", "")
    assert b"graph_break" not in (root / "a.py").read_bytes()


def test_fix_through_a_link_keeps_the_link(gbfix: Gbfix, root: Path) -> None:
    (root / "real").mkdir()
    (root / "real/a.txt").write_bytes(SAFE)
    (root / "link.py").symlink_to("real/a.txt")
    assert gbfix("--fix", "link.py").code == 0
    assert (root / "link.py").is_symlink()
    assert (root / "real/a.txt").read_bytes() == SAFE_FIXED


def test_a_file_that_changed_meanwhile_is_left_alone(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=SAFE)

    def meddle(source: bytes, path: str, rules: Any, **more: Any) -> engine.Outcome:
        if more["fix"]:
            put(root, a=CLEAN)
        return fake_engine.run(source, path, rules, **more)

    monkeypatch.setattr(engine, "run", meddle)
    ran = gbfix("--fix", "--output-format", "concise")
    assert (ran.code, (root / "a.py").read_bytes()) == (2, CLEAN)
    assert "error: a.py: changed while gbfix ran; left as it is" in ran.err
    assert ran.out.startswith(b"a.py:5:5: GBF101")


def test_a_file_that_cannot_be_written_is_reported_and_the_rest_done(
    gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, a=SAFE, b=SAFE)
    write = sources.write

    def refuse(path: str, data: bytes) -> None:
        if path.endswith("a.py"):
            raise PermissionError(13, "Permission denied")
        write(path, data)

    monkeypatch.setattr(sources, "write", refuse)
    ran = gbfix("--fix")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "error: a.py: cannot be written: Permission denied",
        "Fixed 1 graph break in 1 file; 1 left.",
    ]
    assert ((root / "a.py").read_bytes(), (root / "b.py").read_bytes()) == (SAFE, SAFE_FIXED)


@pytest.mark.parametrize("mode", [(), ("--diff",), ("--fix",), ("--output-format", "json")])
def test_bad_files_stand_beside_good_ones(gbfix: Gbfix, root: Path, mode: tuple[str, ...]) -> None:
    put(root, broken=BROKEN, crash=CRASH, good=SAFE)
    ran = gbfix(*mode)
    assert ran.code == 2
    assert "error: crash.py: gbfix crashed here: ValueError: told to crash" in ran.err
    if mode == ("--fix",):
        assert (root / "good.py").read_bytes() == SAFE_FIXED
    else:
        assert b"good.py" in ran.out
    assert "broken.py" in ran.err + ran.out.decode()


def test_syntax_error_in_a_report(gbfix: Gbfix, root: Path) -> None:
    put(root, broken=BROKEN)
    assert gbfix("-q") == Ran(1, b"broken.py:2:10: GB-SYNTAX invalid syntax; file skipped\n\n", "")


def test_traceback_of_a_crash_only_when_asked(gbfix: Gbfix, root: Path) -> None:
    put(root, a=CRASH)
    assert "Traceback" not in gbfix().err
    assert "Traceback" in gbfix("-v").err


def test_unreadable_file(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=SAFE, b=SAFE)
    real = open

    def refuse(path: Any, *more: Any, **named: Any) -> Any:
        if str(path).endswith("b.py"):
            raise PermissionError(13, "Permission denied")
        return real(path, *more, **named)

    monkeypatch.setattr("builtins.open", refuse)
    ran = gbfix("--diff", "a.py", "b.py")
    assert ran.code == 2
    assert "error: b.py: cannot be read: Permission denied" in ran.err
    assert ran.out.startswith(b"--- a/a.py\n")


def test_missing_path_and_empty_folder(gbfix: Gbfix) -> None:
    assert gbfix("nowhere.py") == Ran(2, b"", "Error: nowhere.py: no such file or folder\n")
    ran = gbfix()
    assert (ran.code, ran.err.splitlines()[0]) == (0, "warning: no Python files found under the given paths")


def test_a_large_generated_file(gbfix: Gbfix, root: Path) -> None:
    put(root, a=b"import torch\n" + b"x = [1, 2, 3]  # generated\n" * 80_000 + b"torch._dynamo.graph_break()\n")
    began = time.monotonic()
    assert gbfix("--fix").code == 0
    assert time.monotonic() - began < 20


def test_a_pack_that_raises_costs_that_pack(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "acme_raises").mkdir()
    (root / "acme_raises/__init__.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(root))
    lost = REAL_LOAD([EntryPoint("acme", "acme_raises", registry.GROUP)]).troubles
    monkeypatch.setattr(registry, "load", lambda: Registry(fake_engine.RULES, lost))
    put(root, a=SAFE)
    ran = gbfix("--fix", "a.py")
    assert (ran.code, (root / "a.py").read_bytes()) == (2, SAFE_FIXED)
    assert "error: acme_raises: rule pack left out: RuntimeError on import: no" in ran.err


def test_stdin(gbfix: Gbfix) -> None:
    ran = gbfix("-", "--output-format", "concise", stdin=SAFE)
    assert (ran.code, ran.out[:16]) == (1, b"-:5:5: GBF101 (G")
    assert gbfix("--diff", "-", "--stdin-filename", "src/a.py", stdin=SAFE).out.startswith(b"--- a/src/a.py\n")
    ran = gbfix("--fix", "-", stdin=BOTH)
    assert (ran.code, ran.out) == (1, BOTH.replace(b"    torch._dynamo.graph_break()\n", b""))
    assert ran.err.splitlines()[0].startswith("-:5:5: GBF201")
    for same in (CLEAN, b"x = 1\r\n", BROKEN):
        assert gbfix("--fix", "-", stdin=same).out == same


def test_stdin_takes_the_settings_of_its_name(gbfix: Gbfix, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/gbfix.toml").write_text('ignore = ["GBF101"]\n')
    assert gbfix("-", "--stdin-filename", "sub/a.py", stdin=SAFE).code == 0
    assert gbfix("-", stdin=SAFE).code == 1


def test_show_files(gbfix: Gbfix, root: Path) -> None:
    put(root, b=CLEAN, a=SAFE)
    (root / "build").mkdir()
    (root / "build/c.py").write_bytes(SAFE)
    assert gbfix("--show-files").out == b"a.py\nb.py\n"
    assert gbfix("--show-files", "--extend-exclude", "a.py").out == b"b.py\n"
    assert gbfix("--show-files", "--exclude", "a.py").out == b"b.py\nbuild/c.py\n"
    assert gbfix("--show-files", "build/c.py", "a.py", "--force-exclude").out == b"a.py\n"


def test_usage_errors_say_what_would_do(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE)
    assert "Invalid value for '--select': unknown rule 'GBF102'. Did you mean 'GBF101'? See `gbfix rule --all`." in (
        gbfix("--select", "GBF102").err
    )
    (root / "pyproject.toml").write_text("[tool.gbfix]\nslect = []\n")
    assert gbfix() == Ran(2, b"", "Error: pyproject.toml: unknown key tool.gbfix.slect; did you mean select?\n")
    (root / "pyproject.toml").write_text('[tool.gbfix]\nselect = ["GBF9"]\n')
    assert "pyproject.toml: unknown rule 'GBF9'." in gbfix().err
    assert gbfix("--isolated").code == 1


def test_settings_hold_per_file(gbfix: Gbfix, root: Path) -> None:
    (root / "sub").mkdir()
    put(root, a=UNSAFE)
    (root / "sub/a.py").write_bytes(UNSAFE)
    (root / "sub/pyproject.toml").write_text("[tool.gbfix]\nunsafe-fixes = true\n")
    (root / "gbfix.toml").write_text('[per-file-ignores]\n"tests/**" = ["GBF301"]\n')
    (root / "tests").mkdir()
    (root / "tests/t.py").write_bytes(UNSAFE)
    shown = gbfix("--output-format", "concise").out.decode().splitlines()
    assert [line[:30] for line in shown] == ["a.py:5:5: GBF301 (GB0059) [?] ", "sub/a.py:5:5: GBF301 (GB0059) "]
    assert "[*]" in shown[1]
    assert gbfix("--fix", "--no-unsafe-fixes").err == "Fixed 0 graph breaks in 0 files; 2 left.\n"


@pytest.mark.parametrize("name", ["json", "rdjson"])
def test_machine_formats_are_valid_in_every_state(gbfix: Gbfix, root: Path, name: str) -> None:
    schema = json.loads(importlib.resources.files("gbfix.report").joinpath(f"{name}.schema.json").read_text())
    put(root, a=BOTH, b=UNSAFE, c=BROKEN, d=CRASH)
    for args in ((), ("a.py",), ("--fix",), ("--select", "GBF2")):
        jsonschema.validate(json.loads(gbfix(*args, "--output-format", name).out), schema)


def test_format_from_the_environment_and_output_file(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=SAFE)
    monkeypatch.setenv("GBFIX_OUTPUT_FORMAT", "github")
    assert gbfix().out.startswith(b"::warning ")
    ran = gbfix("-o", "out.txt", "--output-format", "json", "-s")
    assert (ran, json.loads((root / "out.txt").read_bytes())["summary"]["found"]) == (Ran(1, b"", ""), 1)
    assert gbfix("-o", "no/where.txt").code == 2


def test_review_paths_start_at_the_repository(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".git").mkdir()
    (root / "sub").mkdir()
    (root / "sub/a.py").write_bytes(SAFE)
    monkeypatch.chdir(root / "sub")
    assert b"file=sub/a.py," in gbfix("--output-format", "github").out
    assert gbfix("--output-format", "concise").out.startswith(b"a.py:")


def test_quiet_and_silent(gbfix: Gbfix, root: Path) -> None:
    put(root, a=BOTH)
    assert gbfix("-q").err == ""
    assert gbfix("-q").out
    assert gbfix("-q", "--diff").err.startswith("a.py:6:5: GBF201")
    assert gbfix("-s") == Ran(1, b"", "")


def test_commands_and_the_default_one(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE, rule=SAFE)
    assert gbfix("check", "a.py") == gbfix("a.py")
    assert gbfix("rule", "GBF101").out.startswith(b"GBF101 graph-break-call (GB0025)\n")
    assert gbfix("rule", "GB0124").out.startswith(b"GBF201 item-read")
    assert gbfix("./rule.py", "--diff").out.startswith(b"--- a/rule.py")
    assert len(json.loads(gbfix("rule", "--all", "--output-format", "json").out)) == 3
    assert gbfix("rule", "--all", "--output-format", "markdown").out.startswith(b"| code |")
    assert gbfix("rule").code == 2
    ran = gbfix("rule", "GBF102")
    assert (ran.code, "Did you mean 'GBF101'?" in ran.err) == (2, True)
    assert gbfix("--version").out == b"gbfix 0.1.0\n"


def test_config_command(gbfix: Gbfix, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/gbfix.toml").write_text('select = ["GBF1"]\n')
    shown = gbfix("config", "sub").out.decode().splitlines()
    assert shown[:2] == ["# from sub/gbfix.toml", 'select = ["GBF1"]']
    assert gbfix("config").out.startswith(b"# from defaults\n")
    assert gbfix("config", "nowhere").code == 2


@pytest.mark.parametrize(
    ("words", "incomplete", "wanted"),
    [
        ([], "ru", {"rule", "ru"}),
        ([], "--di", {"--diff"}),
        (["--diff"], "--fix-", {"--fix-only"}),
        (["rule"], "--al", {"--all"}),
    ],
)
def test_completion(words: list[str], incomplete: str, wanted: set[str]) -> None:
    completion = ShellComplete(cli.cli, {}, "gbfix", "_GBFIX_COMPLETE")
    assert {item.value for item in completion.get_completions(words, incomplete)} == wanted


@pytest.mark.parametrize(
    ("choice", "environ", "tty", "on"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"CLICOLOR_FORCE": "0"}, False, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_table(choice: str, environ: dict[str, str], tty: bool, on: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: tty  # type: ignore[method-assign]
    assert wants_color(choice, stream, environ) is on


def test_colour_in_every_output(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE)
    assert b"\x1b[" in gbfix("--color", "always").out
    assert b"\x1b[" in gbfix("--color", "always", "--diff").out
    assert b"\x1b[" not in gbfix("--diff").out
    assert b"\x1b[" not in gbfix("--color", "always", "--output-format", "json").out


# ---- verify


@dataclass(frozen=True)
class Settled:
    """As verify's answer."""

    outcomes: list[engine.Outcome]
    report: str
    exit_code: int


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A verify that refutes every fix of a file called bad.py; gives back how it was called."""
    calls: list[dict[str, Any]] = []

    def answer(outcomes: Any, **more: Any) -> Settled:
        calls.append(more)
        settled = []
        for outcome in outcomes:
            if outcome.path == "bad.py":
                dropped = tuple(
                    replace(one, fix=None, declined="fix dropped: outputs differ after the rewrite")
                    for one in outcome.fixed
                )
                outcome = replace(outcome, source=outcome.original, fixed=(), left=(*dropped, *outcome.left))
            settled.append(outcome)
        return Settled(settled, "the verdict", 0)

    driver: Any = types.ModuleType("gbfix.verify.driver")
    driver.settle = answer
    verdict: Any = types.ModuleType("gbfix.report.verdict")
    verdict.render = lambda report, console: console.print(report)
    verdict.to_json = lambda report: {"verdict": report}
    for name, module in (("gbfix.verify.driver", driver), ("gbfix.report.verdict", verdict)):
        monkeypatch.setitem(sys.modules, name, module)
        package = sys.modules.setdefault(name.rpartition(".")[0], types.ModuleType(name.rpartition(".")[0]))
        monkeypatch.setattr(package, name.rpartition(".")[2], module, raising=False)
    return calls


def test_verify_drops_refuted_fixes(gbfix: Gbfix, root: Path, settle: list[dict[str, Any]]) -> None:
    put(root, bad=SAFE, good=SAFE)
    verify = ("--verify", "--entry", "m.py:build", "--inputs", "m.py:inputs", "--verify-timeout", "5")
    ran = gbfix(*verify, "--fix", "--output-format", "concise")
    assert ran.code == 1
    assert ((root / "bad.py").read_bytes(), (root / "good.py").read_bytes()) == (SAFE, SAFE_FIXED)
    assert ran.out.startswith(b"bad.py:5:5: GBF101")
    assert ran.err.splitlines() == [
        "verify: running m.py:build in a child process",
        "the verdict",
        "Fixed 1 graph break in 1 file; 1 left.",
    ]
    (call,) = settle
    call.pop("progress")
    assert call == {"entry": "m.py:build", "inputs": "m.py:inputs", "timeout_s": 5.0}


def test_verify_in_report_and_diff_mode(gbfix: Gbfix, root: Path, settle: list[dict[str, Any]]) -> None:
    put(root, bad=SAFE, good=BOTH)
    entry = ("--entry", "m.py:build")
    ran = gbfix("verify", *entry, "--output-format", "json")
    data = json.loads(ran.out)
    assert data["verification"] == {"verdict": "the verdict"}
    assert [(one["filename"], one["code"], one["declined"]) for one in data["findings"]] == [
        ("bad.py", "GBF101", "fix dropped: outputs differ after the rewrite"),
        ("good.py", "GBF101", None),
        ("good.py", "GBF201", "the value is used as a Python number"),
    ]
    ran = gbfix("--verify", *entry, "--diff")
    assert ran.out.startswith(b"--- a/good.py\n")
    assert b"bad.py" not in ran.out
    assert "fix dropped: outputs differ after the rewrite" in ran.err


def test_verify_settings_may_come_from_the_configuration(
    gbfix: Gbfix, root: Path, settle: list[dict[str, Any]]
) -> None:
    put(root, a=SAFE)
    (root / "gbfix.toml").write_text('entry = "m.py:build"\ninputs = "pkg.mod:inputs"\nverify-timeout-s = 7\n')
    gbfix("--verify")
    assert [settle[0][key] for key in ("entry", "inputs", "timeout_s")] == [f"{root}/m.py:build", "pkg.mod:inputs", 7.0]


def test_verify_without_entry_shows_how_to_give_one(gbfix: Gbfix, root: Path) -> None:
    put(root, a=SAFE)
    ran = gbfix("--verify")
    assert (ran.code, ran.out) == (2, b"")
    assert "gbfix --verify --entry model.py:build --inputs model.py:make_inputs src/" in ran.err
    assert "def build():" in ran.err


# ---- the process


PROGRAM = """
import sys, time
sys.path.insert(0, {tests!r})
import fake_engine
from gbfix import cli, engine, registry
def run(*args, **more):
    print("running", file=sys.stderr, flush=True)
    time.sleep({seconds})
    return fake_engine.run(*args, **more)
engine.run = run
registry.load = lambda: fake_engine.REGISTRY
cli.main()
"""


def start(root: Path, *args: str, seconds: float = 0) -> subprocess.Popen[bytes]:
    program = PROGRAM.format(tests=str(Path(__file__).parent), seconds=seconds)
    return subprocess.Popen(
        [sys.executable, "-c", program, *args], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_closed_pipe_ends_quietly(root: Path) -> None:
    put(root, **{f"f{index}": SAFE * 200 for index in range(4)})
    process = start(root, "-j", "1", "-q")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert set(err.decode().split()) == {"running"}
    assert process.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("files", [1, 12])
def test_ctrl_c_is_130(root: Path, files: int) -> None:
    put(root, **{f"f{index}": SAFE for index in range(files)})
    process = start(root, "-j", "2", seconds=2)
    assert process.stderr is not None
    assert b"running\n" in iter(process.stderr.readline, b"")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err.decode()
    assert "interrupted" in err.decode()


def test_an_internal_error_is_2_and_says_so(gbfix: Gbfix, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Check) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(Check, "run", fail)
    ran = gbfix()
    assert (ran.code, "gbfix 0.1.0 crashed" in ran.err, "ZeroDivisionError" in ran.err) == (2, True, True)


def test_both_ways_to_start() -> None:
    for command in ([sys.executable, "-m", "gbfix"], [str(Path(sys.executable).parent / "gbfix")]):
        assert subprocess.run([*command, "-V"], capture_output=True).stdout == b"gbfix 0.1.0\n"
