"""The rule requested-break."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._effects import called
from gbfix_codemods._lines import leads

BREAKS = ("torch._dynamo.graph_break", "torch._dynamo.skip_frame")
DISABLED = "torch.compiler.disable.__call__"


class RequestedBreak(Rule):
    """Flag a graph break that the code asks for; rewrite `torch._dynamo.graph_break()` by leaving it out.

    Breaks because it says so, and the call of a function under `torch.compiler.disable` is a break each time.
    Unsafe because whoever wrote it had a reason.
    Source: GB0025, GB0098, GB0099, GB4297 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF504"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0025", "GB0098", "GB0099", "GB4297")
    calls: ClassVar[tuple[str, ...]] = (*BREAKS, DISABLED, "torch.compiler.disable", "torch._dynamo.disable")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        node = site.node
        assert isinstance(node, ast.Call)
        text = called(self.context, node)
        statement = self.context.statement(node)
        if site.name not in BREAKS:
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield self.report(site, f"`{text}` runs outside of the graph", declined=_advice(site.name))
            return
        message = f"`{text}` asks for a graph break"
        if not isinstance(statement, ast.Expr) or statement.value is not node:
            yield self.report(site, message, declined="it is not a statement of its own")
            return
        edits = (self.without(statement),)
        reason = "the break was asked for"
        yield self.report(site, message, Fix("leave it out", edits, Applicability.UNSAFE, "remove", reason))

    def without(self, statement: ast.stmt) -> Edit:
        """The edit that takes out a statement: its line, or what stands before the next on that line, or `pass` in its place."""
        block = self.context.block(statement)
        index = block.index(statement)
        if len(block) == 1:
            return self.context.replace(statement, "pass")
        if index + 1 < len(block) and not leads(self.context, block[index + 1]):
            after = block[index + 1]
            return Edit(statement.lineno, statement.col_offset, after.lineno, after.col_offset, "")
        if index > 0 and not leads(self.context, statement):
            before, span = self.context.replace(block[index - 1], ""), self.context.replace(statement, "")
            return Edit(before.end_line, before.end_column, span.end_line, span.end_column, "")
        end = statement.end_lineno or statement.lineno
        if leads(self.context, statement) and not self.context.after(statement).strip():
            return Edit(statement.lineno, 0, end + 1, 0, "")
        return self.context.replace(statement, "pass")


def _advice(name: str) -> str:
    if name == DISABLED:
        return (
            "it is left out by torch.compiler.disable, at one break a call: in a loop, leave the whole loop out instead"
        )
    return "disable the function where it is defined"
