"""What evaluating an expression can do besides giving its value: raise, draw random numbers, cost, spoil gradients."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gbfix.facts import terms
from gbfix.facts.lattice import Kind, Op
from gbfix.rule import Context

# Python calls that cannot fail or act on numbers, strings and shapes.
PURE_CALLS = {"len", "abs", "min", "max", "isinstance", "hasattr", "float", "int", "bool", "str"}
PURE_TORCH = {
    "torch.finfo",
    "torch.iinfo",
    "torch.get_default_dtype",
    "torch.Size",
    "torch.is_tensor",
    "torch.is_floating_point",
}
# Pointwise operators that accept every dtype, so that they cannot raise in one arm only. Source: torch/_refs/__init__.py, torch 2.13.
TOTAL = {
    "sin", "cos", "tan", "tanh", "sigmoid", "exp", "where", "zeros_like", "ones_like", "full_like", "square", "mul", "add", "sum",
    "any", "all", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not", "logical_xor", "eq", "ne", "unsqueeze",
    "squeeze", "view", "reshape", "expand",
}  # fmt: skip
CASTS = {
    "to",
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "bool",
    "type_as",
    "clone",
    "detach",
    "contiguous",
    "cpu",
}
FILLS = {
    "acos": "0.5",
    "asin": "0.5",
    "arccos": "0.5",
    "arcsin": "0.5",
    "atanh": "0.5",
    "arctanh": "0.5",
    "logit": "0.5",
}
# Operators whose gradient at a filled input is finite, so that filling the arm that is not taken keeps NaN away.
GATED = {
    "sqrt",
    "rsqrt",
    "log",
    "log2",
    "log10",
    "log1p",
    "reciprocal",
    "div",
    "true_divide",
    "divide",
    "exp",
    "exp2",
    "expm1",
    "pow",
    *FILLS,
}
EMPTY = {"max", "min", "amax", "amin", "argmax", "argmin"}
LIKE = {"zeros_like", "ones_like", "full_like", "empty_like"}


class Decline(Exception):
    """A rewrite is not possible; the message says why."""


def numeric(dtype: str | None) -> bool:
    """Whether a dtype term is proven floating point or integer, which arithmetic accepts."""
    return dtype in terms.FLOATS or dtype in terms.INTS


def _refuses(effects: Effects, operator: str, *dtypes: str | None) -> None:
    """Note an operator that some dtypes refuse, with the operands' dtypes, unless they are proven to be accepted."""
    never_bool = all(numeric(d) or (d or "").startswith(("float(", "num(")) for d in dtypes)
    if not (never_bool if operator in ("Sub", "USub", "Div", "Pow") else all(map(numeric, dtypes))):
        effects.partial.add(f"{operator}({', '.join(map(str, dtypes))})")


@dataclass
class Effects:
    """What was seen in one arm. `gates` are the operands to fill (node, filling); `partial` operators that some dtypes refuse."""

    gates: list[tuple[ast.expr, str]] = field(default_factory=list)
    partial: set[str] = field(default_factory=set)
    unsafe: list[str] = field(default_factory=list)


def inspect(context: Context, node: ast.expr, effects: Effects) -> None:
    """Collect an expression's effects. Raises Decline when it must not be evaluated unless its arm is taken."""
    if isinstance(node, (ast.Constant, ast.Name)):
        return
    if isinstance(node, ast.JoinedStr):
        raise Decline("an arm formats a string")
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise Decline(f"an arm holds {_article(type(node).__name__)}")
    handler(context, node, effects)


def _article(name: str) -> str:
    words = {
        "Lambda": "a lambda",
        "ListComp": "a comprehension",
        "GeneratorExp": "a generator",
        "Await": "an await",
        "Yield": "a yield",
        "NamedExpr": "a walrus assignment",
        "Dict": "a dict",
        "List": "a list",
        "IfExp": "a conditional expression",
        "Starred": "a starred expression",
    }
    return words.get(name, f"`{name}`")


def _attribute(context: Context, node: ast.Attribute, effects: Effects) -> None:
    if context.dotted(node) is not None:
        return
    base = context.value(node.value)
    if (
        base.kind is Kind.UNKNOWN
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and node.attr not in ("dtype", "device", "shape")
    ):
        effects.unsafe.append(f"`{context.text(node)}` is read on both paths")
    inspect(context, node.value, effects)


