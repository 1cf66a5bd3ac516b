"""The rule autograd-inside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Wanted
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix_codemods import _autograd as measured
from gbfix_codemods._effects import called, effect, one_line
from gbfix_codemods._places import is_set


class AutogradInside(Rule):
    """Flag gradients, parameters, optimizers and hooks made in compiled code; rewrite what asks the same in another way.

    Breaks because Dynamo traces a forward pass: leaves, their gradients and hooks belong to the code around it.
    Unsafe because a leaf that requires a gradient has no `grad_fn`, and `torch.func` runs the function under vmap.
    Source: GB0008, GB0025, GB0055, GB0083, GB0104, GB0108, GB0123, GB0125, GB0206, GB0225, GB0264, GB0467, GB8985, GB9186
    in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF503"
    gb_ids: ClassVar[tuple[str, ...]] = (
        "GB0008", "GB0025", "GB0055", "GB0083", "GB0104", "GB0108", "GB0123", "GB0125", "GB0206", "GB0225", "GB0264",
        "GB0467", "GB8985", "GB9186",
    )  # fmt: skip
    calls: ClassVar[tuple[str, ...]] = measured.CALLS
    kinds: ClassVar[tuple[str, ...]] = ("attribute", "store")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each site, only in code that is surely compiled: elsewhere it is the training loop."""
        advice = next((text for names, text in measured.ADVICE.items() if site.name in Wanted(names)), "")
        if not advice or not site.certain or not self.breaks(site):
            return
        node = site.node
        spelled = called(self.context, node) if isinstance(node, ast.Call) else one_line(self.context, node)
        message = f"`{spelled}` needs autograd while the graph is made"
        fix = self.asked(node) if isinstance(node, ast.Attribute) else self.transformed(site)
        yield self.report(site, message, fix, "" if fix else advice)

    def breaks(self, site: Site) -> bool:
        """Whether what is known of the arguments says that the site breaks."""
        node = site.node
        if isinstance(node, ast.Attribute):
            return site.name == "torch.Tensor.grad_fn" and self.is_computed(node.value, site.function)
        if not isinstance(node, ast.Call):
            return site.name == "torch.Tensor.requires_grad"
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if site.name in measured.CREATED:
            return _is(given.get("requires_grad"), True)
        if site.name == "torch.Tensor.requires_grad_":
            return not _is(given.get("requires_grad", node.args[0] if node.args else None), False)
        if site.name in measured.PARAMETERS:
            # A tensor that comes in is taken as it is.
            return bool(node.args) and not isinstance(node.args[0], ast.Name)
        if site.name in measured.MODULES:
            return not any(_is(given.get(name), False) for name in ("affine", "elementwise_affine"))
        return True

    def is_computed(self, node: ast.expr, function: ast.AST) -> bool:
        """Whether a tensor is a result of the function: only there Dynamo does not know `grad_fn`."""
        if not isinstance(node, ast.Name):
            return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call))
        return is_set(function, node.id)

    def asked(self, node: ast.Attribute) -> Fix | None:
        """`t.grad_fn is None` as `not t.requires_grad`."""
        test = self.context.parent(node)
        if not isinstance(test, ast.Compare) or test.left is not node or len(test.ops) != 1:
            return None
        if not _is(test.comparators[0], None) or not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return None
        text = f"{self.context.text(node)[: -len('grad_fn')]}requires_grad"
        if isinstance(test.ops[0], ast.Is):
            text = f"not {text}" if isinstance(self.context.parent(test), (ast.If, ast.IfExp)) else f"(not {text})"
        edits = (self.context.replace(test, text),)
        return Fix(
            "ask for `requires_grad`",
            edits,
            Applicability.UNSAFE,
            "same",
            "a leaf that requires a gradient has no `grad_fn`",
        )

    def transformed(self, site: Site) -> Fix | None:
        """`torch.autograd.functional.jacobian(f, x)` as `torch.func.jacrev(f)(x).detach()`."""
        node = site.node
        if site.name != "torch.autograd.functional.jacobian" or not isinstance(node, ast.Call):
            return None
        if len(node.args) != 2 or node.keywords:
            return None
        function, given = node.args
        if self.context.value(given).kind is not Kind.TENSOR or effect(self.context, [given]):
            return None
        if isinstance(function, ast.Lambda) and len(function.args.args) != 1:
            return None
        text = (
            f"{self.context.torch('func.jacrev')}({self.context.text(function)})({self.context.text(given)}).detach()"
        )
        edits = (self.context.replace(node, text),)
        reason = "the rows are computed together, and rounding may differ"
        return Fix("use torch.func.jacrev", edits, Applicability.UNSAFE, "same", reason)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
