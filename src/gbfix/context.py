"""What the engine lends to a rule for one pass over one module: facts, source text, the file's own names."""

from __future__ import annotations

import ast
import builtins
import textwrap

import libcst as cst

from gbfix.facts.compiled import Reach
from gbfix.facts.flow import Flow
from gbfix.facts.lattice import UNKNOWN, Arms, Op, Site, Value
from gbfix.facts.liveness import targets
from gbfix.facts.project import ModuleFacts
from gbfix.facts.sites import tested
from gbfix.facts.walk import children
from gbfix.rule import Edit

Function = ast.FunctionDef | ast.AsyncFunctionDef


class ModuleContext:
    """The rule.Context of one module."""

    def __init__(self, facts: ModuleFacts, reached: dict[int, Reach]) -> None:
        self.facts = facts
        self.reached = reached
        self.flow: Flow = next(iter(facts.flows.values()))
        self.needs_torch = False
        self._given: dict[int, set[str]] = {}
        self._parents: dict[int, ast.AST] = {}
        self._called = {id(call[0]) for flow in facts.flows.values() for call in flow.calls}

    def at(self, site: Site) -> None:
        """Turn to the function of a site."""
        self.flow = self.facts.flows[id(site.function)]
        top = site.function
        while id(top) in self.facts.outer:
            top = self.facts.outer[id(top)]
        if id(top) not in self._parents:
            owner = self.facts.owners.get(id(top))
            self._parents[id(top)] = owner.node if owner is not None else self.facts.tree
            if owner is not None:
                self._parents[id(owner.node)] = self.facts.tree
            for node in self.facts.nodes(top):
                for child in children(node):
                    self._parents[id(child)] = node

    def value(self, node: ast.AST) -> Value:
        return self.flow.values.get(id(node), UNKNOWN)

    def reached_here(self, node: ast.AST) -> bool:
        return id(node) in self.flow.values or id(node) in self.flow.reached

    def op(self, call: ast.Call) -> Op | None:
        return self.flow.op(call)

    def dotted(self, node: ast.AST) -> str | None:
        return self.facts.names.dotted(node)

    def tested(self, test: ast.expr) -> list[ast.expr]:
        return tested(self.flow, test)

    def arms(self, node: ast.If) -> Arms | None:
        return self.flow.arms.get(id(node))

    def live_after(self, statement: ast.stmt) -> frozenset[str]:
        function = self.flow.function
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        return self.facts.liveness(function).after(statement)

    def torch(self, name: str) -> str:
        spelled = self.facts.names.spelled(f"torch.{name}")
        if spelled is None:
            self.needs_torch = True
            return f"torch.{name}"
        return spelled

    def text(self, node: ast.AST) -> str:
        assert isinstance(node, (ast.expr, ast.stmt))
        lines = self.facts.lines[node.lineno - 1 : node.end_lineno]
        if node.lineno == node.end_lineno:
            return lines[0][node.col_offset : node.end_col_offset]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return "".join(lines)

    def concrete(self, node: ast.AST) -> cst.CSTNode:
        if isinstance(node, ast.expr):
            return cst.parse_expression(self.text(node))
        assert isinstance(node, ast.stmt)
        source = textwrap.dedent(self.indent(node) + self.text(node))
        return cst.parse_statement(source)

    def code(self, node: cst.CSTNode) -> str:
        return cst.Module([]).code_for_node(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(id(node))

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self._parents[id(node)]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        parent = self._parents[id(statement)]
        for name in ("body", "orelse", "finalbody"):
            body = getattr(parent, name, None)
            if isinstance(body, list) and statement in body:
                return body
        return [statement]

    def indent(self, statement: ast.stmt) -> str:
        line = self.facts.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip(" \t\f"))].replace("\f", "")

    def unit(self) -> str:
        for node in ast.walk(self.facts.tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.body[0].lineno > node.lineno:
                inner, outer = self.indent(node.body[0]), self.indent(node)
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    def before(self, node: ast.stmt) -> str:
        return self.facts.lines[node.lineno - 1][: node.col_offset]

    def after(self, node: ast.stmt) -> str:
        return self.facts.lines[(node.end_lineno or node.lineno) - 1][node.end_col_offset :].rstrip("\r\n")

    def source(self, first_line: int, last_line: int) -> str:
        return "".join(self.facts.lines[first_line - 1 : last_line])

    def comments(self, first_line: int, last_line: int) -> list[str]:
        return [line.strip() for line in self.facts.lines[first_line - 1 : last_line] if line.strip().startswith("#")]

    def is_entry(self, function: ast.AST) -> bool:
        reach = self.reached.get(id(function))
        return reach is None or reach.entry or id(function) not in self._called

    def fresh_name(self, function: ast.AST, hint: str) -> str:
        given = self._given.setdefault(id(function), set())
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {
            n.arg for n in ast.walk(function) if isinstance(n, ast.arg)
        }
        used |= (
            given
            | self.facts.names.top
            | set(self.facts.functions)
            | set(self.facts.classes)
            | set(dir(builtins))
            | targets(self.facts.tree)
        )
        name, number = hint, 2
        while name in used:
            name, number = f"{hint}_{number}", number + 1
        given.add(name)
        return name

    def replace(self, node: ast.AST, text: str, last: ast.AST | None = None) -> Edit:
        assert isinstance(node, (ast.expr, ast.stmt))
        end = last if last is not None else node
        assert isinstance(end, (ast.expr, ast.stmt))
        return Edit(node.lineno, node.col_offset, end.end_lineno or end.lineno, end.end_col_offset or 0, text)