def _unary(context: Context, node: ast.UnaryOp, effects: Effects) -> None:
    if isinstance(node.op, (ast.USub, ast.Invert)) and context.value(node.operand).kind is Kind.TENSOR:
        _refuses(effects, type(node.op).__name__, context.value(node.operand).dtype)
    inspect(context, node.operand, effects)


def _compare(context: Context, node: ast.Compare, effects: Effects) -> None:
    if len(node.ops) > 1 and context.value(node).kind is Kind.TENSOR:
        raise Decline("an arm holds a chained comparison of tensors")
    for part in (node.left, *node.comparators):
        inspect(context, part, effects)
    order(context, node, effects)


def order(context: Context, node: ast.Compare, effects: Effects) -> None:
    """Note an ordering of tensors, which complex dtypes refuse."""
    dtypes = [
        v.dtype
        for v in map(context.value, (node.left, *node.comparators))
        if v.kind is Kind.TENSOR and v.dtype != "bool"
    ]
    if any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops):
        _refuses(effects, "order", *dtypes)


def _tuple(context: Context, node: ast.Tuple, effects: Effects) -> None:
    for part in node.elts:
        inspect(context, part, effects)


def _binary(context: Context, node: ast.BinOp, effects: Effects) -> None:
    left, right = context.value(node.left), context.value(node.right)
    inspect(context, node.left, effects)
    inspect(context, node.right, effects)
    if Kind.TENSOR not in (left.kind, right.kind):
        if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)) and not (
            isinstance(right.constant, (int, float)) and right.constant > 0
        ):
            raise Decline(f"`{context.text(node)}` can raise where its arm is not taken")
        return
    if isinstance(node.op, (ast.Sub, ast.Mod, ast.FloorDiv, ast.Pow)) and "bool" in (left.dtype, right.dtype):
        raise Decline(f"`{context.text(node)}` raises for bool tensors where its arm is not taken")
    if isinstance(node.op, ast.MatMult):
        raise Decline(
            f"an arm runs a matrix product (`{context.text(node)}`), which torch.where would always run; torch.cond runs one arm"
        )
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and not (
        isinstance(right.constant, (int, float)) and right.constant
    ):
        raise Decline(f"`{context.text(node)}` raises for an integer zero where its arm is not taken")
    if isinstance(node.op, ast.Div) and not right.constant:
        if right.kind is Kind.TENSOR:
            effects.gates.append((node.right, "1"))
        else:
            effects.unsafe.append(f"`{context.text(node)}` divides on both paths")
    if isinstance(node.op, ast.Pow) and not (isinstance(right.constant, int) and right.constant >= 0):
        raise Decline(f"the derivative of `{context.text(node)}` can be infinite where its arm is not taken")
    if isinstance(
        node.op,
        (ast.Sub, ast.Div, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.FloorDiv, ast.Mod),
    ):
        dtypes = [v.dtype for v in (left, right) if v.kind is Kind.TENSOR]
        _refuses(effects, type(node.op).__name__, *dtypes)


def _subscript(context: Context, node: ast.Subscript, effects: Effects) -> None:
    base = context.value(node.value)
    inspect(context, node.value, effects)
    if base.kind is Kind.TENSOR:
        if base.is_zero_dim:
            raise Decline(f"`{context.text(node)}` indexes a 0-dim tensor")
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            if isinstance(part, ast.Slice) or (
                isinstance(part, ast.Constant) and (part.value is None or part.value is Ellipsis)
            ):
                continue
            raise Decline(f"the index in `{context.text(node)}` can be out of range where its arm is not taken")
    elif base.kind is Kind.SCALAR:
        effects.unsafe.append(f"`{context.text(node)}` is read on both paths")
    else:
        raise Decline(f"`{context.text(node)}` can raise where its arm is not taken")


