"""What a function's parameters are: annotations, defaults, how the body uses them, what the module's own calls pass."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts import ops
from gbfix.facts.annotations import annotation
from gbfix.facts.flow import scalar_default
from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.facts.values import Env, Function, named_tensor

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

# Methods that str, list, dict, set or ndarray have too: calling one does not show that a value is a tensor.
AMBIGUOUS = {
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "clip",
    "conj",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "fill",
    "flatten",
    "item",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "round",
    "sort",
    "split",
    "squeeze",
    "std",
    "sum",
    "take",
    "tolist",
    "trace",
    "transpose",
    "var",
    "view",
    "count",
    "index",
    "pop",
    "remove",
    "insert",
    "append",
    "extend",
    "add",
    "clear",
    "update",
    "get",
    "keys",
    "values",
    "items",
    "union",
    "difference",
    "format",
    "replace",
    "size",
    "to",
    "type",
    "sub",
    "mul",
    "div",
    "where",
    "eq",
    "gt",
    "lt",
    "ge",
    "le",
    "ne",
    "half",
    "float",
    "cuda",
    "cpu",
    "apply_",
    "requires_grad_",
    "real",
    "imag",
    "T",
    "search",
    "match",
    "swapaxes",
    "backward",
    "bool",
    "int",
    "double",
    "long",
    "data_ptr",
    "norm",
    "dim",
    "flip",
    "byte",
    "char",
    "short",
    "map_",
    "register_hook",
    "share_memory_",
}
NUMERIC_WEAK = {
    "all",
    "any",
    "argmax",
    "argmin",
    "item",
    "max",
    "mean",
    "min",
    "sum",
    "std",
    "var",
    "tolist",
    "norm",
    "eq",
    "gt",
    "lt",
    "dim",
    "size",
    "view",
    "reshape",
    "flatten",
    "transpose",
    "squeeze",
    "bool",
    "half",
    "float",
    "to",
}


def used_as_tensor(module: ModuleFacts, function: Function, name: str, owner: ClassFacts | None) -> Value | None:
    """Whether the body uses a parameter as a tensor is used; None when it shows nothing.

    Methods and operators that only tensors have are certain. What arrays have too (`.sum()`, `.shape`) is certain only for
    methods in the `forward` of a file without NumPy.
    """
    calls = others = 0
    for node in module.nodes(function):
        if isinstance(node, ast.Call):
            shown = _strong_call(module, node, name, owner)
            if shown is not None:
                return _used(name, node, shown)
            if _tests_type(module, node) and any(isinstance(a, ast.Name) and a.id == name for a in node.args):
                return None
            if isinstance(node.func, ast.Attribute) and node.func.attr in NUMERIC_WEAK:
                calls += _is_operand(node.func.value, name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            others += node.attr in ("shape", "dtype", "device", "ndim", "requires_grad", "grad")
    if not calls and not others:
        return None
    certain = calls > 0 and not module.uses_numpy and function.name == "forward"
    return replace(_used(name, function, "what it does with it"), certain=certain)


def _tests_type(module: ModuleFacts, node: ast.Call) -> bool:
    return module.names.dotted(node.func) == "torch.is_tensor" or (
        isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    )


def _strong_call(module: ModuleFacts, node: ast.Call, name: str, owner: ClassFacts | None) -> str | None:
    func = node.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == name:
        return f"`.{func.attr}()`" if ops.method(func.attr) is not None and func.attr not in AMBIGUOUS else None
    if not any(isinstance(a, ast.Name) and a.id == name for a in node.args):
        return None
    dotted = module.names.dotted(func)
    op = ops.function(dotted) if dotted is not None else None
    if (
        op is not None
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == name
        and op.traits & {"pointwise", "reduction", "heavy", "nan_grad", "view"}
    ):
        return f"`{dotted}`"
    return f"`{ast.unparse(func)}`, a layer" if owner is not None and _is_layer(module, owner, func) else None


def _is_operand(node: ast.expr, name: str) -> bool:
    """Whether an expression is the name, or a comparison or arithmetic of it."""
    parts = (
        [node.left, *node.comparators]
        if isinstance(node, ast.Compare)
        else [node.left, node.right]
        if isinstance(node, ast.BinOp)
        else [node]
    )
    return any(isinstance(p, ast.Name) and p.id == name for p in parts)


def _is_layer(module: ModuleFacts, owner: ClassFacts, func: ast.expr) -> bool:
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"):
        return False
    value = module.attribute(owner, func.attr)
    return (
        value is not None
        and value.kind is Kind.MODULE
        and ops.module(value.cls or "") is not None
        and value.cls not in ("torch.nn.Embedding",)
    )


def _used(name: str, node: ast.AST, how: str) -> Value:
    return named_tensor(name, f"line {getattr(node, 'lineno', 0)}: `{name}` is used as a tensor by {how}")


def parameters(
    module: ModuleFacts, function: Function, owner: ClassFacts | None, passed: dict[str, Value], bound: bool
) -> Env:
    """The values of a function's parameters. `passed` joins what the module's own calls give."""
    env: Env = {}
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: dict[str, ast.expr] = dict(
        zip([a.arg for a in positional[len(positional) - len(spec.defaults) :]], spec.defaults, strict=True)
    )
    defaults.update({a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None})
    for index, arg in enumerate([*positional, *spec.kwonlyargs]):
        if index == 0 and bound:
            env[arg.arg] = Value(
                Kind.MODULE if owner is not None and owner.is_module else Kind.OBJECT,
                cls=owner.node.name if owner else None,
            )
            continue
        env[arg.arg] = _parameter(module, function, owner, arg, defaults.get(arg.arg), passed.get(arg.arg))
    if spec.vararg:
        item = annotation(module, spec.vararg.annotation, spec.vararg.arg)
        env[spec.vararg.arg] = Value(Kind.LIST, items=(item,) if item is not None else None)
    if spec.kwarg:
        env[spec.kwarg.arg] = Value(Kind.DICT)
    return env


def _as_passed(annotated: Value, passed: Value) -> Value:
    """An annotation of a number gives way where the module's own calls pass a tensor."""
    if annotated.kind is Kind.SCALAR and passed.kind is Kind.TENSOR:
        return replace(passed, certain=False, fresh=False)
    if annotated.items and passed.items and len(annotated.items) == len(passed.items):
        return replace(annotated, items=tuple(map(_as_passed, annotated.items, passed.items)))
    return annotated


def _parameter(
    module: ModuleFacts,
    function: Function,
    owner: ClassFacts | None,
    arg: ast.arg,
    default: ast.expr | None,
    passed: Value | None,
) -> Value:
    name = arg.arg
    value = annotation(module, arg.annotation, name)
    given = scalar_default(default) if default is not None else None
    if value is None or (value.kind is Kind.UNKNOWN and arg.annotation is None):
        value = used_as_tensor(module, function, name, owner)
        if (
            value is not None
            and not value.certain
            and passed is not None
            and passed.certain
            and passed.kind is not Kind.UNKNOWN
        ):
            value = None
        if value is None and passed is not None and passed.kind is not Kind.UNKNOWN:
            value = passed
            if passed.kind is Kind.TENSOR:
                value = replace(
                    passed, dtype=f"d:{name}", shape="()" if passed.shape == "()" else f"s:{name}", fresh=False
                )
        if value is None and given is not None and given.kind is Kind.SCALAR:
            value = given
        if value is None:
            value = UNKNOWN
    elif passed is not None:
        value = _as_passed(value, passed)
    if given is not None and given.kind is Kind.NONE and value.kind is not Kind.UNKNOWN:
        value = replace(value, optional=True)
    return replace(value, constant=None)
