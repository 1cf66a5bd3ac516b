"""The rule raise-check."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._checks import CAUGHT, holds, is_check, is_constant, is_plain, kept_name, raises, shortened
from gbfix_codemods._effects import one_line
from gbfix_codemods._places import in_try
from gbfix_codemods._predicate import split_static
from gbfix_codemods._purity import Decline
from gbfix_codemods._text import standalone

LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)


class RaiseCheck(Rule):
    """Flag `if bad: raise ...` on a tensor; rewrite to an asynchronous assert where the code is compiled.

    Breaks because Dynamo cannot know whether the error is raised without the tensor's value.
    Unsafe because compiled code raises RuntimeError, whatever the class was; eager code stays as it is.
    Source: GB0170 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF103"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0170",)
    kinds: ClassVar[tuple[str, ...]] = ("branch",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each `if` that does nothing but raise."""
        node = site.node
        if not isinstance(node, ast.If) or not is_check(node):
            return
        message = f"raises on a tensor value (`{one_line(self.context, node.test)}`)"
        try:
            yield self.report(site, message, self.fix(site, node))
        except Decline as reason:
            yield self.report(site, message, declined=str(reason))

    def fix(self, site: Site, node: ast.If) -> Fix:
        """The fix for one check. Raises Decline."""
        context = self.context
        if context.text(node).startswith("elif"):
            raise Decline("an `elif`: make it an `if` of its own")
        if in_try(context, node):
            raise Decline(CAUGHT)
        if any(isinstance(inner, LEAVES) for statement in node.body for inner in ast.walk(statement)):
            raise Decline("its body does not always raise")
        message, shorter = self.message(node.body[-1])
        indent = context.indent(node)
        compiling = f"if {context.torch('compiler.is_compiling')}():\n{indent}{context.unit()}"
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        tensor = node.test.operand if isinstance(node.test, ast.UnaryOp) and negated else node.test
        edits: tuple[Edit, ...] = ()
        reasons: list[str] = []
        if is_plain(context, tensor):
            name, before = context.text(tensor), ""
            if not isinstance(tensor, ast.Name):
                name = context.fresh_name(site.function, "ok" if negated else "bad")
                before = f"{name} = {standalone(context.text(tensor))}\n{indent}"
                edits = (context.replace(tensor, name),)
            must = kept_name(context, name, tensor, negated=not negated)
            header = f"{before}{compiling}{self.assertion(must, message)}"
        else:
            static, operands = split_static(context, node.test)
            must, reasons = holds(context, operands, negated=True)
            guard = "".join(f"if {self.operand(test, static)}" if i == 0 else f" and {self.operand(test, static)}"
                            for i, test in enumerate(static))  # fmt: skip
            inner = f"{guard}:\n{indent}{context.unit() * 2}" if guard else ""
            header = f"{compiling}{inner}{self.assertion(must, message)}"
        keyword = Edit(node.lineno, node.col_offset, node.lineno, node.col_offset + 2, f"{header}\n{indent}elif")
        why = raises(shorter, reasons)
        return Fix("assert it while compiling", (keyword, *edits), Applicability.UNSAFE, "assert_async", why)

    def assertion(self, must: str, message: str) -> str:
        """The call that raises, where it is not so."""
        return f"{self.context.torch('_assert_async')}({must}, {message})"

    def operand(self, test: ast.expr, tests: list[ast.expr]) -> str:
        """The text of one conjunct."""
        text = " ".join(self.context.text(test).split("\n"))
        loose = isinstance(test, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)) and len(tests) > 1
        return f"({text})" if loose else text

    def message(self, statement: ast.stmt) -> tuple[str, bool]:
        """The literal for compiled code, and whether it is shorter than the error's own message."""
        error = statement.exc if isinstance(statement, ast.Raise) else None
        if error is None:
            raise Decline("it raises again what was caught")
        called = error.func if isinstance(error, ast.Call) else error
        arguments = error.args if isinstance(error, ast.Call) else []
        first = arguments[0] if arguments else None
        return shortened(first, one_line(self.context, called)), not is_constant(first)
