"""The rule logger-call."""

from __future__ import annotations

import ast
from typing import ClassVar

from gbfix.facts.lattice import Site
from gbfix.rule import Fix
from gbfix_codemods._guard import LOGGING_CALLS, OutputRule, join


class LoggerCall(OutputRule):
    """Flag a call of a logger; rewrite to a call under `if not torch.compiler.is_compiling()`.

    Breaks because Dynamo does not trace methods of `logging.Logger`, nor the functions of `logging`.
    Unsafe because the compiled code logs nothing.
    Source: GB0291 (methods), GB4841 (functions), GB6215 (`getLogger`) in torch/_dynamo/graph_break_registry.json,
    torch 2.13.
    """

    code: ClassVar[str] = "GBF302"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0291", "GB4841", "GB6215")
    calls: ClassVar[tuple[str, ...]] = ("logging.Logger.*", *LOGGING_CALLS)
    loses: ClassVar[str] = "nothing is logged while compiled"

    def guard(self, site: Site, call: ast.Call) -> Fix | str:
        """As for any output; a level test around nothing but output is guarded with it."""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if self.writes(call):
            return super().guard(site, call)
        if method not in ("isEnabledFor", "getEffectiveLevel"):
            return f"`{method}` is not output: call it before the code is compiled"
        holder = self.context.statement(call)
        if isinstance(holder, ast.If) and self.holds_only_output(holder) and (edit := join(self, holder)):
            return self.fix((edit,))
        return "its answer decides more than output: ask once before the code is compiled, and keep the answer"
