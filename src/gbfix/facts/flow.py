"""Forward data flow over one function's statements, under the assumption that Dynamo is tracing it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts.infer import Evaluator
from gbfix.facts.lattice import UNKNOWN, Arms, Kind, Value
from gbfix.facts.narrow import narrow
from gbfix.facts.values import SCALAR, Env, Function, at, join, truth

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

MAX_ROUNDS = 4


def merge(a: Env | None, b: Env | None, where: str) -> Env | None:
    """The names' values where two paths meet; a name bound on one path only is unknown."""
    if a is None or b is None:
        return a if b is None else b
    return {
        name: join(a[name], b[name], f"{where}:{name}") if name in a and name in b else UNKNOWN
        for name in (*a, *(n for n in b if n not in a))
    }


class Flow(Evaluator):
    """The values, arms, calls and result of one function."""

    def __init__(self, module: ModuleFacts, function: Function | ast.Module, owner: ClassFacts | None) -> None:
        super().__init__(module, owner)
        self.function = function
        self.arms: dict[int, Arms] = {}
        self.reached: set[int] = set()
        self.returned: Value | None = None
        self.nested: list[tuple[Function, Env]] = []
        self._loops: list[tuple[list[Env], list[Env]]] = []
        self._try_envs: list[list[Env]] = []

    def run(self, env: Env) -> Env | None:
        """Evaluate the whole body."""
        return self.block(self.function.body, env)

    def block(self, body: Sequence[ast.stmt], env: Env | None) -> Env | None:
        """Evaluate statements in order; None where the path ends."""
        for statement in body:
            if env is None:
                return None
            self.reached.add(id(statement))
            env = self._statement(statement, env)
            if self._try_envs and env is not None:
                self._try_envs[-1].append(dict(env))
        return env

    def _statement(self, node: ast.stmt, env: Env) -> Env | None:
        handler = getattr(self, "_do_" + type(node).__name__.lower(), None)
        if handler is not None:
            result: Env | None = handler(node, env)
            return result
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child, env)
        return env

    def _do_assign(self, node: ast.Assign, env: Env) -> Env:
        value = self.eval(node.value, env)
        if isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)):
            value = replace(value, fresh=False)
            if isinstance(node.value, ast.Name) and node.value.id in env:
                env[node.value.id] = replace(env[node.value.id], fresh=False)
        for target in node.targets:
            self.bind(target, value, env)
        return env

    def _do_annassign(self, node: ast.AnnAssign, env: Env) -> Env:
        if node.value is None:
            return env
        value = self.eval(node.value, env)
        if value.kind is Kind.UNKNOWN:
            value = self.module.annotation(node.annotation, ast.unparse(node.target)) or value
        self.bind(node.target, value, env)
        return env

    def _do_augassign(self, node: ast.AugAssign, env: Env) -> Env:
        load = ast.copy_location(_as_load(node.target), node.target)
        left, right = self.eval(load, env), self.eval(node.value, env)
        self.values[id(node.target)] = left
        value = self.binary(node, node.op, left, right)
        if left.kind is Kind.TENSOR:
            value = replace(left, optional=False)
        elif isinstance(node.target, ast.Name):
            value = replace(value, fresh=False)
        self.bind(node.target, value, env)
        return env

    def _do_return(self, node: ast.Return, env: Env) -> None:
        value = self.eval(node.value, env) if node.value is not None else Value(Kind.NONE)
        self.returned = value if self.returned is None else join(self.returned, value, "return")

    def _do_raise(self, node: ast.Raise, env: Env) -> None:
        if node.exc is not None:
            self.eval(node.exc, env)

    def _do_if(self, node: ast.If, env: Env) -> Env | None:
        known = truth(self.eval(node.test, env))
        then, other = dict(env), dict(env)
        narrow(self, node.test, then, True)
        narrow(self, node.test, other, False)
        end_then = self.block(node.body, then) if known is not False else None
        end_else = self.block(node.orelse, other) if known is not True else None
        before = dict(env)
        for operand in (
            node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else ()
        ):
            narrow(self, operand, before, True)
        self.arms[id(node)] = Arms(before, end_then, end_else)
        return merge(end_then, end_else, at(node))

    def _do_for(self, node: ast.For | ast.AsyncFor, env: Env) -> Env | None:
        iterable = self.eval(node.iter, env)
        element = self.element(iterable, node.iter)
        return self._loop(node, env, lambda inner: self.bind(node.target, element, inner))

    _do_asyncfor = _do_for

    def _do_while(self, node: ast.While, env: Env) -> Env | None:
        def head(inner: Env) -> None:
            self.eval(node.test, inner)
            narrow(self, node.test, inner, True)

        return self._loop(node, env, head)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, env: Env, head: Callable[[Env], None]) -> Env | None:
        state: Env = dict(env)
        breaks: list[Env] = []
        for round_ in range(MAX_ROUNDS):
            inner = dict(state)
            breaks = []
            continues: list[Env] = []
            self._loops.append((breaks, continues))
            head(inner)
            end = self.block(node.body, inner)
            self._loops.pop()
            for other in continues:
                end = merge(end, other, at(node))
            grown = merge(dict(state), end, at(node)) or state
            if grown == state:
                break
            if round_ == MAX_ROUNDS - 2:
                grown = {name: value if state.get(name) == value else UNKNOWN for name, value in grown.items()}
            state = grown
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        result = None if endless else self.block(node.orelse, dict(state))
        for other in breaks:
            result = merge(result, other, at(node))
        return result

    def _do_break(self, node: ast.Break, env: Env) -> None:
        if self._loops:
            self._loops[-1][0].append(env)

    def _do_continue(self, node: ast.Continue, env: Env) -> None:
        if self._loops:
            self._loops[-1][1].append(env)

    def _do_with(self, node: ast.With | ast.AsyncWith, env: Env) -> Env | None:
        for item in node.items:
            self.eval(item.context_expr, env)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, UNKNOWN, env)
        return self.block(node.body, env)

    _do_asyncwith = _do_with

    def _do_try(self, node: ast.Try, env: Env) -> Env | None:
        self._try_envs.append([dict(env)])
        end = self.block(node.body, dict(env))
        states = self._try_envs.pop()
        if end is not None:
            end = self.block(node.orelse, end)
        entry: Env | None = states[0]
        for other in states[1:]:
            entry = merge(entry, other, at(node))
        for handler in node.handlers:
            start = dict(entry or {})
            if handler.type is not None:
                self.eval(handler.type, start)
            if handler.name:
                start[handler.name] = UNKNOWN
            end = merge(end, self.block(handler.body, start), at(handler))
        if node.finalbody:
            after = self.block(node.finalbody, dict(end if end is not None else entry or {}))
            return after if end is not None else None
        return end

    _do_trystar = _do_try

    def _do_match(self, node: ast.Match, env: Env) -> Env | None:
        self.eval(node.subject, env)
        result: Env | None = dict(env)
        for case in node.cases:
            inner = dict(env)
            for part in ast.walk(case.pattern):
                for name in (getattr(part, "name", None), getattr(part, "rest", None)):
                    if isinstance(name, str):
                        inner[name] = UNKNOWN
            if case.guard is not None:
                self.eval(case.guard, inner)
            result = merge(result, self.block(case.body, inner), at(node))
        return result

    def _do_assert(self, node: ast.Assert, env: Env) -> Env:
        self.eval(node.test, env)
        narrow(self, node.test, env, True)
        if node.msg is not None:
            self.eval(node.msg, dict(env))
        return env

    def _do_functiondef(self, node: Function, env: Env) -> Env:
        for decorator in node.decorator_list:
            self.eval(decorator, env)
        self.locals[node.name] = node
        env[node.name] = Value(Kind.OBJECT, cls="function")
        self.nested.append((node, dict(env)))
        return env

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, node: ast.ClassDef, env: Env) -> Env:
        env[node.name] = UNKNOWN
        return env

    def _do_import(self, node: ast.Import | ast.ImportFrom, env: Env) -> Env:
        self.module.names.add(node)
        return env

    _do_importfrom = _do_import

    def _do_delete(self, node: ast.Delete, env: Env) -> Env:
        for target in node.targets:
            if isinstance(target, ast.Name):
                env.pop(target.id, None)
        return env

    def returns(self) -> Value:
        """What the function gives back; a generator gives something unknown."""
        if any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in self.module.nodes(self.function)):
            return UNKNOWN
        value = self.returned if self.returned is not None else Value(Kind.NONE)
        return replace(value, fresh=False)


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


def scalar_default(node: ast.expr) -> Value | None:
    """The kind of value a default argument suggests."""
    if isinstance(node, ast.Constant):
        return Value(Kind.NONE) if node.value is None else Value(Kind.SCALAR, cls=type(node.value).__name__)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return replace(SCALAR, cls=type(node.operand.value).__name__)
    return None
