"""Random programs: a safe fix changes nothing that eager execution shows; an unsafe one only what its reasons say."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gbfix import engine
from gbfix.registry import load

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from programs import Writer, inputs, observe, same  # noqa: E402

pytestmark = pytest.mark.runtime
RULES = load().rules
PROGRAMS = int(os.environ.get("GBFIX_FUZZ_PROGRAMS", "600"))
FIRST = int(os.environ.get("GBFIX_FUZZ_FIRST", "0"))


def gradients_agree(before: list[Any], after: list[Any]) -> bool:
    """Whether gradients agree; None agrees with zeros, as torch.where gives them to the path not taken."""
    for a, b in zip(before, after, strict=True):
        if a is None or b is None:
            if (a is None) != (b is None) and (a if b is None else b).any():
                return False
        elif not torch.allclose(a, b, equal_nan=True, rtol=1e-5, atol=1e-6):
            return False
    return True


def test_safe_fixes_change_nothing() -> None:
    changed = 0
    for seed in range(FIRST, FIRST + PROGRAMS):
        text = Writer(seed, pure=True).program()
        outcome = engine.run(text.encode(), "m.py", RULES)
        assert not outcome.troubles
        if outcome.source == outcome.original:
            continue
        changed += 1
        new = outcome.source.decode()
        for grad in (False, True):
            for arguments in inputs(seed, wild=True):
                before, after = observe(text, arguments, grad=grad), observe(new, arguments, grad=grad)
                shown = f"seed {seed}, arguments {arguments}\n{text}\n{new}\n{before}\n{after}"
                assert before[0] == after[0], shown
                if before[0] == "raises":
                    continue
                assert same(before[1], after[1]), shown
                assert same(before[3:], after[3:]), shown
                finite = all(bool(a.isfinite().all()) for a in arguments)
                assert not finite or gradients_agree(before[2], after[2]), shown
    assert changed > PROGRAMS // 100


def test_unsafe_fixes_keep_values_of_equal_dtypes() -> None:
    changed = 0
    for seed in range(FIRST, FIRST + PROGRAMS // 2):
        text = Writer(seed).program()
        outcome = engine.run(text.encode(), "m.py", RULES, unsafe=True)
        assert not outcome.troubles
        if outcome.source == outcome.original:
            continue
        changed += 1
        new = outcome.source.decode()
        reasons = " ".join(f.fix.reason for f in outcome.fixed if f.fix is not None)
        for arguments in inputs(seed, wild=False):
            before, after = observe(text, arguments, grad=False), observe(new, arguments, grad=False)
            shown = f"seed {seed}, arguments {arguments}\n{text}\n{new}\n{before}\n{after}"
            if before[0] == "raises":
                continue
            if after[0] == "raises":
                assert "may not accept the dtype" in reasons or "shapes" in reasons, shown
                continue
            if not same(before[1], after[1]):
                assert "dtypes of" in reasons, shown
                assert same(_widened(before[1]), _widened(after[1])), shown
            assert same(before[3:7], after[3:7]) or "printed" in reasons, shown
    assert changed > PROGRAMS // 20


def _widened(value: Any) -> Any:
    """Tensors as float64 rounded to what float16 keeps, so that only a dtype's precision is forgiven."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.float16).double()
    return tuple(map(_widened, value)) if isinstance(value, tuple) else value
