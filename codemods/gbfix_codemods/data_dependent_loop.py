"""The rule data-dependent-loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.facts.liveness import targets
from gbfix.rule import Finding, Rule
from gbfix_codemods._effects import one_line

WHILE_LOOP = "torch.while_loop keeps it in the graph, where each value that the loop carries is a tensor of fixed shape and dtype"
MASK = "with the loop's own bound as `for _ in range(bound)`, `done = done | test` and `x = torch.where(done, x, new)` do the same"
GROWS = ("append", "extend", "cat", "concat", "stack", "hstack", "vstack", "pad")


class DataDependentLoop(Rule):
    """Flag a loop whose number of iterations depends on data; rewrite nothing: it needs a bound, or torch.while_loop.

    Breaks because Dynamo unrolls loops, and a break inside one keeps the whole function from being compiled.
    Unsafe because a bound that the source does not state can be too small.
    Source: GB0170, GB0124, GB0059, GB0036 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF102"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0170", "GB0124", "GB0059", "GB0036")
    kinds: ClassVar[tuple[str, ...]] = ("while", "for")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each `while` on a tensor, and each `for` over as many elements as the data say."""
        node = site.node
        if isinstance(node, ast.While):
            message = f"loops while a tensor says so (`{one_line(self.context, node.test)}`)"
            yield self.report(site, message, declined=self.advice(node))
        elif isinstance(node, ast.For):
            if self.context.value(node.iter).kind is not Kind.TENSOR:
                if any(self.context.value(a).kind is Kind.TENSOR for a in getattr(node.iter, "args", [])):
                    message = f"`{one_line(self.context, node.iter)}` needs a tensor's value"
                    declined = f"the number of iterations depends on data: loop over a static bound, or {WHILE_LOOP}"
                    yield self.report(site, message, declined=declined)
            elif self.is_dynamic(site, node.iter):
                message = f"loops over `{one_line(self.context, node.iter)}`, whose length depends on data"
                declined = "loop over all candidates, which are as many every time, and weigh them with a mask"
                yield self.report(site, message, declined=declined)

    def advice(self, node: ast.While) -> str:
        """What a `while` would need."""
        grown = next(
            (
                call
                for statement in node.body
                for call in ast.walk(statement)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in GROWS
            ),
            None,
        )
        if grown is not None:
            return (
                f"`{one_line(self.context, grown.func)}` makes a result whose size depends on data, which no graph can hold: "
                "keep the loop outside of the compiled code"
            )
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            counters = [part for part in node.test.values if not self.context.tested(part)]
            changed = {name for statement in node.body for name in targets(statement)}
            for part in counters:
                if any(isinstance(inner, ast.Name) and inner.id in changed for inner in ast.walk(part)):
                    return f"`{one_line(self.context, part)}` bounds it: {MASK}; {WHILE_LOOP}"
        return f"no bound is known: {WHILE_LOOP}"

    def is_dynamic(self, site: Site, node: ast.expr) -> bool:
        """Whether a tensor comes from an operator whose output has as many rows as the data say."""
        if isinstance(node, ast.Name):
            values = [
                inner.value
                for inner in ast.walk(site.function)
                if isinstance(inner, ast.Assign) and node.id in targets(inner)
            ]
            return bool(values) and all(not isinstance(v, ast.Name) and self.is_dynamic(site, v) for v in values)
        while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
            op = self.context.op(node) if isinstance(node, ast.Call) else None
            if op is not None and "dynamic" in op.traits:
                return True
            node = node.func if isinstance(node, ast.Call) else node.value
        return False
