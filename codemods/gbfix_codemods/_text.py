"""Text of rewritten expressions: renamed reads, filled operands, lines that fit."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import libcst as cst

from gbfix.rule import Context

WIDTH = 100


def render(context: Context, node: ast.expr, names: Mapping[str, str], spans: Mapping[int, str] | None = None) -> str:
    """An expression's text with some names replaced, and the sub-expressions in `spans` (by identity) replaced whole."""
    text = _filled(context, node, spans or {})
    if names and any(isinstance(child, ast.Name) and child.id in names for child in ast.walk(node)):
        tree = cst.parse_expression(text).visit(Rename(names))
        assert isinstance(tree, cst.BaseExpression)
        text = cst.Module([]).code_for_node(tree)
    return text


class Rename(cst.CSTTransformer):
    """Replaces reads of names by other names or literals; attribute names and keywords stay."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """A name by itself."""
        new = self.names.get(original_node.value)
        return updated_node if new is None else cst.parse_expression(new)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        """Only the base of `base.name` is a read."""
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        """The keyword of `keyword=value` is no read."""
        return updated_node.with_changes(keyword=original_node.keyword)


def _filled(context: Context, node: ast.expr, spans: Mapping[int, str]) -> str:
    if id(node) in spans:
        return spans[id(node)]
    base = context.text(node)
    if not spans:
        return base
    pieces: list[tuple[int, int, str]] = []
    for child in _children(node):
        new, old = _filled(context, child, spans), context.text(child)
        if new != old:
            start = _offset(context, node, child)
            pieces.append((start, start + len(old), new))
    for start, end, new in sorted(pieces, reverse=True):
        base = base[:start] + new + base[end:]
    return base


def _children(node: ast.AST) -> list[ast.expr]:
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found.append(child)
        elif isinstance(child, (ast.keyword, ast.Slice)):
            found += _children(child)
    return found


def _offset(context: Context, outer: ast.expr, inner: ast.expr) -> int:
    """Where the text of `inner` starts in the text of `outer`."""
    lines = context.text(outer).splitlines(keepends=True)
    if inner.lineno == outer.lineno:
        return inner.col_offset - outer.col_offset
    return sum(map(len, lines[: inner.lineno - outer.lineno])) + inner.col_offset


def standalone(text: str) -> str:
    """An expression's text as the right side of an assignment: in parentheses where it spans lines that nothing else joins."""
    if "\n" in text:
        try:
            ast.parse(f"_ = {text}")
        except SyntaxError:
            return f"({text})"
    return text


def call(name: str, arguments: Sequence[str], head: str, indent: str, unit: str) -> str:
    """`head` + a call, on one line where it fits, else broken as black breaks it."""
    line = f"{head}{name}({', '.join(arguments)})"
    if len(indent) + len(line) <= WIDTH or "\n" in line:
        return line
    inner = indent + unit
    joined = ", ".join(arguments)
    if len(inner) + len(joined) <= WIDTH:
        return f"{head}{name}(\n{inner}{joined}\n{indent})"
    return f"{head}{name}(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + f"{indent})"
