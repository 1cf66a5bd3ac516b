"""Which names may still be read after a statement: backward data flow over one function's statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence


def reads(node: ast.AST | None) -> set[str]:
    """Names that an expression or statement may read, nested functions included."""
    if node is None:
        return set()
    found = {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found.add(node.target.id)
    return found


def targets(node: ast.AST) -> set[str]:
    """Names that a statement or expression binds (walrus included, nested scopes left out)."""
    found: set[str] = set()
    stack: list[ast.AST] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Name) and isinstance(current.ctx, (ast.Store, ast.Del)):
            found.add(current.id)
        if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(current.name)
            continue
        if isinstance(current, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.split(".")[0] for alias in current.names}
        if not isinstance(current, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            stack.extend(ast.iter_child_nodes(current))
    return found


class Liveness:
    """Names live after each statement of a function. Names that a nested function reads are always live."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._after: dict[int, frozenset[str]] = {}
        self._always: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self._always |= set(node.names)
            if node is not function and isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
            ):
                self._always |= reads(node)
            if isinstance(node, ast.Name) and node.id in ("locals", "vars", "eval", "exec"):
                self._always |= {child.id for child in ast.walk(function) if isinstance(child, ast.Name)}
        self._raising: set[str] = set()
        self._block(function.body, set(), None)

    def after(self, statement: ast.stmt) -> frozenset[str]:
        """Names that may be read after the statement."""
        return self._after.get(id(statement), frozenset()) | self._always

    def _block(self, body: Sequence[ast.stmt], live: set[str], loop: tuple[set[str], set[str]] | None) -> set[str]:
        for statement in reversed(body):
            self._after[id(statement)] = self._after.get(id(statement), frozenset()) | frozenset(live | self._raising)
            live = self._before(statement, live, loop)
        return live

    def _before(self, node: ast.stmt, live: set[str], loop: tuple[set[str], set[str]] | None) -> set[str]:
        if isinstance(node, ast.If):
            return (
                reads(node.test) | self._block(node.body, set(live), loop) | self._block(node.orelse, set(live), loop)
            )
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, live, loop)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            inner = self._block(node.body, set(live), loop)
            return _all_reads(item.context_expr for item in node.items) | (inner - targets_of_with(node))
        if isinstance(node, ast.Try):
            return self._try(node, live, loop)
        if isinstance(node, ast.Match):
            arms = [reads(case) | self._block(case.body, set(live), loop) for case in node.cases]
            return reads(node.subject) | set(live).union(*arms)
        if isinstance(node, (ast.Return, ast.Raise)):
            return reads(node) | self._raising
        if isinstance(node, ast.Break):
            return set(loop[0]) if loop else live
        if isinstance(node, ast.Continue):
            return set(loop[1]) if loop else live
        if isinstance(node, ast.Delete):
            return live | reads(node) | targets(node)
        killed = targets(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else set()
        return (live - killed) | reads(node)

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, live: set[str], outer: tuple[set[str], set[str]] | None
    ) -> set[str]:
        after = self._block(node.orelse, set(live), outer) | live
        head = set(after) | (reads(node.test) if isinstance(node, ast.While) else set())
        while True:
            inside = self._block(node.body, set(head), (live, head))
            bound = set() if isinstance(node, ast.While) else targets(node.target)
            grown = head | (inside - bound)
            if grown == head:
                break
            head = grown
        return head | (set() if isinstance(node, ast.While) else reads(node.iter))

    def _try(self, node: ast.Try, live: set[str], loop: tuple[set[str], set[str]] | None) -> set[str]:
        final = self._block(node.finalbody, set(live), loop) | live
        handlers = (
            set().union(*(reads(h.type) | self._block(h.body, set(final), loop) for h in node.handlers))
            if node.handlers
            else set()
        )
        outer, self._raising = self._raising, self._raising | handlers | final
        inside = self._block(node.body, self._block(node.orelse, set(final), loop) | final, loop)
        self._raising = outer
        return inside | handlers | final


def targets_of_with(node: ast.With | ast.AsyncWith) -> set[str]:
    """Names that the `as` parts bind."""
    return set().union(*(targets(item.optional_vars) for item in node.items if item.optional_vars is not None))


def _all_reads(nodes: Iterable[ast.AST]) -> set[str]:
    return set().union(*(reads(node) for node in nodes))
