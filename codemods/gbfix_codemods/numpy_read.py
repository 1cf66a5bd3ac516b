"""The rule numpy-read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Finding, Rule
from gbfix_codemods._effects import one_line
from gbfix_codemods._places import in_test, in_text

# Of one Python number they give a number that Dynamo knows.
ELEMENTWISE = {
    f"numpy.{name}"
    for name in (
        "ceil", "exp", "exp2", "expm1", "float16", "float32", "float64", "floor", "log", "log10", "log1p", "log2", "rint",
        "round", "sqrt", "tanh", "trunc",
    )
}  # fmt: skip


class NumpyRead(Rule):
    """Flag `.item()` and `.tolist()` of a NumPy array; rewrite nothing: other ways to the number have other types.

    Breaks because Dynamo traces NumPy as tensor operations, so that a Python number needs a tensor's value.
    Unsafe because NumPy's numbers have NumPy's types and digits.
    Source: GB0033 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF204"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0033",)
    kinds: ClassVar[tuple[str, ...]] = ("array",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each read that is not a test's (data-dependent-branch)."""
        node = site.node
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        if in_text(self, node) or in_test(self.context, node) or self.is_known(node.func.value):
            return
        message = f"`{one_line(self.context, node)}` reads what NumPy computes"
        declined = "keep the array, or compute before the compiled code and pass the number in"
        yield self.report(site, message, declined=declined)

    def is_known(self, node: ast.expr) -> bool:
        """Whether NumPy was only used for elementwise functions of Python numbers."""
        if self.context.value(node).kind is Kind.SCALAR:
            return not self.context.value(node).read
        if not isinstance(node, ast.Call) or self.context.dotted(node.func) not in ELEMENTWISE:
            return False
        return all(self.is_known(argument) for argument in node.args)
