"""One text and some rules in, an Outcome out: fixes applied to a fixed point, findings that are left, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gbfix.errors import Trouble
from gbfix.rule import Finding, Rule


@dataclass(frozen=True)
class Outcome:
    """What came of one file.

    `fixed` are findings whose fix was applied (with positions of the pass that found them), `left` the rest, with positions
    in the original text. `source` is the new text; equal to the old one when nothing changed.
    """

    path: str
    original: bytes
    source: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    troubles: tuple[Trouble, ...]


def run(
    source: bytes,
    path: str,
    rules: Sequence[type[Rule]],
    *,
    unsafe: bool = False,
    fix: bool = True,
    skip: frozenset[str] = frozenset(),
) -> Outcome:
    """Apply the rules' fixes to one text.

    With `unsafe`, also fixes that may change results. Without `fix`, everything is only listed (in `left`). Fixes whose
    finding's fingerprint is in `skip` are not applied.
    """
    raise NotImplementedError
