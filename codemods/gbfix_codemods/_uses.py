"""What becomes of a number read from a tensor, and what would keep the graph whole there."""

from __future__ import annotations

import ast

from gbfix.rule import Context
from gbfix_codemods._effects import one_line

CAPTURE = "torch._dynamo.config.capture_scalar_outputs = True"
SIZES = frozenset({
    "arange", "chunk", "empty", "expand", "eye", "linspace", "narrow", "new_empty",
    "new_ones", "new_zeros", "ones", "rand", "randint", "randn", "repeat", "repeat_interleave",
    "reshape", "split", "tile", "topk", "unflatten", "view", "zeros",
})  # fmt: skip
SIZE = f"a size needs the number; {CAPTURE} keeps it in the graph"
# Compiled code does not check an index: `x[k]` reads past the end where eager raises (inductor, torch 2.13).
INDEX = (
    f"an index needs the number; with {CAPTURE}, bound it by torch._check(-n <= k) and torch._check(k < n), "
    "which compiled code does not check by itself"
)
LOOP = "the number of iterations depends on data: loop over a static bound, or use torch.while_loop"
KEY = "a key needs the number, in any mode: select with tensor operations, or look it up outside of the compiled code"
STORED = "it is stored as a Python number"
BRANCH = "the number decides a branch later: ask the tensor there, `t.double() > ...` keeps the comparison exact"


# Reads that are more than one number.
WHOLE = {
    "tolist": f"a Python list is made of it; {CAPTURE} keeps whole numbers in the graph, but not fractions",
    "equal": "it answers with a Python bool: `(a == b).all()` stays a tensor, where the shapes are known to be equal",
    "allclose": "it answers with a Python bool: `torch.isclose(a, b).all()` stays a tensor",
    "is_nonzero": "it answers with a Python bool: `t != 0` stays a tensor",
    "gaussian_nll_loss": "the read is inside torch: write the loss in tensor operations, or leave it outside",
}
CONVERSIONS = {
    "int": "`int` cuts off towards zero and raises on inf and NaN",
    "bool": "`bool` gives a Python truth value",
    "complex": "`complex` gives a Python number",
}


def kept(what: str) -> str:
    """The reason where only the captured number is right."""
    return f"{what}; {CAPTURE} keeps it in the graph"


def use(context: Context, node: ast.AST) -> str:
    """Why the number at this node cannot become a tensor."""
    parent = context.parent(node)
    while parent is not None:
        if reason := _use(context, node, parent):
            return reason
        node, parent = parent, context.parent(parent)
    return kept("it is used as a Python number")


def _use(context: Context, node: ast.AST, parent: ast.AST) -> str:
    if isinstance(parent, ast.Subscript):
        return INDEX if node is parent.slice and not isinstance(node, ast.Slice) else SIZE
    if isinstance(parent, ast.Call):
        return _argument(context, parent)
    if isinstance(parent, ast.FormattedValue):
        return kept("it becomes text")
    if isinstance(parent, (ast.Dict, ast.DictComp, ast.Set, ast.SetComp)):
        values = parent.values if isinstance(parent, ast.Dict) else [getattr(parent, "value", None)]
        return kept(STORED) if node in values else KEY
    if isinstance(parent, ast.comprehension):
        return "it filters a comprehension: select with a mask instead"
    if isinstance(parent, ast.Compare):
        return kept("it is compared in double precision")
    if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
        return kept("it is combined with Python numbers first, in double precision")
    if isinstance(parent, (ast.Return, ast.Yield)):
        return kept("it is returned as a Python number")
    if isinstance(parent, ast.Match):
        return BRANCH
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return kept(STORED)
    return ""


def _argument(context: Context, call: ast.Call) -> str:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if name == "range" and isinstance(func, ast.Name):
        return LOOP
    if name in SIZES:
        return SIZE
    if name == "append":
        return kept(STORED)
    if name in ("tensor", "as_tensor"):
        return "a new tensor is made of the number: use the tensor, detached and of the wanted dtype"
    if (context.dotted(call.func) or "").startswith("math."):
        return kept(f"`math.{name}` computes in double precision and raises on bad values")
    return kept(f"`{one_line(context, call.func)}` takes it as a Python number")
