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
