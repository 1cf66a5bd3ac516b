"""A conditional expression on a tensor as torch.where."""

from __future__ import annotations

import ast

from gbfix.facts.lattice import Kind
from gbfix.rule import Applicability, Context, Edit, Fix
from gbfix_codemods._branch import Choice, Path
from gbfix_codemods._merge import arithmetic_use, check_mutations, merge, used_in_arithmetic
from gbfix_codemods._predicate import predicate
from gbfix_codemods._purity import Decline
from gbfix_codemods._select import Select, Tree
from gbfix_codemods._text import render

NESTED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp, ast.While)


def ternary(context: Context, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.IfExp) -> Fix:
    """The fix for `a if t else b`. Raises Decline."""
    if isinstance(node.test, ast.BoolOp) and not all(context.tested(o) for o in node.test.values):
        raise Decline("the test joins a Python value and a tensor")
    statement = context.statement(node)
    names = (
        {statement.targets[0].id}
        if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name)
        else set()
    )
    if all(context.value(part).kind is Kind.SCALAR for part in (node.body, node.orelse)):
        return _push(context, function, node)
    stand_in = ast.copy_location(ast.If(node.test, [], []), node)
    writer = Select(
        context,
        function,
        Choice(stand_in, node.test, Path(returned=node.body), Path(returned=node.orelse)),
        [],
        True,
        {},
        "",
    )
    tree = writer.one()
    arithmetic = arithmetic_use(context, node) is not None or any(
        used_in_arithmetic(context, function, name, statement) for name in names
    )
    leaves = tree.leaves()
    check_mutations(context, function, statement, names, leaves, writer.claim)
    merge("the value", [leaf.value for leaf in leaves], [leaf.effects for leaf in leaves], writer.claim, arithmetic)
    edits = _edits(context, node, writer.lines, tree)
    return writer.claim.fix("compute both values and select with torch.where", edits, "where")


def _edits(context: Context, node: ast.IfExp, lines: list[str], tree: Tree) -> tuple[Edit, ...]:
    if not lines:
        return (bare(context, context.replace(node, tree.text(context))),)
    if not _can_hoist(context, node):
        raise Decline("the test cannot be computed before the statement")
    statement = context.statement(node)
    indent = context.indent(statement)
    hoisted = Edit(
        statement.lineno,
        statement.col_offset,
        statement.lineno,
        statement.col_offset,
        "".join(f"{line}\n{indent}" for line in lines),
    )
    return (hoisted, bare(context, context.replace(node, tree.text(context))))


def _can_hoist(context: Context, node: ast.IfExp) -> bool:
    """Whether the test is evaluated exactly once, in a statement of its own line, before anything that could change it."""
    statement = context.statement(node)
    if context.before(statement).strip() or not isinstance(
        statement, (ast.Assign, ast.Return, ast.Expr, ast.AnnAssign, ast.AugAssign)
    ):
        return False
    outer = context.parent(node)
    while outer is not None and outer is not statement:
        if isinstance(outer, NESTED):
            return False
        outer = context.parent(outer)
    inside = {id(n) for n in ast.walk(node)}
    beside = [n for n in ast.walk(statement) if id(n) not in inside]
    return not any(isinstance(n, ast.NamedExpr) or (isinstance(n, ast.Call) and _acts(context, n)) for n in beside)


def _acts(context: Context, call: ast.Call) -> bool:
    """Whether a call could change what the test reads, or draw random numbers."""
    op = context.op(call)
    return (
        op is None
        or bool(op.traits & {"inplace", "rng", "state"})
        or not op.traits & {"pure", "view", "static", "raises", "heavy"}
    )


def bare(context: Context, edit: Edit) -> Edit:
    """The edit without the parentheses that stood around the conditional expression alone."""
    head = context.source(edit.line, edit.line)[: edit.column]
    tail = context.source(edit.end_line, edit.end_line)[edit.end_column :]
    if head.endswith("(") and tail.startswith(")") and not (head[:-1][-1:].isalnum() or head[:-1][-1:] in "_)]}"):
        return Edit(edit.line, edit.column - 1, edit.end_line, edit.end_column + 1, edit.text)
    return edit


def _push(context: Context, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.IfExp) -> Fix:
    """`x * (a if t else b)` with numbers a and b becomes `torch.where(t, x * a, x * b)`."""
    product = arithmetic_use(context, node)
    constants = [
        part for part in (node.body, node.orelse) if isinstance(part, ast.Constant) and type(part.value) in (int, float)
    ]
    if product is None or len(constants) != 2 or len({type(c.value) for c in constants}) != 1:
        raise Decline("both values are Python values and the result would become a tensor")
    other = product.right if product.left is node else product.left
    if not isinstance(other, (ast.Name, ast.Attribute)):
        raise Decline("both values are Python numbers and their product's other side would be computed twice")
    test = predicate(context, [node.test])
    if test.hoisted:
        raise Decline("the test holds a walrus assignment")
    operator = {ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.Div: "/"}[type(product.op)]
    sides = [context.text(part) for part in (node.body, node.orelse)]
    base = render(context, other, {})
    pairs = [f"{base} {operator} {side}" if product.left is other else f"{side} {operator} {base}" for side in sides]
    text = f"{context.torch('where')}({test.text}, {pairs[0]}, {pairs[1]})"
    return Fix(
        "select the products with torch.where",
        (bare(context, context.replace(product, text)),),
        Applicability.SAFE,
        "where",
    )