def _call(context: Context, node: ast.Call, effects: Effects) -> None:
    text = context.text(node.func)
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise Decline(f"the call of `{text}` spreads its arguments")
    arguments = [*node.args, *(k.value for k in node.keywords)]
    dotted = context.dotted(node.func)
    if dotted in PURE_TORCH or (
        isinstance(node.func, ast.Name) and node.func.id in PURE_CALLS and context.value(node).kind is Kind.SCALAR
    ):
        for argument in arguments:
            inspect(context, argument, effects)
        if context.value(node).read:
            raise Decline(f"`{context.text(node)}` reads a tensor on the host")
        return
    if isinstance(node.func, ast.Attribute) and dotted is None:
        inspect(context, node.func.value, effects)
    for argument in arguments:
        inspect(context, argument, effects)
    op = context.op(node)
    if op is None:
        _foreign(context, node, text)
    else:
        _operator(context, node, op, effects)


def _foreign(context: Context, node: ast.Call, text: str) -> None:
    if isinstance(node.func, ast.Attribute) and context.value(node.func).kind is Kind.MODULE:
        raise Decline(
            f"an arm calls the module `{text}`: it would always run, and its unused parameters would get zero gradients instead of None"
        )
    raise Decline(f"an arm calls `{text}`, which is not known to be free of effects")


def _operator(context: Context, node: ast.Call, op: Op, effects: Effects) -> None:
    name, traits = op.name.rpartition(".")[2], op.traits
    if "static" in traits and not traits & {"sync", "inplace", "rng"}:
        return
    if name in EMPTY and "raises" in traits and context.value(node).is_zero_dim:
        effects.unsafe.append(f"`{context.text(node.func)}` raises for an empty tensor on both paths")
        traits = traits - {"raises"} | {"reduction"}
    for trait, why in (
        ("rng", "draws random numbers, which would then also happen where its arm is not taken"),
        ("inplace", "changes a tensor in place"),
        ("sync", "reads a tensor on the host"),
        ("dynamic", "has an output size that depends on data"),
        ("heavy", "is expensive and torch.where would always run it; torch.cond runs one arm"),
        ("raises", "can raise on data where its arm is not taken"),
    ):
        if trait in traits:
            raise Decline(f"`{context.text(node.func)}` {why}")
    if op.returns != "tensor" or (not traits & {"pure", "view", "pointwise", "reduction"} and name not in LIKE | CASTS):
        raise Decline(f"an arm calls `{context.text(node.func)}`, which is not known to be free of effects")
    if any(k.arg in ("out", "inplace") for k in node.keywords):
        raise Decline(f"`{context.text(node)}` writes into a tensor")
    if "nan_grad" in traits:
        _gate(context, node, name, effects)
    if name not in TOTAL | CASTS:
        _refuses(effects, name, *(context.value(o).dtype for o in operands(context, node)))
        if any(context.value(o).dtype == "bool" for o in operands(context, node)):
            raise Decline(f"`{context.text(node.func)}` may not accept bool tensors where its arm is not taken")
    if "view" in traits and name not in CASTS and (node.args or node.keywords):
        effects.unsafe.append(f"`{context.text(node.func)}` runs on both paths")


def operands(context: Context, node: ast.Call) -> list[ast.expr]:
    """The receiver of a method, and the positional arguments."""
    method = isinstance(node.func, ast.Attribute) and context.dotted(node.func) is None
    return [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]


def _gate(context: Context, node: ast.Call, name: str, effects: Effects) -> None:
    given = operands(context, node)
    tensors = [o for o in given if context.value(o).kind is Kind.TENSOR]
    if name not in GATED or not tensors:
        raise Decline(
            f"the gradient of `{context.text(node.func)}` can be NaN where its arm is not taken, and torch.where passes NaN on"
        )
    if name in ("div", "true_divide", "divide"):
        tensors = [o for o in given[1:2] if context.value(o).kind is Kind.TENSOR]
    effects.gates += [(operand, FILLS.get(name, "1")) for operand in tensors]


HANDLERS: dict[type[ast.expr], Callable[[Context, Any, Effects], None]] = {
    ast.Attribute: _attribute, ast.UnaryOp: _unary, ast.Compare: _compare, ast.BinOp: _binary, ast.Subscript: _subscript, ast.Call: _call,
    ast.Tuple: _tuple,
}  # fmt: skip
