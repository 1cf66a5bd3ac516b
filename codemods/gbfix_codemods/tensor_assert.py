"""The rule tensor-assert."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._checks import CAUGHT, holds, is_constant, is_plain, raises, shortened
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._lines import leads, under
from gbfix_codemods._places import in_try
from gbfix_codemods._purity import Decline
from gbfix_codemods._text import standalone

COMPARES = ("torch.testing.assert_close", "torch.testing.assert_allclose")
TESTS = ("torch._assert", "torch._check_tensor_all")
FORMS = {
    ast.BoolOp: "`and` and `or` choose between tensors", ast.UnaryOp: "`not` asks for a tensor's truth",
    ast.Compare: "a chained comparison joins tensors with `and`", ast.IfExp: "a conditional expression is tested in parts",
}  # fmt: skip


class TensorAssert(Rule):
    """Flag an assert on a tensor in a form that breaks; rewrite it to the plain form, `assert t, "text"`.

    Breaks because Dynamo takes only `assert` on one tensor, with a constant text or none, into the graph.
    Unsafe because compiled code raises RuntimeError instead of AssertionError.
    Source: GB0170, GB0124, GB0033 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF104"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0170", "GB0124", "GB0033")
    kinds: ClassVar[tuple[str, ...]] = ("assert",)
    calls: ClassVar[tuple[str, ...]] = (*TESTS, *COMPARES)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each assert that breaks; a plain one does not."""
        node = site.node
        try:
            if isinstance(node, ast.Assert):
                if why := self.breaks(node):
                    message = f"assert on a tensor value: {why}"
                    yield self.report(site, message, self.rewrite(site, node))
            elif isinstance(node, ast.Call) and (
                site.name in COMPARES or any(self.context.value(a).kind is Kind.TENSOR for a in node.args[:1])
            ):
                message = f"`{called(self.context, node)}` reads a tensor's value"
                yield self.report(site, message, self.call(site, node))
        except Decline as reason:
            yield self.report(site, message, declined=str(reason))

    def breaks(self, node: ast.Assert) -> str:
        """Why an assert breaks, empty when Dynamo takes it into the graph."""
        test = node.test
        while isinstance(test, ast.BoolOp) and not any(self.context.tested(operand) for operand in test.values[:-1]):
            test = test.values[-1]  # Python values that are tested first do not break
        if isinstance(test, ast.NamedExpr):
            test = test.value
        if not is_plain(self.context, test):
            if isinstance(test, ast.Compare) and len(test.ops) == 1:
                return f"`{one_line(self.context, test)}` is read on the host"
            return FORMS.get(type(test), f"`{one_line(self.context, test)}` is read on the host")
        return "" if is_constant(node.msg) else "its message is not a constant text"

    def rewrite(self, site: Site, node: ast.Assert) -> Fix:
        """The plain form of an assert. Raises Decline."""
        context = self.context
        if in_try(context, node):
            raise Decline(CAUGHT)
        tests, reasons = self.split(node.test)
        first = context.block(node)[0]
        indent = context.indent(first) + ("" if leads(context, first) else context.unit())
        exact = is_constant(node.msg)
        why = raises(not exact, reasons)
        if exact:
            end = f", {standalone(context.text(node.msg))}" if node.msg is not None else ""
            if len(tests) == 1:
                edits: tuple[Edit, ...] = (context.replace(node.test, tests[0]),)
            else:
                if not leads(context, node):
                    raise Decline("it shares its line with other code")
                edits = (context.replace(node, f"\n{indent}".join(f"assert {test}{end}" for test in tests)),)
            return Fix("assert each tensor", edits, Applicability.UNSAFE, "assert", why)
        text = shortened(node.msg, f"not {one_line(context, node.test)}")
        inner = indent + context.unit()
        lines = "".join(f"\n{inner}assert {test}, {text}" for test in tests)
        header = f"if {context.torch('compiler.is_compiling')}():{lines}\n{indent}else:"
        edits = under(context, site.function, node, node, header)
        return Fix("assert with a constant text while compiling", edits, Applicability.UNSAFE, "assert", why)

    def split(self, test: ast.expr) -> tuple[list[str], list[str]]:
        """The tests to assert one by one, and why computing them is not safe."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            parts = [self.split(operand) for operand in test.values]
            return [t for tests, _ in parts for t in tests], [r for _, reasons in parts for r in reasons]
        if is_plain(self.context, test) or not self.context.tested(test):
            return [standalone(self.context.text(test))], []
        text, reasons = holds(self.context, [test], negated=False)
        return [text], reasons

    def call(self, site: Site, node: ast.Call) -> Fix:
        """The fix for a function that checks. Raises Decline."""
        context = self.context
        statement = context.statement(node)
        if not isinstance(statement, ast.Expr) or statement.value is not node or in_try(context, node):
            raise Decline(CAUGHT if in_try(context, node) else "its value is used")
        if site.name in COMPARES:
            header = f"if not {context.torch('compiler.is_compiling')}():"
            edits = under(context, site.function, statement, statement, header)
            return Fix(
                "compare in eager code only", edits, Applicability.UNSAFE, "guard", "compiled code compares nothing"
            )
        if len(node.args) != 2 or node.keywords:
            raise Decline("it has no constant message: `assert t` and `torch._assert_async(t, text)` stay in the graph")
        condition, message = node.args
        if isinstance(message, ast.Lambda):
            message = message.body
        if not is_constant(message):
            raise Decline("its message is not a constant text")
        tests, reasons = self.split(condition)
        if site.name == "torch._assert" and len(tests) == 1:
            text = f"assert {tests[0]}, {standalone(context.text(message))}"
        elif len(tests) == 1 and context.value(condition).is_bool:
            whole = tests[0] if context.value(condition).is_zero_dim else f"({tests[0]}).all()"
            text = f"{context.torch('_assert_async')}({whole}, {context.text(message)})"
        else:
            raise Decline("its condition is not known to be one tensor of dtype bool")
        edits = (context.replace(statement, text),)
        return Fix("assert it in the graph", edits, Applicability.UNSAFE, "assert", raises(False, reasons))
