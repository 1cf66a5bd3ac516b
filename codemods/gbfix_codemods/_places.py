"""Where in a function a node stands, as far as it decides which rule speaks of it, and what a break costs there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gbfix.facts.lattice import Kind
from gbfix.facts.liveness import reads, targets
from gbfix.rule import Context, Rule
from gbfix_codemods._guard import output_name
from gbfix_codemods._purity import operands

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def ancestors(context: Context, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, innermost first, up to the function that holds it."""
    parent = context.parent(node)
    while parent is not None and not isinstance(parent, SCOPES):
        yield parent
        parent = context.parent(parent)


def in_test(context: Context, node: ast.AST) -> bool:
    """Whether the value decides a branch, so that the branch is the finding."""
    return any(
        isinstance(around, (ast.If, ast.While, ast.Assert, ast.IfExp))
        and any(inner is node for part in context.tested(around.test) for inner in ast.walk(part))
        for around in ancestors(context, node)
    )


def in_text(rule: Rule, node: ast.AST) -> bool:
    """Whether the value is only written out or raised: the output is the finding, or nothing is before the error."""
    statement = rule.context.statement(node)
    if isinstance(statement, ast.Raise):
        return True
    if isinstance(statement, ast.Assert):
        return statement.msg is not None and any(inner is node for inner in ast.walk(statement.msg))
    return in_output(rule, node)


def in_output(rule: Rule, node: ast.AST) -> bool:
    """Whether the statement only writes text, so that the output is the finding."""
    statement = rule.context.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and output_name(rule, call) != ""


def is_set(function: ast.AST, name: str) -> bool:
    """Whether a function binds a name."""
    return any(
        isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store)
        for inner in ast.walk(function)
    )


def in_try(context: Context, node: ast.AST) -> bool:
    """Whether an error raised here could be caught in the same function."""
    return any(isinstance(around, ast.Try) for around in ancestors(context, node))


def is_input(context: Context, node: ast.AST) -> bool:
    """Whether a tensor comes in as it is: Dynamo then takes its value for a constant and guards it, without a break."""
    value = context.value(node)
    return isinstance(node, ast.Name) and value.shape == f"s:{node.id}" and not value.fresh


def is_known(context: Context, node: ast.expr, asked: frozenset[str] = frozenset()) -> bool:
    """Whether a tensor is computed from Python numbers alone: Dynamo knows its value as long as it has one element.

    `asked` are names whose assignments are being looked at already.
    """
    if context.value(node).kind is not Kind.TENSOR:
        return context.value(node).kind in (Kind.SCALAR, Kind.LIST, Kind.TUPLE) and not context.value(node).read
    if isinstance(node, ast.Name):
        function = context.parent(node)
        while not isinstance(function, SCOPES) and function is not None:
            function = context.parent(function)
        if function is None or node.id in asked:
            return False
        asked |= {node.id}
        assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and node.id in targets(n)]
        plain = all(isinstance(n.targets[0], ast.Name) and node.id not in reads(n.value) for n in assigned)
        return bool(assigned) and plain and all(is_known(context, n.value, asked) for n in assigned)
    if isinstance(node, ast.BinOp):
        return is_known(context, node.left, asked) and is_known(context, node.right, asked)
    op = context.op(node) if isinstance(node, ast.Call) else None
    if op is None or not isinstance(node, ast.Call) or "rng" in op.traits or op.name == "torch.arange":
        return False
    return all(is_known(context, argument, asked) for argument in operands(context, node))
