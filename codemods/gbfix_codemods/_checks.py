"""Checks that raise on a tensor's value: the tensor that must hold, and the message for compiled code."""

from __future__ import annotations

import ast
import json
import re

from gbfix.facts.lattice import Tensor
from gbfix.rule import Context
from gbfix_codemods._predicate import predicate
from gbfix_codemods._purity import Decline

CAUGHT = "an error may be caught here, and compiled code raises it where nothing catches it"


def is_check(node: ast.If) -> bool:
    """Whether an `if` does nothing but raise."""
    return not node.orelse and isinstance(node.body[-1], ast.Raise)


def is_constant(message: ast.expr | None) -> bool:
    """Whether Dynamo takes an assertion's message for a constant text (none at all is one too)."""
    if isinstance(message, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in message.values)
    if isinstance(message, ast.BinOp) and isinstance(message.op, ast.Add):
        return is_constant(message.left) and is_constant(message.right)
    return message is None or (isinstance(message, ast.Constant) and isinstance(message.value, str))


def text_of(message: ast.expr | None) -> str:
    """The constant text that a message starts with; empty when it starts otherwise."""
    if isinstance(message, ast.Constant):
        return message.value if isinstance(message.value, str) else ""
    if isinstance(message, ast.JoinedStr):
        return text_of(message.values[0]) if message.values else ""
    if isinstance(message, ast.BinOp) and isinstance(message.op, ast.Mod):
        return text_of(message.left).partition("%")[0]
    if isinstance(message, ast.BinOp) and isinstance(message.op, ast.Add):
        return text_of(message.left) + (text_of(message.right) if is_constant(message.left) else "")
    if isinstance(message, ast.Call):
        if isinstance(message.func, ast.Attribute) and message.func.attr == "format":
            return text_of(message.func.value).partition("{")[0]
        return text_of(message.args[0]) if message.args else ""
    return ""


def shortened(message: ast.expr | None, otherwise: str) -> str:
    """A literal for compiled code: the message, its constant start, or another text where it has none."""
    text = text_of(message)
    if not is_constant(message):
        text = re.sub(r"[\s:=,;(\[{'\"<]+$", "", text)
    return json.dumps(text or otherwise, ensure_ascii=False)


def raises(shorter: bool, reasons: list[str]) -> str:
    """Why a check in tensor form is not safe."""
    return "; ".join(
        [f"compiled code raises RuntimeError{' with a shorter message' if shorter else ''}, on CUDA late", *reasons]
    )


def holds(context: Context, operands: list[ast.expr], *, negated: bool) -> tuple[str, list[str]]:
    """A 0-dim tensor that says whether some tests hold (whether they do not, with `negated`), and why computing it is not safe."""
    if negated and len(operands) == 1 and isinstance(operands[0], ast.UnaryOp) and isinstance(operands[0].op, ast.Not):
        return holds(context, [operands[0].operand], negated=False)
    test = predicate(context, operands)
    if test.hoisted:
        raise Decline("the test keeps a value on its way: assign that before the test")
    return f"{context.torch('logical_not')}({test.text})" if negated else test.text, test.reasons


def kept_name(context: Context, name: str, value_of: ast.expr, *, negated: bool) -> str:
    """As `holds`, for a name that keeps a test's tensor."""
    value = context.value(value_of)
    text = f"{context.torch('logical_not')}({name})" if negated else name if value.is_bool else f"({name} != 0)"
    return text if value.is_zero_dim else f"{text}.reshape(())"


def is_plain(context: Context, node: ast.expr) -> bool:
    """Whether a test is a tensor by itself, made without asking for the truth of another."""
    value = context.value(node)
    loose = isinstance(node, (ast.BoolOp, ast.NamedExpr, ast.IfExp, ast.UnaryOp)) and not (
        isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    )
    chained = isinstance(node, ast.Compare) and len(node.ops) > 1
    return value.tensor is Tensor.YES and value.certain and not loose and not chained
