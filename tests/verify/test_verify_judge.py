"""Judgements that need no torch: breaks, changed lines, ratios, the table."""

from __future__ import annotations

import io
import json
import random

from rich.console import Console

from gbfix.report import verdict as rendering
from gbfix.verify import judge
from gbfix.verify.verdict import Breaks, BreakSite, Difference, FixVerdict, Place, Timing, VerifyReport

BEFORE = b"def f(x):\n    for i in x:\n        if i:\n            x = 1\n    print(x)\n    return x\n"
AFTER = b"def f(x):\n    for i in x:\n        x = where(i, 1, x)\n    print(x)\n    return x\n"


def site(line: int, gb_id: str = "GB0170", skipped: tuple[Place, ...] = ()) -> BreakSite:
    return BreakSite(gb_id, "m.py", line, "branch", skipped)


def test_breaks_that_another_had_hidden_do_not_count() -> None:
    before = Breaks((site(3, skipped=(Place("m.py", 1),)),), 0, 0, False)
    after = Breaks((site(4, "GB0059"),), 2, 0, False)
    hidden = judge.revealed(before, after, {"m.py": BEFORE}, {"m.py": AFTER})
    assert hidden == [after.sites[0]]
    assert judge.no_fewer(before, after, len(hidden)) == ""
    assert judge.no_fewer(before, after, 0) != ""
    seen = Breaks((site(3),), 2, 0, False)
    assert judge.revealed(seen, after, {"m.py": BEFORE}, {"m.py": AFTER}) == []


def test_fewer_graphs_count_only_with_breaks() -> None:
    two = Breaks((site(3),), 2, 0, False)
    assert judge.no_fewer(two, Breaks((site(3),), 1, 0, False), 0) == ""
    assert (
        judge.no_fewer(Breaks((), 2, 0, True), Breaks((), 1, 0, True), 0) == "no fewer graph breaks (0 before, 0 after)"
    )


def test_changed_lines_run_in_functions() -> None:
    assert judge.changed_lines(BEFORE, AFTER) == {3, 4}
    assert judge.changed_lines(b"X = 1\n", b"X = 2\n") == set()
    missed, some = judge.unreached({"m.py": BEFORE}, {"m.py": AFTER}, {"m.py": {1, 2, 3}})
    assert (missed, some) == ([Place("m.py", 4)], True)
    assert judge.unreached({"m.py": BEFORE}, {"m.py": AFTER}, {})[1] is False


def test_ratio_claims_only_what_the_samples_show() -> None:
    generator = random.Random(1)
    slow = [2 + generator.random() for _ in range(40)]
    fast = [1 + generator.random() for _ in range(40)]
    ratio, low, high = judge.ratio_interval(slow, fast)
    assert 1 < low < ratio < high
    _, low, high = judge.ratio_interval(slow, slow[::-1])
    assert low <= 1 <= high


def test_compiled_differences_that_the_original_shows_are_not_blamed() -> None:
    value = Difference("compiled", "input 1", "value", "outputs differ", True)
    printed = Difference("compiled", "input 2", "stdout", "printed text differs", True)
    assert judge.blamed([value, printed], [value], soft_output=False) == [printed]
    (soft,) = judge.blamed([printed], [], soft_output=True)
    assert not soft.hard


def test_the_report_reads_and_serialises() -> None:
    report = VerifyReport(
        "accepted", "", entry="m.py", before=Breaks((site(3, skipped=(Place("m.py", 1),)),), 2, 0, False),
        after=Breaks((), 1, 0, True), timing=Timing(2.0, 1.0, 2.0, 1.8, 2.2, 40, "inductor", "CPU"),
        inputs_given=2, inputs_made=10, calls=30, warnings=("recompiles rise from 0 to 1",),
        fixes=(FixVerdict("m.py", 9, "GBF101", "data-dependent-branch", "f", "refuted", "outputs differ [x]"),),
    )  # fmt: skip
    stream = io.StringIO()
    rendering.render(report, Console(file=stream, width=200))
    text = stream.getvalue()
    for part in (
        "verify: accepted",
        "equal bit for bit on 2 inputs and 10 changes of them",
        "1 before, 0 after",
        "m.py:3 GB0170 branch (the whole function stays eager)",
        "2.00x (1.80 to 2.20), faster; inductor on CPU, median of 40",
        "m.py:9 GBF101 fix dropped: outputs differ [x]",
        "warning: recompiles rise",
    ):
        assert part in text
    assert json.loads(json.dumps(rendering.to_json(report)))["timing"]["ratio"] == 2.0
