"""Fixes at fault are found and dropped; the rest is verified again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pairs import FUNCTION_TAIL, HEAD

from gbfix import engine
from gbfix.facts.lattice import Site
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix.verify import driver
from gbfix.verify.session import Session

pytestmark = pytest.mark.runtime


class BranchOnSum(Rule):
    """Rewrite two-armed assignments; those to a name that starts with `bad` come out wrong, a ternary inside is lost."""

    code = "GBF990"
    gb_ids = ("GB0170",)
    kinds = ("branch", "ternary")

    def check(self, site: Site) -> Iterator[Finding]:
        node = site.node
        if isinstance(node, ast.IfExp):
            yield self.report(site, "ternary", declined="not alone")
            return
        assert isinstance(node, ast.If)
        taken, other = node.body[0], node.orelse[0]
        assert isinstance(taken, ast.Assign)
        assert isinstance(other, ast.Assign)
        name = ast.unparse(taken.targets[0])
        arms = [ast.unparse(taken.value), ast.unparse(other.value)]
        if name.startswith("bad"):
            arms.reverse()
        text = f"{name} = torch.where({ast.unparse(node.test)}, {', '.join(arms)})"
        text = re.sub(r"\(3 if .* else 4\)", "4", text)
        edits = (self.context.replace(node, text),)
        yield self.report(site, "branch", Fix("select", edits, Applicability.SAFE, "where"))


def model(*names: str) -> bytes:
    """A function with one branch for each name."""
    lines = ["def step(x: torch.Tensor):"]
    for index, name in enumerate(names):
        lines += [f"    if x.sum() > {index}:", f"        {name} = x * 2", "    else:", f"        {name} = x * 3"]
        lines += [f"    x = {name} + 1"]
    return (HEAD + "\n".join([*lines, "    return x"]) + "\n" + FUNCTION_TAIL).encode()


@pytest.fixture
def settle(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the rule on a source, then settle."""

    class Shared(Session):
        def __enter__(self) -> Session:
            return session

        def __exit__(self, *_: object) -> None:
            for side in session.sides:
                side.close()
            session.sides.clear()

    monkeypatch.setattr(driver, "Session", Shared)

    def run(source: bytes, **more: bytes) -> driver.Settled:
        outcomes = []
        for name, text in {"model": source, **more}.items():
            path = tmp_path / f"{name}.py"
            path.write_bytes(text)
            outcomes.append(engine.run(text, str(path), [BranchOnSum]))
        return driver.settle(
            outcomes,
            entry=str(tmp_path / "model.py"),
            inputs=None,
            time=False,
            timeout_s=60,
        )

    return run


def test_all_fixes_hold(settle) -> None:
    settled = settle(model("a", "b"))
    assert (settled.exit_code, settled.report.verdict) == (0, "accepted")
    assert [fix.verdict for fix in settled.report.fixes] == ["accepted", "accepted"]
    assert len(settled.outcomes[0].fixed) == 2


def test_the_wrong_fix_is_dropped(settle) -> None:
    settled = settle(model("a", "b", "bad", "c", "d"))
    (outcome,) = settled.outcomes
    assert (settled.exit_code, settled.report.verdict) == (1, "accepted")
    assert [fix.verdict for fix in settled.report.fixes] == ["accepted", "accepted", "refuted", "accepted", "accepted"]
    assert len(outcome.fixed) == 4
    (left,) = outcome.left
    assert left.fix is None
    assert left.declined.startswith("fix dropped: outputs differ after the rewrite (max abs")
    assert outcome.source.count(b"torch.where") == 4
    assert b"if x.sum() > 2:\n        bad = x * 2" in outcome.source


def test_findings_under_one_fix_stand_and_fall_together(settle) -> None:
    nested = model("bad", "a").replace(b"bad = x * 3", b"bad = x * (3 if x.min() > 0 else 4)")
    settled = settle(nested)
    assert [fix.verdict for fix in settled.report.fixes] == ["refuted", "refuted", "accepted"]
    assert len(settled.outcomes[0].left) == 2
    assert settled.outcomes[0].source.count(b"torch.where") == 1


def test_nothing_holds(settle) -> None:
    settled = settle(model("bad", "bad2"))
    (outcome,) = settled.outcomes
    assert (settled.exit_code, settled.report.verdict) == (1, "refuted")
    assert outcome.source == outcome.original
    assert len(outcome.left) == 2


def test_files_that_are_not_imported_are_left_alone(settle) -> None:
    settled = settle(model("a"), other=model("b"))
    first, second = settled.outcomes
    assert (settled.exit_code, settled.report.verdict) == (1, "accepted")
    assert first.source != first.original
    assert second.source == second.original
    assert "does not import" in second.left[0].declined


def test_inconclusive_changes_nothing(settle) -> None:
    settled = settle(b"raise ValueError('no')\n" + model("a"))
    assert (settled.exit_code, settled.report.verdict) == (2, "inconclusive")
    assert settled.outcomes[0].source == settled.outcomes[0].original
    assert settled.outcomes[0].left[0].declined.startswith("fix dropped: not verified: ")


def test_nothing_to_do(settle) -> None:
    settled = settle(b"import torch\n")
    assert (settled.exit_code, settled.report.reason) == (0, "nothing was rewritten")
