"""Which functions of a module are handed to torch.compile, and what the module's own `make_inputs()` passes to them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gbfix.facts.flow import Flow
from gbfix.facts.lattice import Value
from gbfix.facts.values import Function

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

COMPILES = re.compile(r"\b(compile|export|explain)\b")
CHAINED = {"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_", "compile"}


def functions(facts: ModuleFacts) -> list[Function]:
    """Every function, method and nested function of the module."""
    return [
        flow.function
        for flow in facts.flows.values()
        if isinstance(flow.function, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def built(facts: ModuleFacts) -> list[Function]:
    """What `build()` returns, in a module that also has `make_inputs()`: gbfix's own convention for an entry point."""
    if "build" not in facts.functions or "make_inputs" not in facts.functions:
        return []
    return _targets(facts, ast.Call(ast.Name("build", ast.Load()), [], []), set())


def made_inputs(flow: Flow) -> list[tuple[list[Value], dict[str, Value]]]:
    """The calls that a `make_inputs()` returning `[(args, kwargs), ...]` writes out."""
    found: list[tuple[list[Value], dict[str, Value]]] = []
    for node in ast.walk(flow.function):
        if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
            continue
        args, kwargs = node.elts
        if isinstance(args, ast.Tuple) and isinstance(kwargs, ast.Dict):
            named = {
                str(k.value): flow.values[id(v)]
                for k, v in zip(kwargs.keys, kwargs.values, strict=True)
                if isinstance(k, ast.Constant) and id(v) in flow.values
            }
            found.append(([flow.values[id(a)] for a in args.elts if id(a) in flow.values], named))
    return found


def entries(facts: ModuleFacts) -> list[tuple[Function, str]]:
    """The functions handed to torch.compile (or module `forward`s), with the reason."""
    found: list[tuple[Function, str]] = []
    for info in facts.classes.values():
        if info.is_module and "forward" in info.methods:
            found.append((info.methods["forward"], f"`{info.node.name}.forward`"))
    for function in functions(facts):
        for decorator in function.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            dotted = facts.names.dotted(target) or ""
            partial = (
                isinstance(decorator, ast.Call)
                and dotted == "functools.partial"
                and any(facts.names.dotted(a) == "torch.compile" for a in decorator.args)
            )
            if dotted in ("torch.compile", "torch._dynamo.optimize") or partial:
                found.append((function, "decorated with torch.compile"))
    for node in facts.nodes(facts.tree) if COMPILES.search(facts.text) else ():
        if (
            isinstance(node, ast.Call)
            and facts.names.dotted(node.func) in ("torch.compile", "torch.export.export", "torch._dynamo.explain")
            and node.args
        ):
            found += [(f, "handed to torch.compile") for f in _targets(facts, node.args[0], set())]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "compile"
            and not node.args
            and facts.names.dotted(node.func) is None
        ):
            found += [(f, "compiled in place") for f in _targets(facts, node.func.value, set())]
    found += [(f, "returned by `build()`") for f in built(facts)]
    if "forward" in facts.functions:
        found.append((facts.functions["forward"], "named `forward`"))
    return found


def named(facts: ModuleFacts, names: tuple[str, ...]) -> list[tuple[Function, str]]:
    """The functions that `func`, `Class.method`, or one of these after `pkg.mod:` or `file.py:` stands for."""
    found: list[tuple[Function, str]] = []
    for name in names:
        where, _, wanted = name.rpartition(":")
        if not where or _is_module(facts.path, where):
            found += [(f, f"an entry point: `{name}`") for f in functions(facts) if qualified(facts, f) == wanted]
    return found


def qualified(facts: ModuleFacts, function: Function) -> str:
    """A function's name with the class or function around it: `Class.method`, `outer.inner`."""
    owner, outer = facts.owners.get(id(function)), facts.outer.get(id(function))
    before = owner.node.name if owner is not None else qualified(facts, outer) if outer is not None else ""
    return f"{before}.{function.name}" if before else function.name


def _is_module(path: str, where: str) -> bool:
    """Whether a file can be a dotted module, or the file of a path; as many parts are compared as both have."""
    wanted = where.replace("\\", "/").removesuffix(".py").split("/") if where.endswith(".py") else where.split(".")
    parts = path.replace("\\", "/").removesuffix(".py").removesuffix("/__init__").split("/")
    return all(a == b for a, b in zip(reversed(wanted), reversed(parts), strict=False))


def _targets(facts: ModuleFacts, node: ast.expr, seen: set[str]) -> list[Function]:
    """The functions of this module that an expression handed to torch.compile stands for."""
    if isinstance(node, ast.Name):
        if node.id in facts.functions:
            return [facts.functions[node.id]]
        if node.id in seen:
            return []
        seen.add(node.id)
        nested = [f for f in functions(facts) if f.name == node.id]
        return nested or [f for value in _assigned(facts, node.id) for f in _targets(facts, value, seen)]
    owner = _class_of(facts, node, seen)
    if owner is not None:
        found = facts.method(owner, "forward") or facts.method(owner, "__call__")
        return [found[1]] if found else []
    if isinstance(node, ast.Attribute):
        holder = _class_of(facts, node.value, seen)
        method = facts.method(holder, node.attr) if holder is not None else None
        return [method[1]] if method else []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHAINED:
            return _targets(facts, node.func.value, seen)
        if isinstance(node.func, ast.Name) and node.func.id in facts.functions and node.func.id not in seen:
            seen.add(node.func.id)
            return [f for value in _returned(facts.functions[node.func.id]) for f in _targets(facts, value, seen)]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.value, ast.Call):
        func = node.value.func
        if isinstance(func, ast.Name) and func.id in facts.functions and func.id not in seen:
            seen.add(func.id)
            tuples = [value.elts for value in _returned(facts.functions[func.id]) if isinstance(value, ast.Tuple)]
            return [
                f for parts in tuples for index, part in enumerate(parts) if index == node.slice.value
                for f in _targets(facts, part, seen)
            ]  # fmt: skip
    return []


def _class_of(facts: ModuleFacts, node: ast.expr, seen: set[str]) -> ClassFacts | None:
    """The class of this module whose instance an expression is."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in facts.classes:
            return facts.classes[node.func.id]
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHAINED:
            return _class_of(facts, node.func.value, seen)
        if isinstance(node.func, ast.Name) and node.func.id in facts.functions and node.func.id not in seen:
            found = [
                _class_of(facts, value, seen | {node.func.id}) for value in _returned(facts.functions[node.func.id])
            ]
            return next((c for c in found if c is not None), None)
    if isinstance(node, ast.Name) and node.id not in facts.functions and node.id not in seen:
        found = [_class_of(facts, value, seen | {node.id}) for value in _assigned(facts, node.id)]
        return next((c for c in found if c is not None), None)
    return None


def _assigned(facts: ModuleFacts, name: str) -> list[ast.expr]:
    found: list[ast.expr] = []
    for node in facts.nodes(facts.tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            found.append(node.value)
    return found


def _returned(function: Function) -> list[ast.expr]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
