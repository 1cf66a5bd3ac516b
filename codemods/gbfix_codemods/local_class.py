"""The rule local-class."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._lines import leads


class LocalClass(Rule):
    """Flag a `class` statement inside a function; rewrite it to stand before the function.

    Breaks because Dynamo does not run class bodies.
    Unsafe because every call then shares one class, with its attributes.
    Source: GB8977 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF506"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB8977",)
    kinds: ClassVar[tuple[str, ...]] = ("class",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each class."""
        node = site.node
        assert isinstance(node, ast.ClassDef)
        message = f"`class {node.name}` is made in compiled code"
        if why := self.keeps(site, node):
            yield self.report(
                site, message, declined=f"{why}; `torch._dynamo.config.enable_trace_load_build_class` traces it"
            )
            return
        top = self.top(node)
        first = min([top.lineno, *(d.lineno for d in getattr(top, "decorator_list", ()))])
        start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        end = node.end_lineno or node.lineno
        edits = (
            Edit(first, 0, first, 0, f"{self.dedented(start, end, self.context.indent(node))}\n\n"),
            Edit(start, 0, end + 1, 0, ""),
        )
        fix = Fix(
            "move it before the function", edits, Applicability.UNSAFE, "hoist", "every call then shares the class"
        )
        yield self.report(site, message, fix)

    def keeps(self, site: Site, node: ast.ClassDef) -> str:
        """Why the class must stay; empty when it can move."""
        tree = self.top(node)
        module = self.context.parent(tree)
        if self.context.before(node).strip() or self.context.after(node).strip() or len(self.context.block(node)) == 1:
            return "it shares its line or is a block of its own"
        if any(not leads(self.context, part) for part in node.body[:1]):
            return "it stands on one line"
        if any(isinstance(n, ast.Constant) and n.lineno != n.end_lineno for n in ast.walk(node)):
            return "a string in it runs over lines"
        if any(isinstance(n, ast.Name) and n.id in ("super", "__class__") for n in ast.walk(node)):
            return "it uses `super`"
        if module is None or node.name in _bound(module, but=node):
            return f"the name `{node.name}` is taken"
        inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inside |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)} | {node.name}
        outer = _local(site.function) - {node.name}
        loads = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - inside
        if loads & outer:
            return f"it uses `{min(loads & outer)}` of the function"
        if unknown := loads - _bound(module, but=node) - set(dir(builtins)):
            return f"it uses `{min(unknown)}`"
        return ""

    def top(self, node: ast.AST) -> ast.stmt:
        """The module's own statement that holds a node."""
        while not isinstance(parent := self.context.parent(node), ast.Module):
            assert parent is not None
            node = parent
        assert isinstance(node, ast.stmt)
        return node

    def dedented(self, first: int, last: int, indent: str) -> str:
        """Lines of the source, moved to the left."""
        lines = self.context.source(first, last).splitlines(keepends=True)
        return "".join(line[len(indent) :] if line.startswith(indent) else line.lstrip(" \t") for line in lines)


def _local(function: ast.AST) -> set[str]:
    """The names that a function binds."""
    found = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    return found | {n.name for n in ast.walk(function) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}


def _bound(module: ast.AST, but: ast.AST) -> set[str]:
    """The names that the statements of a module bind, one class left out."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and node is not but:
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found
