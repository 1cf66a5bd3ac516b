"""Rewritten bytes stand in for files wherever Python finds them, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pairs import FUNCTION_TAIL, RIGHT, Judge

from gbfix.errors import GbfixError
from gbfix.verify.driver import verify
from gbfix.verify.session import Session

pytestmark = pytest.mark.runtime

BEFORE = RIGHT[0].source(RIGHT[0].before)
AFTER = RIGHT[0].source(RIGHT[0].after)
TAIL = FUNCTION_TAIL.encode()
LAYER = BEFORE.replace(TAIL, b""), AFTER.replace(TAIL, b"")


def test_module_beside_the_entry(judge: Judge, tmp_path: Path) -> None:
    entry = b"import torch\nimport compare\nfrom layers import step\n" + TAIL
    others = {"model.py": entry, "compare.py": b"mine = True\n"}
    report = judge({"layers.py": LAYER[0]}, {"layers.py": LAYER[1]}, others=others)
    assert report.verdict == "accepted", report.reason
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["compare.py", "layers.py", "model.py"]
    assert (tmp_path / "layers.py").read_bytes() == LAYER[0]


def test_package_with_relative_imports(judge: Judge) -> None:
    entry = b"import torch\nfrom .layers import step\n" + TAIL
    others = {"pack/__init__.py": b"", "pack/model.py": entry}
    report = judge({"pack/layers.py": LAYER[0]}, {"pack/layers.py": LAYER[1]}, entry="pack/model.py", others=others)
    assert report.verdict == "accepted", report.reason


def test_installed_package_by_module_name(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = b"import sys\nsys.path.append(%r)\nimport torch\nfrom pack.layers import step\n" % str(tmp_path / "site")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    others = {"site/pack/__init__.py": b"", "work/entry_module.py": entry + TAIL}
    files = {"site/pack/layers.py": LAYER[0]}, {"site/pack/layers.py": LAYER[1]}
    # The child processes were forked from one that has another working directory.
    code = b"import os, runpy\nos.chdir(%r)\n" % str(tmp_path / "work")
    code += b"import importlib, sys\nsys.path.insert(0, os.getcwd())\n"
    code += b"module = importlib.import_module('entry_module')\n"
    code += b"build, make_inputs = module.build, module.make_inputs\n"
    report = judge(*files, entry="start.py", others={**others, "start.py": code})
    assert report.verdict == "accepted", report.reason


def test_what_user_code_sees_of_itself(judge: Judge) -> None:
    check = (
        b"import inspect, sys\n"
        b"assert 'worker' not in sys.modules and 'inputs' not in sys.modules\n"
        b"def shown():\n    return inspect.getsource(shown)\n"
        b"assert 'getsource(shown)' in shown() and __name__ != '__main__'\n"
    )
    report = judge({"model.py": check + BEFORE}, {"model.py": check + AFTER})
    assert report.verdict == "accepted", report.reason


def test_observed_state_is_compared(judge: Judge) -> None:
    observe = b"\nSEEN = []\n\n\ndef observe(function):\n    return list(SEEN)\n"
    before = BEFORE.replace(b"def step(x):\n", b"def step(x):\n    SEEN.append(1)\n") + observe
    after = AFTER + observe
    report = judge({"model.py": before}, {"model.py": after})
    assert "observed state differs" in report.reason


def test_code_that_is_already_compiled(judge: Judge) -> None:
    before, after = (source.replace(b"return step", b"return torch.compile(step)") for source in (BEFORE, AFTER))
    report = judge({"model.py": before}, {"model.py": after})
    assert report.verdict == "accepted", report.reason
    before, after = (source.replace(b"def step(x)", b"@torch.compile\ndef step(x)") for source in (BEFORE, AFTER))
    report = judge({"model.py": before}, {"model.py": after})
    assert report.verdict == "accepted", report.reason


def test_interpreter_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("GBFIX_PYTHON", str(python))
    with pytest.raises(GbfixError, match="has no torch; install"):
        verify({"model.py": BEFORE}, {"model.py": AFTER}, entry="model.py")
    monkeypatch.setenv("GBFIX_PYTHON", str(tmp_path / "nothing"))
    with pytest.raises(GbfixError, match="set GBFIX_PYTHON"), Session():
        pass
