"""Which functions of a module run under torch.compile: entries, what they call, and what stays on the host."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gbfix.facts.flow import Function
from gbfix.facts.lattice import Kind
from gbfix.facts.project import is_property

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

# Decorators under which Dynamo never traces the body. Source: torch/compiler/__init__.py, torch/library.py, torch 2.13.
OPAQUE = re.compile(r"(^|\.)(disable|ignore|unused|custom_op|register_fake|impl_abstract|triton_op|register_kernel|jit|overload|fixture|autotune|heuristics)$")
HOST_NAME = re.compile(r"^(main|build|make_inputs|example_inputs|test(_.*)?|train(_.*)?|fit|fit_.*|evaluate|eval_.*|validate.*|collate.*|load.*|save.*|convert.*|export.*|plot.*|log_.*|setup.*|run|cli|benchmark.*|step_.*)$")  # fmt: skip
HOST_METHODS = {"backward", "zero_grad", "add_argument", "parse_args", "state_dict", "load_state_dict", "train", "eval"}
HOST_CALLS = {"torch.save", "torch.load", "torch.compile", "torch.manual_seed", "torch.jit.trace", "torch.jit.script", "torch.onnx.export"}
HOST_CLASSES = re.compile(r"(Dataset|Sampler|DataLoader|Processor|Tokenizer|Trainer|Callback|Logger|TestCase|Config|Optimizer|Test)$")
CHAINED = {"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_", "compile"}


@dataclass(frozen=True)
class Reach:
    """Why a function is compiled. `certain` is False when only its tensor parameters suggest it; `entry`: it is handed to torch.compile."""

    why: str
    certain: bool
    entry: bool


def compiled(facts: ModuleFacts) -> dict[int, Reach]:
    """The functions that run under torch.compile, by identity of their node."""
    every = _functions(facts)
    found: dict[int, Reach] = {}
    queue: list[Function] = []

    def add(function: Function, reach: Reach) -> None:
        old = found.get(id(function))
        if is_opaque(function) or (old is not None and (old.certain or not reach.certain)):
            return
        found[id(function)] = reach
        queue.append(function)

    def follow() -> None:
        while queue:
            function = queue.pop()
            flow = facts.flows.get(id(function))
            for callee, _, _, _, _ in flow.calls if flow is not None else []:
                for target in (callee, *_overrides(facts, callee)):
                    add(target, Reach(f"called from `{function.name}`", found[id(function)].certain, False))

    for function, why in _entries(facts, every):
        add(function, Reach(why, True, True))
    follow()
    if not re.search(r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$", facts.path.replace("\\", "/")):
        for function in every:
            if id(function) not in found and _works_on_tensors(facts, function):
                add(function, Reach("nothing in this file compiles it", False, False))
        follow()
    return found


def is_opaque(function: Function) -> bool:
    """Whether a decorator keeps Dynamo out of the function."""
    return any(OPAQUE.search(ast.unparse(d.func if isinstance(d, ast.Call) else d)) for d in function.decorator_list)


def _functions(facts: ModuleFacts) -> list[Function]:
    return [flow.function for flow in facts.flows.values() if isinstance(flow.function, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _overrides(facts: ModuleFacts, method: Function) -> list[Function]:
    """Methods of subclasses in this module that replace a method."""
    owner = facts.owners.get(id(method))
    if owner is None:
        return []
    return [c.methods[method.name] for c in facts.classes.values() if c is not owner and owner in facts.mro(c) and method.name in c.methods]


def _entries(facts: ModuleFacts, every: list[Function]) -> list[tuple[Function, str]]:
    found: list[tuple[Function, str]] = []
    for info in facts.classes.values():
        if info.is_module and "forward" in info.methods:
            found.append((info.methods["forward"], f"`{info.node.name}.forward`"))
    for function in every:
        for decorator in function.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            dotted = facts.names.dotted(target) or ""
            partial = isinstance(decorator, ast.Call) and dotted == "functools.partial" and any(facts.names.dotted(a) == "torch.compile" for a in decorator.args)
            if dotted in ("torch.compile", "torch._dynamo.optimize") or partial:
                found.append((function, "decorated with torch.compile"))
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Call) and facts.names.dotted(node.func) in ("torch.compile", "torch.export.export", "torch._dynamo.explain") and node.args:
            found += [(f, "handed to torch.compile") for f in _targets(facts, node.args[0], set())]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile" and not node.args and facts.names.dotted(node.func) is None:
            found += [(f, "compiled in place") for f in _targets(facts, node.func.value, set())]
    if "build" in facts.functions and "make_inputs" in facts.functions:
        found += [(f, "returned by `build()`") for f in _targets(facts, ast.Call(ast.Name("build", ast.Load()), [], []), set())]
    if "forward" in facts.functions:
        found.append((facts.functions["forward"], "named `forward`"))
    return found


def _targets(facts: ModuleFacts, node: ast.expr, seen: set[str]) -> list[Function]:
    """The functions of this module that an expression handed to torch.compile stands for."""
    if isinstance(node, ast.Name):
        if node.id in facts.functions:
            return [facts.functions[node.id]]
        if node.id in seen:
            return []
        seen.add(node.id)
        nested = [f for f in _functions(facts) if f.name == node.id]
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
    return []


def _class_of(facts: ModuleFacts, node: ast.expr, seen: set[str]) -> ClassFacts | None:
    """The class of this module whose instance an expression is."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in facts.classes:
            return facts.classes[node.func.id]
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHAINED:
            return _class_of(facts, node.func.value, seen)
        if isinstance(node.func, ast.Name) and node.func.id in facts.functions and node.func.id not in seen:
            found = [_class_of(facts, value, seen | {node.func.id}) for value in _returned(facts.functions[node.func.id])]
            return next((c for c in found if c is not None), None)
    if isinstance(node, ast.Name) and node.id not in facts.functions and node.id not in seen:
        found = [_class_of(facts, value, seen | {node.id}) for value in _assigned(facts, node.id)]
        return next((c for c in found if c is not None), None)
    return None


def _assigned(facts: ModuleFacts, name: str) -> list[ast.expr]:
    found: list[ast.expr] = []
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            found.append(node.value)
    return found


def _returned(function: Function) -> list[ast.expr]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def _works_on_tensors(facts: ModuleFacts, function: Function) -> bool:
    """Whether a function that nothing here compiles takes tensors and looks like tensor code, not like a program."""
    name = function.name
    owner = facts.owners.get(id(function))
    if HOST_NAME.match(name) or (name.startswith("__") and name != "__call__") or is_property(function):
        return False
    if owner is not None and (HOST_CLASSES.search(owner.node.name) or any(HOST_CLASSES.search(b) for b in owner.bases)):
        return False
    if id(function) in facts.outer and facts.outer[id(function)] in facts.functions.values() and HOST_NAME.match(facts.outer[id(function)].name):
        return False
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if facts.names.dotted(node.func) in HOST_CALLS:
                return False
            if isinstance(node.func, ast.Attribute) and node.func.attr in HOST_METHODS:
                return False
    flow = facts.flows[id(function)]
    arguments = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return any(
        isinstance(node, ast.Name) and node.id in arguments and (value := flow.values.get(id(node))) is not None
        and value.kind is Kind.TENSOR and value.certain and any(f"`{node.id}`" in reason for reason in value.evidence)
        for node in ast.walk(function)
    )  # fmt: skip
