"""The rule tensor-truth."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Tensor, Value
from gbfix.rule import Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._merge import Claim
from gbfix_codemods._places import in_test, in_text
from gbfix_codemods._predicate import predicate
from gbfix_codemods._purity import Decline

SORTS = ("sorted", "list.sort", "max", "min")


class TensorTruth(Rule):
    """Flag code that asks for a tensor's truth or order outside of a branch; rewrite `a and b` to `torch.logical_and(a, b)`.

    Breaks because `and`, `or`, `not`, `any`, `in`, filters and sorting need the tensor's value to go on.
    Unsafe because both operands are always computed, and the result is a new tensor.
    Source: GB0170, GB0033, GB0124, GB0207, GB0059 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF105"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0170", "GB0033", "GB0124", "GB0207", "GB0059")
    kinds: ClassVar[tuple[str, ...]] = ("truth", "filter")
    calls: ClassVar[tuple[str, ...]] = ("any", "all", "filter", "list.index", *SORTS)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each operator, filter or call that needs a truth value."""
        node = site.node
        if in_text(self, node):
            return
        if isinstance(node, ast.Call):
            if not in_test(self.context, node) and (declined := self.call(site, node)):
                yield self.report(
                    site, f"`{called(self.context, node)}` reads the values of tensors", declined=declined
                )
            return
        message = f"`{one_line(self.context, node)}` asks for a tensor's truth"
        try:
            yield self.report(site, message, self.operator(site, node))
        except Decline as reason:
            yield self.report(site, message, declined=str(reason))

    def operator(self, site: Site, node: ast.AST) -> Fix:
        """The fix for `and` or `or` of two flags. Raises Decline."""
        context = self.context
        if site.kind == "filter":
            raise Decline("the number of elements kept depends on data: keep all and weigh them with a mask")
        if isinstance(node, ast.UnaryOp):
            raise Decline("`not` gives a Python bool: torch.logical_not(t) stays a tensor")
        if isinstance(node, ast.Compare):
            raise Decline("`in` gives a Python bool: `(t == value).any()` stays a tensor")
        assert isinstance(node, ast.BoolOp)
        values = [context.value(operand) for operand in node.values]
        if not all(value.is_bool and value.is_zero_dim for value in values):
            keeps = "where(a != 0, b, a)" if isinstance(node.op, ast.And) else "where(a != 0, a, b)"
            raise Decline(f"it gives one of its operands: torch.{keeps} does so where both have one dtype and shape")
        test = predicate(context, [node])
        if test.hoisted:
            raise Decline("an operand assigns a name")
        named = (ast.Name, ast.Attribute, ast.Subscript)
        fresh = all(v.fresh and not isinstance(o, named) for v, o in zip(values, node.values, strict=True))
        claim = Claim([*test.reasons, *([] if fresh else ["the result is a new tensor, not one of the operands"])])
        return claim.fix("join the flags as tensors", (context.replace(node, test.text),), "logical")

    def call(self, site: Site, node: ast.Call) -> str:
        """Why a call needs values and what would not; empty when it does not need any."""
        first = self.context.value(node.args[0]) if node.args else None
        if site.name in ("any", "all"):
            if first is not None and self.holds_tensors(first):
                whole = f"`t.{site.name}()`" if first.kind is Kind.TENSOR else f"`torch.stack([...]).{site.name}()`"
                return f"`{site.name}` gives a Python bool: {whole} stays a tensor"
        elif site.name == "filter":
            if len(node.args) == 2 and isinstance(node.args[0], ast.Lambda) and self.is_tensor(node.args[0].body):
                return "the number of elements kept depends on data: keep all and weigh them with a mask"
        elif site.name == "list.index":
            if self.is_tensor(node.args[0]) and not self.holds_tensors(self.context.value(node.func.value)):  # type: ignore[attr-defined]
                return "the list is searched by value: compare with a tensor of its elements"
        elif self.sorts(site, node, first):
            return "the order depends on data: stack the tensors and use torch.sort, argmax or argmin"
        return ""

    def sorts(self, site: Site, node: ast.Call, first: Value | None) -> bool:
        """Whether a call puts elements in the order of tensors. `max` and `min` without a key do not break."""
        key = next((keyword.value for keyword in node.keywords if keyword.arg == "key"), None)
        if key is not None:
            return isinstance(key, ast.Lambda) and self.is_tensor(key.body)
        if site.name == "list.sort" and isinstance(node.func, ast.Attribute):
            first = self.context.value(node.func.value)
        return site.name in ("sorted", "list.sort") and first is not None and self.holds_tensors(first)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is known to be a tensor."""
        return self.context.value(node).tensor is Tensor.YES

    def holds_tensors(self, value: Value) -> bool:
        """Whether the elements of a value are tensors."""
        if value.kind is Kind.TENSOR:
            return not value.optional
        items = value.items if value.kind in (Kind.LIST, Kind.TUPLE) else None
        return bool(items) and any(item.tensor is Tensor.YES for item in items or ())
