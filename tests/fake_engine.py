"""An engine that needs no facts: it knows a line by a word in it. For tests of what stands around the engine."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Sequence

from gbfix.engine import Outcome
from gbfix.errors import Trouble
from gbfix.facts.lattice import DEFAULT_SCOPE, Scope
from gbfix.registry import Registry
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule


class GraphBreakCall(Rule):
    """Flag a call of `graph_break()`; remove it.

    Breaks because it asks for it.
    """

    code = "GBF101"
    gb_ids = ("GB0025",)


class PrintCall(Rule):
    """Flag `print`; put a pass in its place."""

    code = "GBF301"
    gb_ids = ("GB0059",)


class ItemRead(Rule):
    """Flag `.item()`."""

    code = "GBF201"
    gb_ids = ("GB0124",)


RULES = (GraphBreakCall, ItemRead, PrintCall)
REGISTRY = Registry(RULES)


def finding(rule: type[Rule], line: int, text: str, start: int, path: str = "a.py", **more: object) -> Finding:
    """A finding from `start` to the end of a line."""
    more.setdefault("declined", "" if "fix" in more else "the value is used as a Python number")
    fingerprint = hashlib.sha256(f"{path}{rule.code}{text.strip()}".encode()).hexdigest()
    return Finding(
        code=rule.code, name=rule.name(), gb_ids=rule.gb_ids, message=f"`{text.strip()}` breaks the graph", line=line,
        column=start, end_line=line, end_column=len(text.rstrip()), symbol="step", certain=True, path=path,
        fingerprint=fingerprint, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _findings(lines: Sequence[str], path: str, codes: set[str]) -> list[Finding]:
    found = []
    for number, text in enumerate(lines, 1):
        start = len(text) - len(text.lstrip())
        if "graph_break()" in text:
            fix = Fix("remove the call", (Edit(number, 0, number + 1, 0, ""),), Applicability.SAFE, "remove")
            found.append(finding(GraphBreakCall, number, text, start, path, fix=fix))
        if "print(" in text:
            edit = Edit(number, start, number, len(text.rstrip()), "pass")
            fix = Fix("drop the print", (edit,), Applicability.UNSAFE, "drop", reason="nothing is printed")
            found.append(finding(PrintCall, number, text, start, path, fix=fix))
        if ".item()" in text:
            found.append(finding(ItemRead, number, text, start, path))
    return [one for one in found if one.code in codes]


def run(
    source: bytes,
    path: str,
    rules: Sequence[type[Rule]],
    *,
    unsafe: bool = False,
    fix: bool = True,
    skip: frozenset[str] = frozenset(),
    scope: Scope = DEFAULT_SCOPE,
) -> Outcome:
    """As engine.run. `crash!` in a text raises, `die!` ends the process."""
    if b"crash!" in source:
        raise ValueError("told to crash")
    if b"die!" in source:
        os._exit(3)
    try:
        ast.parse(source)
    except SyntaxError as error:
        trouble = Trouble(path, "syntax", error.msg, error.lineno or 1, (error.offset or 1) - 1)
        return Outcome(path, source, source, (), (), (trouble,))
    lines = [line + "\n" for line in source.decode("latin-1").split("\n")]
    fixed, left, kept = [], [], list(lines)
    for one in _findings(lines, path, {rule.code for rule in rules}):
        claim = one.fix.applicability if one.fix else None
        if fix and one.fix and (claim is Applicability.SAFE or unsafe) and one.fingerprint not in skip:
            fixed.append(one)
            (edit,) = one.fix.edits
            old = lines[one.line - 1]
            kept[one.line - 1] = (
                "" if edit.end_line > edit.line else old[: edit.column] + edit.text + old[edit.end_column :]
            )
        else:
            left.append(one)
    return Outcome(path, source, "".join(kept)[:-1].encode("latin-1"), tuple(fixed), tuple(left), ())
