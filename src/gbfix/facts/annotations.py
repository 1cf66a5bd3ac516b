"""What a type annotation says of a value: tensors, numbers, containers of them; strings, unions and jaxtyping too."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.facts.values import NONE, SCALAR, join, named_tensor

if TYPE_CHECKING:
    from gbfix.facts.project import ModuleFacts

TENSOR_CLASSES = {
    "Tensor",
    "FloatTensor",
    "LongTensor",
    "BoolTensor",
    "IntTensor",
    "HalfTensor",
    "ByteTensor",
    "DoubleTensor",
}
SCALARS = {"int", "float", "bool", "str", "bytes", "complex"}
WRAPPERS = {"Annotated", "Final", "Required"}
SEQUENCES = {"List", "list", "Sequence", "Iterable", "Tuple", "tuple", "Set", "set", "Iterator", "Collection"}
MAPPINGS = {"Dict", "dict", "Mapping", "OrderedDict", "MutableMapping"}
JAXTYPING = {"Float", "Int", "Bool", "Num", "Shaped", "Inexact", "Integer", "UInt", "Complex"}


def annotation(module: ModuleFacts, node: ast.expr | None, name: str) -> Value | None:
    """What an annotation says, None when it says nothing gbfix knows."""
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NONE
        if isinstance(node.value, str):
            try:
                return annotation(module, ast.parse(node.value, mode="eval").body, name)
            except SyntaxError:
                return None
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union(module, [node.left, node.right], name)
    if isinstance(node, ast.Subscript):
        return _generic(module, node, name)
    last = _last(module, node)
    if last in TENSOR_CLASSES and (module.names.dotted(node) or "").startswith("torch"):
        return named_tensor(name, f"`{name}` is annotated {ast.unparse(node)}")
    if last == "Parameter":
        return named_tensor(name, f"`{name}` is annotated Parameter", parameter=True)
    if isinstance(node, ast.Name) and node.id in SCALARS:
        return Value(Kind.SCALAR, cls=node.id)
    if last == "Module":
        return Value(Kind.MODULE)
    if last in ("ndarray", "NDArray"):
        return Value(Kind.NDARRAY)
    if last in ("dtype", "device", "Size", "Path", "Device"):
        return SCALAR
    if isinstance(node, ast.Name) and node.id in module.classes:
        info = module.classes[node.id]
        return Value(Kind.MODULE if info.is_module else Kind.OBJECT, cls=node.id)
    if last in SEQUENCES:
        return Value(Kind.LIST)
    if last in MAPPINGS:
        return Value(Kind.DICT)
    return UNKNOWN if last in ("Any", "object") else None


def _last(module: ModuleFacts, node: ast.expr) -> str:
    dotted = module.names.dotted(node)
    if dotted:
        return dotted.rpartition(".")[2]
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _union(module: ModuleFacts, parts: list[ast.expr], name: str) -> Value | None:
    values = [annotation(module, part, name) for part in parts]
    if any(v is None for v in values):
        return UNKNOWN
    whole = values[0]
    for value in values[1:]:
        assert whole is not None
        assert value is not None
        whole = join(whole, value)
    return whole


def _generic(module: ModuleFacts, node: ast.Subscript, name: str) -> Value | None:
    last = _last(module, node.value)
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if last == "Optional":
        return _union(module, [parts[0], ast.Constant(None)], name)
    if last == "Union":
        return _union(module, parts, name)
    if last in WRAPPERS or last in JAXTYPING:
        return annotation(module, parts[0], name)
    if last in ("Tuple", "tuple") and not (
        len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis
    ):
        items = [annotation(module, part, f"{name}[{i}]") for i, part in enumerate(parts)]
        return Value(Kind.TUPLE, items=tuple(item or UNKNOWN for item in items))
    if last in SEQUENCES:
        item = annotation(module, parts[0], f"{name}[]")
        return Value(Kind.LIST, items=(item,) if item is not None else None)
    if last in MAPPINGS and len(parts) == 2:
        item = annotation(module, parts[1], f"{name}[]")
        return Value(Kind.DICT, items=(item,) if item is not None else None)
    return None
