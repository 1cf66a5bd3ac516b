"""Statements as the unit of comparison: a finding and a break meet where they lie in the same statement (its head, if it has a body)."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

# Methods that look at the data of a tensor or reduce it; a plain list of them, looked up in the tests of `if`, is the nearest peer's way.
READING = {
    "all", "allclose", "any", "argmax", "argmin", "equal", "isinf", "isnan", "item", "max", "mean", "min", "nonzero",
    "norm", "sum", "tolist",
}  # fmt: skip


class Statements:
    """The statements of one file. Each is known by the line where it starts."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self._last: dict[int, int] = {}
        self._at: dict[int, int] = {}
        heads = sorted(_head(node) for node in ast.walk(self.tree) if isinstance(node, ast.stmt))
        for first, last in heads:  # an inner statement comes after the one that holds it, and takes its lines
            self._last[first] = last
            self._at.update(dict.fromkeys(range(first, last + 1), first))

    def at(self, line: int) -> int:
        """The statement of a line."""
        return self._at.get(line, line)

    def lines(self, line: int) -> set[int]:
        """All lines of a line's statement."""
        first = self.at(line)
        return {n for n in range(first, self._last.get(first, first) + 1) if self.at(n) == first}

    def source(self, line: int) -> str:
        """One line, stripped."""
        return self.text.splitlines()[line - 1].strip()

    def listed(self) -> set[tuple[int, int]]:
        """Where calls of a method of the list stand in the tests of `if` statements: line and column of the first in each."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If):
                calls = [
                    (part.lineno, part.col_offset)
                    for part in ast.walk(node.test)
                    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in READING
                ]
                found.update(sorted(calls)[:1])
        return found


def _head(node: ast.stmt) -> tuple[int, int]:
    """The first and last line of a statement without its body."""
    last = node.end_lineno or node.lineno
    body: Iterable[ast.AST] = [*getattr(node, "body", []), *getattr(node, "cases", [])]
    starts = [inner.lineno for inner in body if isinstance(inner, ast.stmt)]
    return node.lineno, max(node.lineno, min(starts) - 1) if starts else last
