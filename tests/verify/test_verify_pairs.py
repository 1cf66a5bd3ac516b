"""Every wrong rewrite is refuted for its own reason, every right one accepted."""

from __future__ import annotations

import pytest
from pairs import RIGHT, WRONG, Judge, Pair

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize("pair", WRONG, ids=lambda pair: pair.name)
def test_wrong_rewrites_are_refuted(pair: Pair, judge: Judge) -> None:
    report = judge({"model.py": pair.source(pair.before)}, {"model.py": pair.source(pair.after)})
    assert (report.verdict, pair.blames in report.reason) == ("refuted", True), report.reason


@pytest.mark.parametrize("pair", RIGHT, ids=lambda pair: pair.name)
def test_right_rewrites_are_accepted(pair: Pair, judge: Judge) -> None:
    report = judge({"model.py": pair.source(pair.before)}, {"model.py": pair.source(pair.after)})
    assert report.verdict == "accepted", report.reason
    assert report.before
    assert report.after
    assert (report.before.clean, report.inputs_given, report.inputs_made) == (False, 2, 10)


def test_time_is_taken_in_turns(judge: Judge) -> None:
    pair = next(pair for pair in RIGHT if pair.name == "overflow_guard")
    report = judge(
        {"model.py": pair.source(pair.before)}, {"model.py": pair.source(pair.after)}, time=True, timeout_s=120
    )
    assert report.verdict == "accepted", report.reason
    timing = report.timing
    assert timing is not None
    assert timing.backend in ("inductor", "aot_eager")
    assert timing.low <= timing.ratio <= timing.high
    assert (timing.runs >= 30, timing.device) == (True, report.device)
