"""The rule python-builtin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Site, Tensor
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._places import in_test, in_text

TEXT = 'a text needs the values: `f"{t}"` and `"{}".format(t)` are put together after the graph has run'
ADVICE = {
    "round": "`round` has no form for tensors in a graph: `torch.round(t, decimals=n)` stays a tensor",
    "divmod": "torch.div(a, b, rounding_mode='floor') and torch.remainder(a, b) stay tensors",
    "hash": "a tensor's hash is its identity, which a graph does not have: use `id` outside of the compiled code",
    "str": TEXT,
    "repr": TEXT,
    "format": TEXT,
}
LOOSE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
# Around these an expression needs no parentheses.
OPEN = (ast.stmt, ast.keyword, ast.Call, ast.Tuple, ast.List, ast.Slice, ast.NamedExpr)


class PythonBuiltin(Rule):
    """Flag builtins of Python that torch does not trace for tensors; rewrite `pow(t, n)` to `t ** n`.

    Breaks because `pow`, `round`, `divmod`, `hash`, `str`, `repr` and `%` of texts have no graph form for tensors.
    Safe because `pow` with two arguments is `**`.
    Source: GB0059, GB0088, GB0208, GB0569, GB3006, GB6270 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF203"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0059", "GB0088", "GB0208", "GB0569", "GB3006", "GB6270")
    kinds: ClassVar[tuple[str, ...]] = ("text",)
    calls: ClassVar[tuple[str, ...]] = ("pow", *ADVICE)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call or format that takes a tensor."""
        node = site.node
        if in_text(self, node) or in_test(self.context, node):
            return
        if not isinstance(node, ast.Call):
            message = f"`{one_line(self.context, node)}` makes a text of a tensor"
            yield self.report(site, message, declined=TEXT)
        elif any(self.context.value(a).tensor is Tensor.YES for a in node.args):
            if site.name == "hash" and isinstance(self.context.parent(node), (ast.Dict, ast.Set, ast.Subscript)):
                return
            message = f"`{called(self.context, node)}` of a tensor cannot be traced"
            if site.name == "pow" and len(node.args) == 2 and not node.keywords:
                yield self.report(site, message, self.power(node))
            else:
                declined = ADVICE.get(site.name, "`pow` with three arguments has no form for tensors")
                yield self.report(site, message, declined=declined)

    def power(self, node: ast.Call) -> Fix:
        """`pow(a, b)` as `a ** b`."""
        base, exponent = (
            text if isinstance(argument, LOOSE) and not text.startswith("-") else f"({text})"
            for argument, text in ((argument, self.context.text(argument)) for argument in node.args)
        )
        text = f"{base} ** {exponent}"
        if not isinstance(self.context.parent(node), OPEN) or "\n" in text:
            text = f"({text})"
        edits = (self.context.replace(node, text),)
        return Fix("write the operator", edits, Applicability.SAFE, "operator")
