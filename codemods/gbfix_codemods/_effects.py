"""What an expression does besides giving a value, as far as its source shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gbfix.rule import Context

PURE_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "dict", "enumerate", "float", "format", "getattr", "hasattr", "id", "int",
    "isinstance", "len", "list", "max", "min", "range", "repr", "reversed", "round", "set", "sorted", "str",
    "sum", "tuple", "type", "zip",
})  # fmt: skip
# Methods that have this name on tensors, strings, containers or modules, and none of them changes anything.
PURE_METHODS = frozenset({
    "abs", "all", "any", "argmax", "cpu", "detach", "dim", "float", "format", "getLogger", "get_logger",
    "isEnabledFor", "isinf", "isnan", "item", "items", "join", "keys", "long", "lower", "max", "mean", "median",
    "min", "named_parameters", "norm", "numel", "numpy", "parameters", "size", "split", "std", "strip", "sum",
    "tolist", "upper", "values", "var",
})  # fmt: skip
PURE_MODULES = ("math.", "os.path.", "torch.cuda.memory_", "torch.cuda.max_memory_", "time.")


def effect(context: Context, nodes: Iterable[ast.AST]) -> str:
    """Why leaving out these expressions could change more than their value; empty when it cannot."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.NamedExpr):
            return f"`{one_line(context, node)}` binds a name"
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom)):
            return f"`{one_line(context, node)}` suspends the function"
        if isinstance(node, ast.Call) and (why := _call(context, node)):
            return why
    return ""


def one_line(context: Context, node: ast.AST) -> str:
    """The source of a node, for a message."""
    text = context.text(node)
    return ast.unparse(node) if "\n" in text else text


def called(context: Context, call: ast.Call) -> str:
    """A call with its arguments left out, for a message."""
    return f"{one_line(context, call.func)}({'...' if call.args or call.keywords else ''})"


def _call(context: Context, call: ast.Call) -> str:
    text = f"`{called(context, call)}`"
    op = context.op(call)
    if op is not None:
        if "inplace" in op.traits or any(keyword.arg == "out" for keyword in call.keywords):
            return f"{text} changes a tensor in place"
        if "rng" in op.traits:
            return f"{text} draws random numbers"
        return f"{text} may change state" if "state" in op.traits else ""
    dotted = context.dotted(call.func)
    if dotted is not None and (dotted.startswith(PURE_MODULES) or dotted.rpartition(".")[2] in PURE_METHODS):
        return ""
    if isinstance(call.func, ast.Name) and call.func.id in PURE_BUILTINS:
        return ""
    if isinstance(call.func, ast.Attribute) and call.func.attr in PURE_METHODS and dotted is None:
        return ""
    return f"{text} may do more than give a value"
