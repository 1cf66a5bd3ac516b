"""Candidate spans: where code that is compiled tests, reads or calls something that could break the graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gbfix.facts.compiled import Reach
from gbfix.facts.flow import Flow
from gbfix.facts.lattice import UNKNOWN, Kind, Site, Tensor, Wanted
from gbfix.facts.objects import Objects
from gbfix.facts.walk import own

if TYPE_CHECKING:
    from gbfix.facts.project import ModuleFacts

READING_NAMES = ("float", "int", "bool", "complex")
TESTS = {ast.If: "branch", ast.While: "while", ast.Assert: "assert", ast.IfExp: "ternary"}
# Kinds whose findings point at the first tensor, not at the whole site.
FOCUSED = {"branch", "while", "assert", "ternary", "for", "truth", "filter"}


def sites(facts: ModuleFacts, reached: dict[int, Reach], calls: Sequence[str]) -> list[Site]:
    """The sites of a module in source order. `calls` are the dotted names, or patterns, whose calls are wanted."""
    found: dict[tuple[str, int], Site] = {}
    wanted = Wanted(calls)
    objects = Objects(facts, wanted)
    for flow in facts.flows.values():
        reach = reached.get(id(flow.function))
        if reach is None:
            continue
        nodes, site = own(flow.function), _maker(flow, reach)
        for one in (*_of_function(flow, wanted, nodes, site), *objects.sites(flow, nodes, site)):
            found.setdefault((one.kind, id(one.node)), one)
    return sorted(found.values(), key=lambda s: (s.node.lineno, s.node.col_offset, s.kind))  # type: ignore[attr-defined]


def tested(flow: Flow, test: ast.expr) -> list[ast.expr]:
    """The tensors (and Python values read from tensors) whose truth a test takes, left to right."""
    if id(test) not in flow.values:
        return []
    if isinstance(test, ast.BoolOp):
        return [part for operand in test.values for part in tested(flow, operand)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return tested(flow, test.operand)
    if isinstance(test, ast.NamedExpr):
        return [test] if tested(flow, test.value) else []
    value = flow.values[id(test)]
    if value.tensor is Tensor.YES or value.kind is Kind.NDARRAY:
        return [test]
    return [test] if value.kind in (Kind.SCALAR, Kind.UNKNOWN) and value.read else []


def _maker(flow: Flow, reach: Reach) -> Callable[..., Site]:
    """What makes the sites of a function: `site(kind, node, parts, name)`, certain where the function and all parts are."""
    function = flow.function
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))

    def site(kind: str, node: ast.AST, parts: list[ast.expr], name: str = "") -> Site:
        certain = reach.certain and all(flow.values.get(id(part), UNKNOWN).certain for part in parts)
        why = reach.why if not reach.certain else "" if certain else "the tensor is inferred from its use"
        return Site(kind, node, function, name, certain, why, parts[0] if parts and kind in FOCUSED else None)

    return site


def _of_function(flow: Flow, calls: Wanted, nodes: list[ast.AST], site: Callable[..., Site]) -> Iterator[Site]:
    judged: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            judged.update(id(part) for part in _decides(node.test))
            reached = flow.values if isinstance(node, ast.IfExp) else flow.reached
            parts = tested(flow, node.test) if id(node) in reached else []
            if parts:
                yield site(TESTS[type(node)], node, parts)
        elif isinstance(node, ast.Call) and id(node) in flow.values:
            yield from _call(flow, node, calls, site)
        elif isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.Compare)) and id(node) not in judged:
            judged.update(id(part) for operand in _operands(node) for part in _decides(operand))
            parts = [part for operand in _operands(node) for part in _truths(flow, operand)]
            if parts:
                yield site("truth", node, parts)
        else:
            yield from _other(flow, node, site, judged)


def _other(flow: Flow, node: ast.AST, site: Callable[..., Site], judged: set[int]) -> Iterator[Site]:
    """The sites of loops over data, of filters, of tensors as indices, and of tensors as text."""
    if isinstance(node, ast.For) and id(node) in flow.reached:
        value = flow.values.get(id(node.iter), UNKNOWN)
        if value.kind is Kind.TENSOR or (value.cls == "range" and value.read):
            yield site("for", node, [node.iter])
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            judged.update(id(part) for part in _decides(test))
            if parts := _truths(flow, test):
                yield site("filter", test, parts)
    elif isinstance(node, ast.Subscript):
        if parts := [part for part in indices(node) if _is_tensor(flow, part)]:
            yield site("index", node, parts)
    elif isinstance(node, ast.FormattedValue):
        if node.conversion != -1 and _is_tensor(flow, node.value):
            yield site("text", node.value, [node.value])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        right = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        parts = [part for part in right if _is_tensor(flow, part)]
        if parts and flow.values.get(id(node.left), UNKNOWN).cls == "str":
            yield site("text", node, parts)


def _is_tensor(flow: Flow, node: ast.expr) -> bool:
    return flow.values.get(id(node), UNKNOWN).tensor is Tensor.YES


def _truths(flow: Flow, test: ast.expr) -> list[ast.expr]:
    """The tensors whose truth a test takes, and the search for a value in a tensor."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
        return [test] if _is_tensor(flow, test.comparators[0]) else []
    return [part for part in tested(flow, test) if _is_tensor(flow, part)]


