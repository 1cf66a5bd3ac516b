"""The shipped example: at least three breaks before, none after a hand-made rewrite, and its time is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from pairs import Judge

pytestmark = pytest.mark.runtime

EXAMPLE = Path(__file__).parents[2] / "examples" / "speech" / "model.py"
EDITS = (
    (
        """        if torch.isinf(hidden_states).any() or torch.isnan(hidden_states).any():
            hidden_states = torch.clamp(hidden_states, min=-64000.0, max=64000.0)
""",
        """        overflows = torch.isinf(hidden_states).any() | torch.isnan(hidden_states).any()
        hidden_states = torch.where(overflows, torch.clamp(hidden_states, min=-64000.0, max=64000.0), hidden_states)
""",
    ),
    (
        """        if features.abs().max() > 1.0:
            # loud recordings are limited softly
            features = torch.tanh(features)
            features = features * 2.0
        else:
            features = features * 8.0
""",
        """        is_loud = features.abs().max() > 1.0
        features = torch.where(is_loud, torch.tanh(features) * 2.0, features * 8.0)
""",
    ),
    ("        logger.debug(", "        if not torch.compiler.is_compiling():\n            logger.debug("),
)


def test_example(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    before = EXAMPLE.read_text()
    after = before
    for old, new in EDITS:
        assert old in after
        after = after.replace(old, new)
    report = judge({"model.py": before.encode()}, {"model.py": after.encode()}, soft_output=True, timeout_s=200)
    assert report.verdict == "accepted", report.reason
    assert report.before
    assert report.after
    assert len(report.before.sites) >= 3
    assert (report.after.sites, report.after.graphs, report.after.clean) == ((), 1, True)
    assert report.unreached == ()
