"""Which functions of a module run under torch.compile: entries, what they call, and what stays on the host."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gbfix.facts.entries import entries, functions, named
from gbfix.facts.lattice import DEFAULT_SCOPE, Kind, Scope
from gbfix.facts.project import is_property
from gbfix.facts.values import Function

if TYPE_CHECKING:
    from gbfix.facts.project import ModuleFacts

# Decorators under which Dynamo never traces the body. Source: torch/compiler/__init__.py, torch/library.py, torch 2.13.
OPAQUE = re.compile(
    r"(^|\.)(disable|ignore|unused|custom_op|register_fake|impl_abstract|triton_op|register_kernel|jit|overload|fixture|autotune|heuristics)$"
)
HOST_NAME = re.compile(
    r"^(main|build|make_inputs|example_inputs|test(_.*)?|train(_.*)?|fit|fit_.*|evaluate|eval_.*|validate.*|collate.*|load.*|save.*|convert.*"
    r"|export.*|plot.*|log_.*|setup.*|run|cli|benchmark.*|step_.*)$"
)
HOST_METHODS = {"backward", "zero_grad", "add_argument", "parse_args", "state_dict", "load_state_dict", "train", "eval"}
HOST_CALLS = {
    "torch.save",
    "torch.load",
    "torch.compile",
    "torch.manual_seed",
    "torch.jit.trace",
    "torch.jit.script",
    "torch.onnx.export",
}
HOST_CLASSES = re.compile(
    r"(Dataset|Sampler|DataLoader|Processor|Tokenizer|Trainer|Callback|Logger|TestCase|Config|Optimizer|Test)$"
)


@dataclass(frozen=True)
class Reach:
    """Why a function is compiled. `certain` is False when only its tensor parameters suggest it; `entry`: it is handed to torch.compile."""

    why: str
    certain: bool
    entry: bool


def compiled(facts: ModuleFacts, scope: Scope = DEFAULT_SCOPE) -> dict[int, Reach]:
    """The functions that run under torch.compile, by identity of their node. `scope` is what the user says of it."""
    every = functions(facts)
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

    for function, why in (*entries(facts), *named(facts, scope.entry_points)):
        add(function, Reach(why, True, True))
    follow()
    for function in every if scope.assume_compiled else ():
        add(function, Reach("every function is assumed to be compiled", True, False))
    if not re.search(r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$", facts.path.replace("\\", "/")):
        for function in every:
            if id(function) not in found and _works_on_tensors(facts, function):
                add(function, Reach("nothing in this file compiles it", False, False))
        follow()
    return found


def is_opaque(function: Function) -> bool:
    """Whether a decorator keeps Dynamo out of the function."""
    return any(OPAQUE.search(ast.unparse(d.func if isinstance(d, ast.Call) else d)) for d in function.decorator_list)


def _overrides(facts: ModuleFacts, method: Function) -> list[Function]:
    """Methods of subclasses in this module that replace a method."""
    owner = facts.owners.get(id(method))
    if owner is None:
        return []
    return [
        c.methods[method.name]
        for c in facts.classes.values()
        if c is not owner and owner in facts.mro(c) and method.name in c.methods
    ]


def _works_on_tensors(facts: ModuleFacts, function: Function) -> bool:
    """Whether a function that nothing here compiles takes tensors and looks like tensor code, not like a program."""
    name = function.name
    owner = facts.owners.get(id(function))
    if HOST_NAME.match(name) or (name.startswith("__") and name != "__call__") or is_property(function):
        return False
    if owner is not None and (HOST_CLASSES.search(owner.node.name) or any(HOST_CLASSES.search(b) for b in owner.bases)):
        return False
    if (
        id(function) in facts.outer
        and facts.outer[id(function)] in facts.functions.values()
        and HOST_NAME.match(facts.outer[id(function)].name)
    ):
        return False
    for node in facts.nodes(function):
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
        for node in facts.nodes(function)
    )  # fmt: skip
