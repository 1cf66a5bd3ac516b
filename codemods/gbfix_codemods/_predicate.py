"""The test of a branch as one 0-dim bool tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.rule import Context
from gbfix_codemods._purity import Decline, Effects, inspect, order

EXACT_INTEGERS = 256  # every integer up to this one is exact in bfloat16, the coarsest float dtype
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass
class Predicate:
    """The text of a test as a tensor. `hoisted` are walrus assignments to run first; `simple` says it is one comparison or call,
    `reasons` why computing it always is not safe."""

    text: str
    hoisted: list[tuple[str, str]] = field(default_factory=list)
    proven: bool = True
    simple: bool = True
    reasons: list[str] = field(default_factory=list)


def split_static(context: Context, test: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """The conjuncts of a test that read no tensor, and those that do. Raises Decline when their order cannot be kept."""
    if not isinstance(test, ast.BoolOp):
        return [], [test]
    reading = [bool(context.tested(operand)) for operand in test.values]
    if all(reading):
        return [], [test]
    if isinstance(test.op, ast.Or):
        raise Decline("the test joins a Python value and a tensor with `or`")
    first = reading.index(True)
    for operand, reads in zip(test.values[first:], reading[first:], strict=True):
        if not reads and not _total(operand):
            raise Decline(f"`{context.text(operand)}` is tested after a tensor")
    static = [o for o, reads in zip(test.values, reading, strict=True) if not reads]
    return static, [o for o, reads in zip(test.values, reading, strict=True) if reads]


def _total(node: ast.expr) -> bool:
    """Whether testing an expression cannot fail or act, so that it may be tested earlier."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _total(node.operand)
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops) and all(
            map(_total, (node.left, *node.comparators))
        )
    return isinstance(node, (ast.Name, ast.Constant)) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )


def predicate(context: Context, operands: list[ast.expr], *, always: bool = True) -> Predicate:
    """The conjunction of some tests as a tensor; each is 0-dim and bool.

    With `always`, the first operand is evaluated whatever happens, so it may raise or draw random numbers as it did before.
    """
    for part in (part for operand in operands for part in context.tested(operand)):
        value = context.value(part.value if isinstance(part, ast.NamedExpr) else part)
        if not value.certain or value.kind is Kind.UNKNOWN:
            raise Decline(f"`{context.text(part)}` is only likely to be a tensor")
    parts = [_tensor(context, operand, free=always and index == 0) for index, operand in enumerate(operands)]
    whole = _joined(context, "logical_and", parts)
    if not whole.proven and not (always and len(parts) == 1 and not isinstance(operands[0], ast.BoolOp)):
        whole.reasons.append("a test with several elements raises on every path")
    return whole


def _joined(context: Context, name: str, parts: list[Predicate]) -> Predicate:
    text = parts[0].text
    for part in parts[1:]:
        if part.hoisted:
            raise Decline("a walrus assignment in the test is evaluated only on some paths")
        text = f"{context.torch(name)}({text}, {part.text})"
    return Predicate(
        text,
        parts[0].hoisted,
        all(p.proven for p in parts),
        len(parts) == 1 and parts[0].simple,
        [r for p in parts for r in p.reasons],
    )


