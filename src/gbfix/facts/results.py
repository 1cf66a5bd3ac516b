"""The abstract value that a torch operator gives for its arguments, by the op table."""

from __future__ import annotations

import ast

from gbfix.facts import ops, terms
from gbfix.facts.lattice import UNKNOWN, Kind, Op, Value
from gbfix.facts.values import at, new_tensor, with_scalar

LIKE = {
    "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_full", "new_empty",
    "new_tensor",
}  # fmt: skip
FLOAT_CONSTRUCTORS = {"zeros", "ones", "empty", "rand", "randn", "linspace"}


def result(node: ast.Call, op: Op, args: list[Value], keywords: dict[str, Value], dtype: str | None) -> Value:
    """The value that a torch operator gives for these arguments (`self` first for a method)."""
    name = op.name.rpartition(".")[2]
    returns = ops.returned(op, len(args), keywords)
    if "as_tuple" in keywords and keywords["as_tuple"].constant is False:
        returns = "tensor"
    if returns == "other" and name in ("max", "min"):
        second = args[1].kind
        returns = "tensor" if second is Kind.TENSOR else "tensors" if second is Kind.SCALAR else "other"
        dtype = dtype or f"d@{at(node)}"
    if returns == "tensors":
        return _several(node, name, args)
    if returns != "tensor":
        if returns == "none":
            return Value(Kind.NONE)
        if returns == "other" and not op.breaks:
            return UNKNOWN
        return Value(Kind.SCALAR, cls=returns if returns in ("bool", "int", "float") else None, read=op.breaks)
    if name == "where":
        args = args[1:]
    tensors = [a for a in (*args, *keywords.values()) if a.kind is Kind.TENSOR]
    certain = all(a.certain for a in tensors)
    first = tensors[0] if tensors else UNKNOWN
    if dtype is None and "dtype" not in keywords:
        dtype = _dtype(op, name, args, keywords, tensors)
    shape = None
    if op.shape == "scalar":
        shape = "()" if ops.gives_scalar(op, len(args), keywords) else None
    elif op.shape == "same" and tensors:
        shape = first.shape
    elif op.shape == "broadcast" and tensors:
        if all(a.kind in (Kind.TENSOR, Kind.SCALAR, Kind.NONE) for a in (*args, *keywords.values())):
            shape = first.shape
            for other in tensors[1:]:
                shape = terms.broadcast(shape, other.shape)
    elif name in LIKE and name.endswith("_like") and tensors:
        shape = first.shape
    elif name in ("tensor", "scalar_tensor") and args and args[0].kind is Kind.SCALAR:
        shape = "()"
    fresh = not op.traits & {"view", "inplace"}
    return new_tensor(node, f"the result of `{name}`", certain=certain, fresh=fresh, dtype=dtype, shape=shape)


def _several(node: ast.Call, name: str, args: list[Value]) -> Value:
    """The tuple or list of tensors that an operator gives: pieces, or values and indices."""
    if name in ("split", "chunk", "unbind", "tensor_split", "meshgrid", "broadcast_tensors"):
        return Value(Kind.LIST, items=(new_tensor(node, f"an output of `{name}`"),))
    if name in ops.TUPLE_WITH_DIM or name in ("sort", "topk", "kthvalue", "cummax", "cummin"):
        dtype = args[0].dtype if args and args[0].kind is Kind.TENSOR else None
        values = new_tensor(node, f"the values of `{name}`", dtype=dtype)
        return Value(Kind.TUPLE, items=(values, new_tensor(node, f"the indices of `{name}`", dtype="int64")))
    return Value(Kind.TUPLE)


def _dtype(op: Op, name: str, args: list[Value], keywords: dict[str, Value], tensors: list[Value]) -> str | None:
    if name in ("abs", "absolute") and tensors:
        return terms.to_real(tensors[0].dtype)
    if name in LIKE and tensors:
        return tensors[0].dtype if name != "new_tensor" else None
    if name in FLOAT_CONSTRUCTORS and op.name.startswith("torch.") and not tensors:
        return "default_float"
    if op.dtype in ("bool", "int64"):
        return op.dtype
    if not tensors or op.dtype is None:
        return None
    dtype, shape = tensors[0].dtype, tensors[0].shape
    if name in ("clamp", "clip", "clamp_min", "clamp_max"):
        for other in (*args[1:], *keywords.values()):
            dtype = (
                dtype
                if other.kind is Kind.NONE or terms.is_float(dtype)
                else with_scalar(dtype, other)
                if other.kind is Kind.SCALAR
                else None
            )
        return dtype
    if op.dtype == "same":
        return dtype
    for other in (*args, *keywords.values()):
        if other is tensors[0]:
            continue
        if other.kind is Kind.TENSOR:
            dtype, shape = terms.promote(dtype, other.dtype, shape, other.shape), terms.broadcast(shape, other.shape)
        elif other.kind is Kind.SCALAR and op.dtype == "promote":
            dtype = with_scalar(dtype, other)
        elif op.dtype == "promote":
            return None
    return terms.to_float(dtype) if op.dtype == "float" else dtype
