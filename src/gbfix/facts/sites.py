"""Candidate spans: where code that is compiled tests, reads or calls something that could break the graph."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gbfix.facts.compiled import Reach
from gbfix.facts.flow import Flow
from gbfix.facts.lattice import UNKNOWN, Kind, Site

if TYPE_CHECKING:
    from gbfix.facts.project import ModuleFacts

READING_NAMES = ("float", "int", "bool", "complex")


def sites(facts: ModuleFacts, reached: dict[int, Reach], calls: Sequence[str]) -> list[Site]:
    """The sites of a module in source order. `calls` are the dotted names, or patterns, whose calls are wanted."""
    found: dict[tuple[str, int], Site] = {}
    for flow in facts.flows.values():
        reach = reached.get(id(flow.function))
        if reach is None:
            continue
        for site in _of_function(flow, calls, reach):
            found.setdefault((site.kind, id(site.node)), site)
    return sorted(found.values(), key=lambda s: (s.node.lineno, s.node.col_offset, s.kind))  # type: ignore[attr-defined]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's own body, nested functions left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
            yield from walk(child)


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
    if value.kind is Kind.TENSOR and not value.optional:
        return [test]
    return [test] if value.kind in (Kind.SCALAR, Kind.UNKNOWN) and value.read else []


def _of_function(flow: Flow, calls: Sequence[str], reach: Reach) -> Iterator[Site]:
    function = flow.function
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))

    def site(kind: str, node: ast.AST, parts: list[ast.expr], name: str = "") -> Site:
        certain = reach.certain and all(flow.values.get(id(part), UNKNOWN).certain for part in parts)
        why = reach.why if not reach.certain else "" if certain else "the tensor is inferred from its use"
        return Site(
            kind, node, function, name, certain, why, parts[0] if parts and kind not in ("read", "call") else None
        )

    for statement in function.body:
        for node in (statement, *walk(statement)):
            if isinstance(node, (ast.If, ast.While, ast.Assert)) and id(node) in flow.reached:
                parts = tested(flow, node.test)
                if parts:
                    yield site({ast.If: "branch", ast.While: "while", ast.Assert: "assert"}[type(node)], node, parts)
            elif isinstance(node, ast.IfExp) and id(node) in flow.values:
                parts = tested(flow, node.test)
                if parts:
                    yield site("ternary", node, parts)
            elif isinstance(node, ast.Call) and id(node) in flow.values:
                yield from _call(flow, node, calls, site)


def _call(flow: Flow, node: ast.Call, calls: Sequence[str], site: Callable[..., Site]) -> Iterator[Site]:
    name = called_name(flow, node)
    if name and any(fnmatch.fnmatchcase(name, pattern) for pattern in calls):
        yield site("call", node, [], name)
    if isinstance(node.func, ast.Name) and node.func.id in READING_NAMES and len(node.args) == 1:
        if flow.values.get(id(node.args[0]), UNKNOWN).kind is Kind.TENSOR:
            yield site("read", node, [node.args[0]], node.func.id)
    elif isinstance(node.func, ast.Attribute):
        op = flow.op(node)
        if op is not None and op.breaks:
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
    return flow.module.names.dotted(func) or ""