def _tensor(context: Context, node: ast.expr, *, free: bool) -> Predicate:
    parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    if any(context.value(part).kind is Kind.NDARRAY for part in parts):
        raise Decline(f"`{context.text(node)}` is NumPy's: compute it with `math` from Python numbers, or with torch")
    if isinstance(node, ast.BoolOp):
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        if not all(context.tested(operand) for operand in node.values):
            raise Decline("the test joins a Python value and a tensor")
        return _joined(
            context,
            name,
            [_tensor(context, operand, free=free and index == 0) for index, operand in enumerate(node.values)],
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _tensor(context, node.operand, free=free)
        return Predicate(
            f"{context.torch('logical_not')}({inner.text})", inner.hoisted, inner.proven, inner.simple, inner.reasons
        )
    if isinstance(node, ast.NamedExpr):
        return Predicate(
            _shaped(node.target.id, context.value(node.value)),
            [(node.target.id, context.text(node.value))],
            context.value(node.value).is_zero_dim,
        )
    if isinstance(node, ast.Compare):
        return _comparison(context, node, free=free)
    return _truth(context, node, free=free)


def _comparison(context: Context, node: ast.Compare, *, free: bool) -> Predicate:
    terms = [node.left, *node.comparators]
    if any(type(op) not in COMPARISONS for op in node.ops):
        raise Decline(f"`{context.text(node)}` has no exact tensor form")
    hoisted: list[tuple[str, str]] = []
    texts: list[str] = []
    reasons: list[str] = []
    if not free:
        effects = Effects()
        order(context, node, effects)
        if effects.partial:
            reasons.append(f"`{context.text(node)}` may not accept the dtype and is now always computed")
    for index, term in enumerate(terms):
        if isinstance(term, ast.NamedExpr) and index == 0:
            hoisted.append((term.target.id, context.text(term.value)))
            texts.append(term.target.id)
        else:
            texts.append(_operand(context, term, terms, reasons, free=free and index < 2))
    for index, term in enumerate(terms[1:-1], 1):
        if not isinstance(term, (ast.Name, ast.Constant)):
            name = context.fresh_name(_function(context, node), "middle")
            hoisted.append((name, texts[index]))
            texts[index] = name
    values = [context.value(t.value if isinstance(t, ast.NamedExpr) else t) for t in terms]
    zero_dim = all(v.is_zero_dim or v.kind is Kind.SCALAR for v in values)
    pairs = [f"{a} {COMPARISONS[type(op)]} {b}" for a, op, b in zip(texts, node.ops, texts[1:], strict=False)]
    if not zero_dim:
        pairs = [f"({pair}).reshape(())" for pair in pairs]
    text = pairs[0]
    for pair in pairs[1:]:
        text = f"{context.torch('logical_and')}({text}, {pair})"
    if all(isinstance(o, (ast.Name, ast.Constant)) for o in terms) and not any(v.kind is Kind.TENSOR for v in values):
        raise Decline(f"`{context.text(node)}` compares Python values")
    return Predicate(text, hoisted, zero_dim, len(pairs) == 1, reasons)


def _function(context: Context, node: ast.AST) -> ast.AST:
    while not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parent = context.parent(node)
        assert parent is not None
        node = parent
    return node


def _operand(context: Context, node: ast.expr, terms: list[ast.expr], reasons: list[str], *, free: bool) -> str:
    """One side of a comparison; a value read on the host (`t.item()`, `float(t)`) becomes the tensor, compared exactly."""
    value = context.value(node)
    if not (value.kind is Kind.SCALAR and value.read):
        reasons += _inspect(context, node, free)
        loose = isinstance(node, (ast.Compare, ast.BoolOp, ast.IfExp, ast.Lambda))
        return f"({context.text(node)})" if loose else context.text(node)
    source = read_source(context, node)
    if source is None:
        raise Decline(f"`{context.text(node)}` was read from a tensor before")
    reasons += _inspect(context, source, free)
    text = _parenthesised(context.text(source), source)
    others = [o for o in terms if o is not node]
    if any(context.value(o).read for o in others):
        if len({ast.unparse(o) for o in terms}) == 1:
            return text
        raise Decline("two values read from tensors are compared in Python's arithmetic")
    if all(_exact(o, context.value(source)) for o in others):
        return text
    if context.value(source).dtype == "bool" or (context.value(source).dtype or "").startswith(("int", "uint")):
        raise Decline("an integer tensor is compared with a float")
    return f"{text}.double()"


def _inspect(context: Context, node: ast.expr, free: bool) -> list[str]:
    effects = Effects()
    if not free:
        inspect(context, node, effects)
        if effects.partial:
            effects.unsafe.append(f"`{context.text(node)}` may not accept the dtype and is now always computed")
    return effects.unsafe


def _exact(node: ast.expr, tensor: Value) -> bool:
    """Whether comparing a tensor with this number in the tensor's own dtype is what Python does in double precision."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        known_signed = (tensor.dtype or "").startswith(("float", "int", "bfloat", "default"))
        return known_signed and _exact(node.operand, tensor)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and abs(node.value) <= EXACT_INTEGERS
        and (node.value * 2) % 1 == 0
        and (node.value % 1 == 0 or abs(node.value) < 64)
    )


def read_source(context: Context, node: ast.expr) -> ast.expr | None:
    """The tensor that `t.item()`, `float(t)` or `bool(t)` reads, None for anything else and where it is only likely one."""
    if not isinstance(node, ast.Call):
        return None
    source: ast.expr | None = None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        source = node.func.value
    elif isinstance(node.func, ast.Name) and node.func.id in ("float", "bool") and len(node.args) == 1:
        source = node.args[0]
    value = context.value(source) if source is not None else UNKNOWN
    return source if value.kind is Kind.TENSOR and value.certain else None


def _truth(context: Context, node: ast.expr, *, free: bool) -> Predicate:
    value = context.value(node)
    if value.kind is Kind.SCALAR:
        nonzero = isinstance(node, ast.Call) and context.dotted(node.func) == "torch.is_nonzero" and len(node.args) == 1
        source = node.args[0] if nonzero and isinstance(node, ast.Call) else read_source(context, node)
        if source is None:
            raise Decline(f"`{context.text(node)}` has no exact tensor form")
        node, value = source, context.value(source)
    if value.kind is not Kind.TENSOR:
        raise Decline(f"`{context.text(node)}` is not known to be a tensor")
    reasons = _inspect(context, node, free)
    text = context.text(node)
    if not value.is_bool:
        text = f"{text} != 0"
        return Predicate(text if value.is_zero_dim else f"({text}).reshape(())", [], value.is_zero_dim, reasons=reasons)
    return Predicate(
        text if value.is_zero_dim else f"{_parenthesised(text, node)}.reshape(())",
        [],
        value.is_zero_dim,
        reasons=reasons,
    )


def _shaped(text: str, value: Value) -> str:
    text = text if value.is_bool else f"({text} != 0)"
    return text if value.is_zero_dim else f"{text}.reshape(())"


def _parenthesised(text: str, node: ast.expr) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)) else f"({text})"
