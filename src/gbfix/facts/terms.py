"""Transfer terms: how a result's dtype and shape follow from the operands', so that equal terms mean equal at run time.

Source: torch's type promotion (docs/source/tensor_attributes.rst), checked on torch 2.13.
"""

from __future__ import annotations

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "default_float"})
COMPLEX = frozenset({"complex32", "complex64", "complex128"})
INTS = frozenset({"uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"})
CONCRETE = FLOATS | COMPLEX | INTS | {"bool"}
ALIASES = {
    "half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128", "char": "int8", "byte": "uint8",
}  # fmt: skip


def concrete(name: str) -> str | None:
    """The dtype term of a torch dtype's name (`half` is `float16`), None when it is no dtype."""
    name = ALIASES.get(name, name)
    return name if name in CONCRETE and name != "default_float" else None


def is_float(term: str | None) -> bool:
    """Whether a dtype term is proven floating point (not complex)."""
    return term in FLOATS


def to_float(term: str | None) -> str | None:
    """The dtype of `x / 2` or `x * 0.1`: integers and bool become the default float."""
    if term is None or term in FLOATS | COMPLEX or term.startswith("float("):
        return term
    if term in INTS or term == "bool":
        return "default_float"
    if term.startswith("num("):
        term = term[4:-1]
    return f"float({term})"


def to_number(term: str | None) -> str | None:
    """The dtype of `x * 2`: bool becomes int64."""
    if term is None or term in CONCRETE - {"bool"} or term.startswith(("float(", "num(")):
        return term
    return "int64" if term == "bool" else f"num({term})"


def to_real(term: str | None) -> str | None:
    """The dtype of `x.abs()`: complex becomes real."""
    if term is None or term in FLOATS | INTS | {"bool"}:
        return term
    return f"abs({term})"


def promote(a: str | None, b: str | None, shape_a: str | None, shape_b: str | None) -> str | None:
    """The dtype of a binary operation between two tensors; it depends on which of them is 0-dim."""
    if a is None or b is None:
        return None
    if a == b:
        return a
    if a == "bool" and b in CONCRETE and b != "bool":
        return b
    if b == "bool" and a in CONCRETE:
        return a
    if shape_a is None or shape_b is None:
        return None
    return "promote(" + ",".join(sorted((f"{a}@{shape_a}", f"{b}@{shape_b}"))) + ")"


def broadcast(a: str | None, b: str | None) -> str | None:
    """The shape of an elementwise operation between two tensors."""
    if a is None or b is None:
        return None
    if a == b or b == "()":
        return a
    if a == "()":
        return b
    return "bcast(" + ",".join(sorted((a, b))) + ")"
