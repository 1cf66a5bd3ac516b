"""The remedy for calls that only write text: leave them out while the code is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._effects import called, effect
from gbfix_codemods._lines import under

STREAM_CALLS = tuple(f"sys.{stream}.{method}" for stream in ("stdout", "stderr") for method in ("write", "flush"))
PRINT_CALLS = ("print", "pprint.pprint", "pprint.pp", "traceback.print_exc", "traceback.print_stack", *STREAM_CALLS)
LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log")
LOGGING_CALLS = tuple(f"logging.{level}" for level in LEVELS)
WARNING_CALLS = ("warnings.warn", "warnings.warn_explicit")
# `warning_once` and the like are what packages add to loggers.
LOGGER_METHODS = frozenset({*LEVELS, *(f"{level}_once" for level in LEVELS), "warning_advice"})


class OutputRule(Rule):
    """A rule for calls whose only purpose is the text they write."""

    loses: ClassVar[str]

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call; the fix covers the statements of the same kind that follow."""
        assert isinstance(site.node, ast.Call)
        message = f"`{called(self.context, site.node)}` cannot be traced"
        fix = self.guard(site, site.node)
        if isinstance(fix, str):
            yield self.report(site, message, declined=fix)
        else:
            yield self.report(site, message, fix=fix)

    def writes(self, call: ast.Call) -> bool:
        """Whether the call is one of this rule's that only writes text."""
        return output_name(self, call) in self.calls

    def is_output(self, statement: ast.stmt) -> bool:
        """Whether a statement is one of this rule's calls, and leaving it out drops nothing but text."""
        return (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and self.writes(statement.value)
            and not self.effect(statement.value)
            and "# gbfix: ignore" not in self.context.after(statement)
        )

    def effect(self, call: ast.Call) -> str:
        """What else would be left out with the call."""
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return effect(self.context, [*receiver, *call.args, *(keyword.value for keyword in call.keywords)])

    def guard(self, site: Site, call: ast.Call) -> Fix | str:
        """The fix for one call, or why there is none."""
        statement = self.context.statement(call)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            return "its value is used: make it a statement of its own, under `if not torch.compiler.is_compiling():`"
        if why := self.effect(call):
            return f"{why}, and a guard would leave that out too: do it before the call"
        holder = self.context.parent(statement)
        if isinstance(holder, ast.If) and self.holds_only_output(holder) and (edit := join(self, holder)):
            return self.fix((edit,))
        block = self.context.block(statement)
        last: ast.stmt = statement
        for follower in block[block.index(statement) + 1 :]:
            if not self.is_output(follower):
                break
            last = follower
        compiling = self.context.torch("compiler.is_compiling")
        return self.fix(under(self.context, site.function, statement, last, f"if not {compiling}():"))

    def holds_only_output(self, node: ast.If) -> bool:
        """Whether the `if` has one arm, and that arm only writes text."""
        return not node.orelse and all(self.is_output(statement) for statement in node.body)

    def fix(self, edits: tuple[Edit, ...]) -> Fix:
        """A guard that these edits make."""
        return Fix("guard with `torch.compiler.is_compiling()`", edits, Applicability.UNSAFE, "guard", self.loses)


def join(rule: Rule, node: ast.If) -> Edit | None:
    """Add the guard to a test, or None where the test does more than give a value.

    A test that itself breaks (on a tensor, or by a call) is not evaluated while compiling; one on plain flags comes
    first, where it was.
    """
    context, test = rule.context, node.test
    if effect(context, [test]):
        return None
    compiling = f"not {context.torch('compiler.is_compiling')}()"
    text = context.text(test)
    first = any(isinstance(inner, ast.Call) or context.value(inner).kind is Kind.TENSOR for inner in truths(test))
    loose = (ast.Or, ast.IfExp, ast.Lambda)
    if isinstance(test.op if isinstance(test, ast.BoolOp) else test, loose):
        text = f"({text})"
    return context.replace(test, f"{compiling} and {text}" if first else f"{text} and {compiling}")


def truths(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose truth a test asks for, and the calls in them."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from truths(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from truths(test.operand)
    else:
        yield test
        yield from (node for node in ast.walk(test) if isinstance(node, ast.Call))


def output_name(rule: Rule, call: ast.Call) -> str:
    """The dotted name of a call that only writes text (`logging.Logger.*` for a logger's), empty for any other."""
    func = call.func
    if isinstance(func, ast.Attribute) and rule.context.value(func.value).kind is Kind.LOGGER:
        return "logging.Logger.*" if func.attr in LOGGER_METHODS else ""
    name = rule.context.dotted(func) or (func.id if isinstance(func, ast.Name) else "")
    return name if name in (*PRINT_CALLS, *LOGGING_CALLS, *WARNING_CALLS) else ""
