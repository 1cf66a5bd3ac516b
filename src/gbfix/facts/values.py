"""Constants and joins of abstract values."""

from __future__ import annotations

import ast
from dataclasses import replace

from gbfix.facts import terms
from gbfix.facts.lattice import UNKNOWN, Kind, Value

Env = dict[str, Value]
Function = ast.FunctionDef | ast.AsyncFunctionDef
SCALAR = Value(Kind.SCALAR)
NONE = Value(Kind.NONE)
BOOL = Value(Kind.SCALAR, cls="bool")
INT = Value(Kind.SCALAR, cls="int")
TRUE = Value(Kind.SCALAR, cls="bool", constant=True)
FALSE = Value(Kind.SCALAR, cls="bool", constant=False)


def join(a: Value, b: Value, where: str = "") -> Value:
    """The value of a name that is `a` on one path and `b` on another."""
    if a == b:
        return a
    if Kind.NONE in (a.kind, b.kind) and a.kind is not b.kind:
        other = b if a.kind is Kind.NONE else a
        return replace(other, optional=True, constant=None)
    if a.kind is not b.kind:
        return replace(
            UNKNOWN,
            certain=False,
            read=a.read or b.read or (Kind.TENSOR in (a.kind, b.kind) and Kind.SCALAR in (a.kind, b.kind)),
        )

    def same(x: str | None, y: str | None, tag: str) -> str | None:
        return x if x == y else f"{tag}@{where}" if where and x and y else None

    items = a.items
    if a.items != b.items:
        items = tuple(map(join, a.items, b.items)) if a.items and b.items and len(a.items) == len(b.items) else None
    return Value(
        a.kind, a.certain and b.certain, a.optional or b.optional, same(a.dtype, b.dtype, "d"), same(a.shape, b.shape, "s"),
        a.fresh and b.fresh, a.parameter or b.parameter, a.read or b.read, items, a.cls if a.cls == b.cls else None,
        a.constant if a.constant == b.constant and type(a.constant) is type(b.constant) else None, a.evidence or b.evidence,
    )  # fmt: skip


def truth(value: Value) -> bool | None:
    """What `bool(value)` is known to be while tracing, None when not known."""
    if value.kind is Kind.NONE:
        return False
    return bool(value.constant) if value.kind is Kind.SCALAR and value.constant is not None else None


def at(node: ast.AST) -> str:
    """The place of a node as a term's suffix."""
    return f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"


def new_tensor(
    node: ast.AST,
    why: str,
    *,
    certain: bool = True,
    fresh: bool = False,
    dtype: str | None = None,
    shape: str | None = None,
) -> Value:
    """A tensor of which nothing else is known; its terms name the place."""
    return Value(
        Kind.TENSOR, certain, dtype=dtype or f"d@{at(node)}", shape=shape or f"s@{at(node)}", fresh=fresh,
        evidence=(f"line {getattr(node, 'lineno', 0)}: {why}",),
    )  # fmt: skip


def named_tensor(name: str, why: str, *, parameter: bool = False) -> Value:
    """A tensor that comes in under a name; its terms are the name's."""
    return Value(Kind.TENSOR, dtype=f"d:{name}", shape=f"s:{name}", parameter=parameter, evidence=(why,))


def opaque(value: Value, node: ast.AST) -> Value:
    """A callee's value seen by the caller: terms over the callee's own names lose their meaning."""
    dtype = value.dtype if value.dtype in terms.CONCRETE else None
    shape = value.shape if value.shape == "()" else None
    if value.kind is Kind.TENSOR:
        return replace(value, dtype=dtype or f"d@{at(node)}", shape=shape or f"s@{at(node)}", fresh=False)
    if value.items is not None:
        return replace(value, items=tuple(replace(opaque(item, node), dtype=None, shape=None) for item in value.items))
    return value


def with_scalar(dtype: str | None, scalar: Value) -> str | None:
    """The dtype of a tensor combined with a Python number."""
    if scalar.cls == "bool":
        return dtype
    if scalar.cls == "int":
        return terms.to_number(dtype)
    return terms.to_float(dtype) if scalar.cls == "float" else None


def scalar_class(op: ast.operator, left: Value, right: Value) -> str | None:
    """The type of a Python number that arithmetic gives."""
    if isinstance(op, ast.Div):
        return "float"
    if "str" in (left.cls, right.cls):
        return "str"
    if "float" in (left.cls, right.cls):
        return "float"
    return "int" if {left.cls, right.cls} <= {"int", "bool"} else None
