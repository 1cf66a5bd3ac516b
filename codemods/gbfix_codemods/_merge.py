"""Whether the values of a name on several paths may be merged by torch.where, and with what claim."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gbfix.facts import terms
from gbfix.facts.lattice import Kind, Value
from gbfix.facts.liveness import reads
from gbfix.rule import Applicability, Context, Edit, Fix
from gbfix_codemods._purity import Decline, Effects


@dataclass
class Claim:
    """Reasons why a rewrite is not safe; none means safe."""

    reasons: list[str] = field(default_factory=list)

    def add(self, reason: str) -> None:
        """Note a reason once."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def fix(self, message: str, edits: tuple[Edit, ...], form: str) -> Fix:
        """A fix under this claim."""
        applicability = Applicability.UNSAFE if self.reasons else Applicability.SAFE
        return Fix(message, edits, applicability, form, "; ".join(self.reasons))


@dataclass
class Leaf:
    """One value of a name at the end of a path: its text, abstract value and effects."""

    text: str
    value: Value
    effects: Effects


def merge(name: str, values: list[Value], effects: list[Effects], claim: Claim, used_in_arithmetic: bool) -> None:
    """Check the values that one name has on the paths of a choice. Raises Decline when torch.where would not give them."""
    for value in values:
        if value.kind not in (Kind.TENSOR, Kind.SCALAR) or value.optional:
            what = {
                Kind.NONE: "None",
                Kind.TUPLE: "a tuple",
                Kind.LIST: "a list",
                Kind.DICT: "a dict",
                Kind.MODULE: "a module",
            }.get(value.kind)
            raise Decline(
                f"{name} is {what} on one path" if what else f"{name} is not known to be a tensor on every path"
            )
        if value.kind is Kind.SCALAR and value.cls not in ("int", "float", "bool"):
            raise Decline(f"{name} is not known to be a tensor or a number on every path")
    tensors = [v for v in values if v.kind is Kind.TENSOR]
    if not tensors:
        raise Decline(f"{name} is a Python value on every path and would become a tensor")
    if len(tensors) < len(values):
        if not used_in_arithmetic:
            raise Decline(f"{name} is a Python number on one path and would become a tensor")
        claim.add(f"{name} becomes a tensor where it was a Python number")
    _dtypes(name, tensors, claim)
    _shapes(name, tensors, claim)
    if not all(v.fresh for v in tensors):
        claim.add(f"{name} no longer shares memory with the value it had on one path")
    if any(v.parameter for v in tensors):
        claim.add("gradients of parameters that were None become zeros")
    if not all(v.certain for v in tensors):
        claim.add("a tensor is inferred from its use")
    if len({frozenset(e.partial) for e in effects}) > 1:
        claim.add("an operator of one path may not accept the dtype")


def _dtypes(name: str, tensors: list[Value], claim: Claim) -> None:
    kinds = {v.dtype for v in tensors}
    if len(kinds) == 1 and None not in kinds:
        return
    known = {k for k in kinds if k in terms.CONCRETE and k != "default_float"}
    if len(known) > 1:
        raise Decline(f"{name} has different dtypes on the paths ({', '.join(sorted(str(k) for k in known))})")
    if known and len(kinds) > 1:
        raise Decline(f"{name} may have different dtypes on the paths")
    claim.add(f"the dtypes of {name} are not proven equal on the paths")


def _shapes(name: str, tensors: list[Value], claim: Claim) -> None:
    kinds = {v.shape for v in tensors}
    if len(kinds) == 1 and None not in kinds:
        return
    if None in kinds or any("@" in part and not part.startswith("s@") for part in map(str, kinds)):
        raise Decline(f"{name} may have different shapes on the paths")
    computed = [k for k in kinds if k is not None and "s@" in k]
    if computed or "()" in kinds:
        raise Decline(f"{name} may have different shapes on the paths")
    claim.add(f"the shapes of {name} are not proven equal on the paths")


def check_mutations(
    context: Context, function: ast.AST, node: ast.stmt, names: set[str], leaves: Sequence[Leaf], claim: Claim
) -> None:
    """Judge the in-place changes that come later (or in a loop around).

    Where a path only names a tensor, torch.where gives a new one: raises Decline when a merged name, or a tensor that may share
    its memory, is changed. Where all paths give fresh tensors, the path not taken has still saved what it read for its gradient.
    """
    aliases = not all(leaf.value.fresh for leaf in leaves if leaf.value.kind is Kind.TENSOR)
    texts = " ".join(leaf.text for leaf in leaves)
    names = names | _other_names(function, names)
    used = reads(node)
    loops = [n for n in ast.walk(function) if isinstance(n, (ast.For, ast.While))]
    in_loop = any(loop.lineno <= node.lineno <= (loop.end_lineno or 0) for loop in loops)
    for target, where in _mutations(context, function):
        if where.lineno <= (node.end_lineno or node.lineno) and not in_loop:
            continue
        root = target
        while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
            root = root.func if isinstance(root, ast.Call) else root.value
        root_name = root.id if isinstance(root, ast.Name) else ""
        if aliases and root_name in names:
            raise Decline(f"`{root_name}` is changed in place later, and torch.where gives a new tensor")
        # only values that read an attribute of `self` can share memory with one
        apart = context.value(target).fresh or (root_name == "self" and "self." not in texts)
        if aliases and not apart:
            raise Decline(f"`{context.text(target)}` is changed in place later and may share memory")
        if root_name in names | used or not apart:
            claim.add(
                f"`{context.text(target)}` is changed in place later, which autograd may refuse where both paths have run"
            )


def _other_names(function: ast.AST, names: set[str]) -> set[str]:
    """Names that an assignment of one of the names gives: `b = a`."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names:
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _mutations(context: Context, function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and context.value(node.target).kind is Kind.TENSOR:
            yield node.target, node.target
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and context.value(node.value).kind in (Kind.TENSOR, Kind.UNKNOWN)
        ):
            yield node.value, node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and context.dotted(node.func) is None:
            op = context.op(node)
            if op is not None and "inplace" in op.traits:
                yield node.func.value, node


def used_in_arithmetic(context: Context, function: ast.AST, name: str, after: ast.stmt) -> bool:
    """Whether every later use of a name is as an operand of arithmetic with a tensor that has dimensions of its own."""
    uses = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Load)
        and n.lineno > (after.end_lineno or 0)
    ]
    return bool(uses) and all(arithmetic_use(context, use) is not None for use in uses)


def arithmetic_use(context: Context, use: ast.expr) -> ast.BinOp | None:
    """The `tensor op use` around an expression, None when it is used otherwise."""
    parent = context.parent(use)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        other = parent.right if parent.left is use else parent.left
        if context.value(other).kind is Kind.TENSOR and (parent.left is not use or not isinstance(parent.op, ast.Div)):
            return parent
    return None
