"""Every rule does to its fixtures what their golden files say."""

from __future__ import annotations

from pathlib import Path

import pytest

import gbfix_codemods
from gbfix import testing

ROOT = Path(__file__).parent / "fixtures"
CASES = testing.cases(ROOT, gbfix_codemods)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fixture(case: testing.Case, regen: bool) -> None:
    problems = testing.check(case, regen=regen)
    assert not problems, "\n".join(problems)


def test_layout() -> None:
    assert testing.check_layout(ROOT, gbfix_codemods) == []


def test_regen_fails_once(tmp_path: Path) -> None:
    folder = tmp_path / "print_call" / "case"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text("import torch\n\n\ndef forward(x):\n    print(x)\n    return x + 1\n")
    (case,) = testing.cases(tmp_path, gbfix_codemods)
    assert testing.check(case) == [f"{name} is missing; run with --regen" for name in ("findings.txt", "after.py")]
    assert testing.check(case, regen=True) == [
        f"{name} was written: read the diff" for name in ("findings.txt", "after.py")
    ]
    assert testing.check(case, regen=True) == []
    (folder / "after.py").write_text("")
    assert len(testing.check(case)) == 1


def test_case_that_is_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "print_call" / "keep_case"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text("import torch\n\n\ndef forward(x):\n    print(x)\n    return x + 1\n")
    (case,) = testing.cases(tmp_path, gbfix_codemods)
    assert testing.check(case)[0].startswith("the source must be kept")
    assert "item_read has no keep_* fixture" in testing.check_layout(tmp_path, gbfix_codemods)
