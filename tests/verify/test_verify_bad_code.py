"""Code that cannot be run is a verdict that says where, what was seen and what would do."""

from __future__ import annotations

import pytest
from pairs import RIGHT, Judge

pytestmark = pytest.mark.runtime

BEFORE = RIGHT[0].source(RIGHT[0].before)
AFTER = RIGHT[0].source(RIGHT[0].after)


def with_line(source: bytes, line: str, at: bytes = b"def step(x):\n") -> bytes:
    """A source with one more line first in the function (or after another line)."""
    indent = b"    " if at.startswith(b"def") else b""
    return source.replace(at, at + indent + line.encode() + b"\n")


IMPORT = b"import math\n"
CASES = {
    "raises_on_import": (IMPORT, "raise ValueError('no weights')", "importing", "raised ValueError: no weights"),
    "exits_on_import": (IMPORT, "raise SystemExit(3)", "importing", "called sys.exit(3)"),
    "ends_the_process": (IMPORT, "import os; os._exit(3)", "exit code 3 on import of", "code that runs by itself"),
    "crashes": (
        b"def step(x):\n",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "SIGSEGV at",
        "first call",
    ),
    "no_entry": (b"def make_inputs():\n", "    pass\ndel build\ndef make_inputs():", "has no build", "FILE:CALLABLE"),
    "entry_not_callable": (b"def build():\n", "return 3", "the entry returned int", "not callable"),
    "build_raises": (b"def build():\n", "raise OSError('no file')", "model.py:", "the entry raised OSError: no file"),
    "inputs_not_a_list": (b"def make_inputs():\n", "return torch.ones(2)", "must return a list of", "not Tensor"),
    "inputs_empty": (b"def make_inputs():\n", "return []", "must return a list of", "empty one"),
    "inputs_not_pairs": (b"def make_inputs():\n", "return [torch.ones(2)]", "item 0 is Tensor", "is expected"),
    "inputs_rejected": (b"def step(x):\n", "x = x @ x", "the original raises on every input", "give inputs"),
    "not_deterministic": (
        b"def step(x):\n",
        "x = x * id(object()) * __import__('time').time()",
        "not deterministic",
        "",
    ),
    "log_is_silent": (
        IMPORT,
        "torch._logging.set_logs = lambda **_: None",
        "internal error",
        "silent on a known break",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_original_that_does_not_run(case: str, judge: Judge) -> None:
    at, line, *says = CASES[case]
    if case == "log_is_silent":
        at = b"import torch\n"
    before, after = (with_line(source, line, at) for source in (BEFORE, AFTER))
    report = judge({"model.py": before}, {"model.py": after})
    assert report.verdict == "inconclusive"
    assert all(word in report.reason for word in says), report.reason
    assert "Traceback" not in report.reason


def test_hang_ends_at_the_limit(judge: Judge) -> None:
    line = "import time; time.sleep(600)"
    report = judge({"model.py": with_line(BEFORE, line)}, {"model.py": with_line(AFTER, line)}, timeout_s=4)
    assert report.verdict == "inconclusive"
    assert "the original did not return in time on the first call; give smaller inputs" in report.reason
    assert report.seconds < 15


REWRITTEN = {
    "raises_on_import": (IMPORT, "raise ValueError('oops')", "raised ValueError: oops after the rewrite"),
    "does_not_parse": (IMPORT, "def (", "raised SyntaxError"),
    "crashes": (b"def step(x):\n", "import os; os.abort()", "the rewritten code crashed with SIGABRT"),
    "raises": (b"def step(x):\n", "raise KeyError('y')", "raises KeyError where the original did not"),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_rewrite_that_does_not_run_is_refuted(case: str, judge: Judge) -> None:
    at, line, says = REWRITTEN[case]
    report = judge({"model.py": BEFORE}, {"model.py": with_line(AFTER, line, at)})
    assert (report.verdict, says in report.reason) == ("refuted", True), report.reason


def test_no_inputs(judge: Judge) -> None:
    before, after = (source.replace(b"def make_inputs", b"def other") for source in (BEFORE, AFTER))
    report = judge({"model.py": before}, {"model.py": after})
    assert "there are no inputs" in report.reason
    report = judge({"model.py": before}, {"model.py": after}, entry="model.py:build", inputs="nowhere.py:make_inputs")
    assert (report.verdict, "nowhere.py does not exist" in report.reason) == ("inconclusive", True)


def test_lines_that_no_input_runs(judge: Judge) -> None:
    late = b"\n\ndef other(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n"
    changed = late.replace(b"if x.sum() > 0:\n        x = x * 2", b"x = torch.where(x.sum() > 0, x * 2, x)")
    report = judge({"model.py": BEFORE + late}, {"model.py": BEFORE + changed})
    assert (report.verdict, "no input runs a changed line" in report.reason) == ("inconclusive", True)
    report = judge({"model.py": BEFORE + late}, {"model.py": AFTER + changed})
    assert report.verdict == "accepted"
    first = (BEFORE + late).decode().splitlines().index("def other(x):") + 1
    assert [place.line for place in report.unreached] == [first + 1, first + 2]
    assert "no input runs these changed lines" in report.warnings[0]


def test_file_that_is_never_imported(judge: Judge) -> None:
    report = judge({"other.py": BEFORE}, {"other.py": AFTER}, others={"model.py": BEFORE})
    assert (report.verdict, "does not import" in report.reason) == ("inconclusive", True)
