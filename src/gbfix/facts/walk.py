"""Walks over ast, faster than the standard library's: without contexts, and as lists."""

from __future__ import annotations

import ast

NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node in source order, `ctx` left out."""
    found: list[ast.AST] = []
    for name in node._fields:
        if name == "ctx":
            continue
        value = getattr(node, name, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and everything below it, breadth first."""
    found = [node]
    for current in found:
        found += children(current)
    return found


def own(scope: ast.AST, *, lambdas: bool = True) -> list[ast.AST]:
    """The nodes below a scope that belong to it: nested functions and classes as one node each, lambdas whole where wanted."""
    found: list[ast.AST] = []
    stack = children(scope)[::-1]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, NESTED) and (lambdas or not isinstance(node, ast.Lambda)):
            stack += children(node)[::-1]
    return found