def _operands(node: ast.BoolOp | ast.UnaryOp | ast.Compare) -> list[ast.expr]:
    """The expressions whose truth an operator takes to give its value. The last operand of `and` and `or` is passed on as it is."""
    if isinstance(node, ast.BoolOp):
        return node.values[:-1]
    if isinstance(node, ast.UnaryOp):
        return [node.operand] if isinstance(node.op, ast.Not) else []
    return [node] if isinstance(node.ops[0], (ast.In, ast.NotIn)) else []


def _decides(test: ast.expr) -> Iterator[ast.expr]:
    """A test, and the tests that it is made of."""
    yield test
    if isinstance(test, ast.BoolOp):
        for operand in test.values:
            yield from _decides(operand)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _decides(test.operand)


def indices(node: ast.Subscript) -> list[ast.expr]:
    """The expressions that select elements: the parts of a tuple index, and the bounds of slices."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [
        inner
        for part in parts
        for inner in ((part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else (part,))
        if inner is not None
    ]


def _call(flow: Flow, node: ast.Call, calls: Wanted, site: Callable[..., Site]) -> Iterator[Site]:
    name = called_name(flow, node)
    if name in calls:
        yield site("call", node, [], name)
    op = flow.op(node)
    if isinstance(node.func, ast.Name) and node.func.id in READING_NAMES and len(node.args) == 1:
        if flow.values.get(id(node.args[0]), UNKNOWN).kind is Kind.TENSOR:
            yield site("read", node, [node.args[0]], node.func.id)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist") and op is None:
        # neither numbers nor lists have these methods
        kind = flow.values.get(id(node.func.value), UNKNOWN).kind
        if kind is Kind.NDARRAY:
            yield site("array", node, [])
        elif kind is Kind.UNKNOWN and flow.values[id(node)].read:
            yield site("read", node, [node], node.func.attr)
    elif op is not None and ("dynamic" in op.traits or op.name.endswith("where")):
        yield site("dynamic", node, [], op.name)
    elif isinstance(node.func, ast.Attribute) and op is not None and op.breaks:
        receiver = flow.values.get(id(node.func.value))
        yield site(
            "read",
            node,
            [node.func.value] if receiver is not None and receiver.kind is Kind.TENSOR else list(node.args[:1]),
            op.name.rpartition(".")[2],
        )


def called_name(flow: Flow, node: ast.Call) -> str:
    """The dotted name that a call reaches: an import, a builtin that nothing shadows, or a logger's method."""
    func = node.func
    if isinstance(func, ast.Name) and func.id not in flow.module.names.aliases:
        shadowed = func.id in flow.module.functions or func.id in flow.module.classes or func.id in flow.locals
        return "" if shadowed else func.id
    if isinstance(func, ast.Attribute):
        value = flow.values.get(id(func.value))
        if value is not None and value.kind is Kind.LOGGER:
            return f"logging.Logger.{func.attr}"
        if value is not None and value.kind is Kind.TENSOR:
            return f"torch.Tensor.{func.attr}"
        if value is not None and value.kind is Kind.LIST:
            return f"list.{func.attr}"
    return flow.module.names.dotted(func) or ""
