"""The rule item-read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Value
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._places import in_output
from gbfix_codemods._purity import Decline
from gbfix_codemods._uses import BRANCH, CONVERSIONS, WHOLE, kept, use

SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
# On CUDA `x / number` multiplies by the reciprocal, as `number / x` does everywhere; `**` has short cuts.
# Source: aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu and BinaryDivFloorKernel.cu in torch.
ROUNDED = (ast.Div, ast.FloorDiv, ast.Pow)
CATEGORIES = {"bool": 0, "int": 1, "uint": 1, "float": 2, "bfloat": 2, "default_float": 2, "complex": 3}


class ItemRead(Rule):
    """Flag `.item()` and `float(t)`; rewrite an operand of tensor arithmetic to `t.detach().reshape(())`.

    Breaks because a Python number needs the tensor's value, which is not there while the graph is made.
    Unsafe because a 0-dim tensor of another dtype than its partner's can promote and round otherwise than a number; it
    is safe where both are proven to have one dtype and the operator is `+ - * %` or a comparison (measured bit for bit
    on 13 dtypes).
    Source: GB0124 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF201"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0124",)
    kinds: ClassVar[tuple[str, ...]] = ("read",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each read that is not a test's (data-dependent-branch) or an output's."""
        node = site.node
        assert isinstance(node, ast.Call)
        if self.in_test(node) or in_output(self, node):
            return
        message = f"`{called(self.context, node)}` reads a tensor's value"
        try:
            yield self.report(site, message, fix=self.drop(site, node))
        except Decline as reason:
            yield self.report(site, message, declined=str(reason))

    def in_test(self, node: ast.AST) -> bool:
        """Whether the value decides a branch, so that the branch is the finding."""
        parent = self.context.parent(node)
        while not isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            if parent is None or isinstance(parent, ast.FunctionDef):
                return False
            parent = self.context.parent(parent)
        return any(inner is node for part in self.context.tested(parent.test) for inner in ast.walk(part))

    def drop(self, site: Site, node: ast.Call) -> Fix:
        """The fix that keeps the tensor. Raises Decline where the number is needed."""
        if site.name in CONVERSIONS:
            raise Decline(kept(CONVERSIONS[site.name]))
        if site.name not in ("item", "float") or self.context.dotted(node.func) is not None:
            raise Decline(WHOLE.get(site.name, kept("it gives a Python value")))
        if self.context.value(read(node)).kind is not Kind.TENSOR or not self.context.value(read(node)).certain:
            raise Decline(kept(f"`{one_line(self.context, read(node))}` is not known to be a tensor"))
        parent = self.context.parent(node)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            doubt = self.variable(site, node, parent, parent.targets[0].id)
        else:
            doubt = self.operand(site, node, node)
        applicability = Applicability.UNSAFE if doubt else Applicability.SAFE
        edit = self.context.replace(node, self.kept_tensor(node))
        return Fix("keep the tensor", (edit,), applicability, "drop", doubt)

    def kept_tensor(self, node: ast.Call) -> str:
        """The 0-dim tensor that holds the number, without its gradient."""
        tensor = read(node)
        kept = "" if is_detached(tensor) else ".detach()"
        if not self.context.value(tensor).is_zero_dim:
            kept += ".reshape(())"
        if isinstance(node.func, ast.Attribute):
            return re.sub(r"\.\s*item\s*\(\s*\)$", kept, self.context.text(node))
        text = self.context.text(tensor)
        simple = isinstance(tensor, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        return f"{text if simple else f'({text})'}{kept}"

    def variable(self, site: Site, node: ast.Call, statement: ast.Assign, name: str) -> str:
        """As `operand`, for a number whose only use is one operand in the same block, before the tensor can change."""
        names = [inner for inner in ast.walk(site.function) if isinstance(inner, ast.Name) and inner.id == name]
        loads = [inner for inner in names if isinstance(inner.ctx, ast.Load)]
        if loads and all(in_output(self, load) for load in loads):
            raise Decline(f"`{name}` is only written out: read the tensor there, in the call that is guarded")
        if any(self.in_test(load) for load in loads):
            raise Decline(BRANCH)
        if len(loads) != 1 or len(names) != 2 or is_shared(site.function, name):
            raise Decline(kept(f"`{name}` is used as a Python number"))
        block, user = self.context.block(statement), self.context.statement(loads[0])
        between = block[block.index(statement) + 1 : block.index(user)] if user in block else None
        touched = between is None or any(variables(read(node)) & variables(inner) for inner in between)
        if touched or changes_in_place(user):
            raise Decline(kept(f"`{name}` is used where the tensor may have changed"))
        return self.operand(site, node, loads[0]) or f"`{name}` becomes a tensor"

    def operand(self, site: Site, node: ast.Call, place: ast.expr) -> str:
        """Why keeping the tensor at a place is not safe, empty when it is. Raises Decline where it is wrong."""
        parent = self.context.parent(place)
        operator: ast.AST
        if isinstance(parent, ast.AugAssign) and place is parent.value:
            other: ast.expr = parent.target
            operator = parent.op
        elif isinstance(parent, ast.BinOp):
            other, operator = parent.right if place is parent.left else parent.left, parent.op
        elif isinstance(parent, ast.Compare) and len(parent.ops) == 1:
            other, operator = parent.comparators[0] if place is parent.left else parent.left, parent.ops[0]
        else:
            raise Decline(use(self.context, place))
        tensor, partner = self.context.value(read(node)), self.context.value(other)
        if type(operator) not in SYMBOLS:
            raise Decline(kept("no arithmetic that tensors share with Python numbers"))
        if partner.kind is Kind.SCALAR:
            raise Decline(use(self.context, place))
        if partner.kind is not Kind.TENSOR or partner.optional:
            raise Decline(kept(f"`{one_line(self.context, other)}` is not known to be a tensor"))
        if isinstance(parent, ast.AugAssign) and not tensor.fresh:
            raise Decline(kept(f"`{one_line(self.context, read(node))}` may share memory with what changes in place"))
        mine, theirs = category(tensor.dtype), category(partner.dtype)
        if isinstance(node.func, ast.Name) and theirs is not None and theirs < 2:
            raise Decline(kept("integers become floating point by a Python float"))
        if mine is not None and theirs is not None and mine > theirs:
            raise Decline(kept(f"{tensor.dtype} promotes {partner.dtype} otherwise than a Python number"))
        return self.doubt(site, node, partner, operator, place is getattr(parent, "left", None))

    def doubt(self, site: Site, node: ast.Call, partner: Value, operator: ast.AST, reflected: bool) -> str:
        """What is not proven of an operation between the tensor and its partner."""
        tensor = self.context.value(read(node))
        text = one_line(self.context, read(node))
        same = tensor.dtype is not None and tensor.dtype == partner.dtype and tensor.certain and partner.certain
        if isinstance(node.func, ast.Name):
            same = same and category(tensor.dtype) == 2
        if not same or moves_device(site.function):
            return f"dtype or digits change if `{text}` and its partner differ in dtype"
        if isinstance(operator, ROUNDED):
            return f"the last digit of `{SYMBOLS[type(operator)]}` can differ"
        if reflected and isinstance(operator, ast.Mult) and category(tensor.dtype) is None:
            return "the last digit can differ for complex numbers"
        if not tensor.fresh or not self.unshared(site, read(node)):
            return f"`{text}` must not change in place before its gradient is taken"
        return ""

    def unshared(self, site: Site, tensor: ast.expr) -> bool:
        """Whether nothing else can change the tensor: it has no name, or a name that is set and used once."""
        if not isinstance(tensor, ast.Name):
            return isinstance(tensor, (ast.Call, ast.BinOp, ast.UnaryOp))
        return sum(isinstance(inner, ast.Name) and inner.id == tensor.id for inner in ast.walk(site.function)) == 2


def read(node: ast.Call) -> ast.expr:
    """The tensor that a read reads."""
    return node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]


def is_detached(node: ast.expr) -> bool:
    """Whether a chain of methods without arguments starts at a `.detach()`, so that no gradient can flow."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
        if node.func.attr == "detach":
            return True
        node = node.func.value
    return False


def changes_in_place(statement: ast.AST) -> bool:
    """Whether a statement calls a method that works in place."""
    calls = [
        node.func.attr
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return any(name.endswith("_") and not name.endswith("__") for name in calls)


def is_shared(function: ast.AST, name: str) -> bool:
    """Whether a name belongs to another scope too."""
    return any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(function))


def variables(node: ast.AST) -> set[str]:
    """The names in an expression or statement."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def category(dtype: str | None) -> int | None:
    """The place of a dtype term in torch's order bool < integer < floating point < complex, None when not known."""
    return CATEGORIES.get((dtype or "").rstrip("0123456789"))


def moves_device(function: ast.AST) -> bool:
    """Whether a function moves tensors between devices, where a 0-dim tensor cannot stand for a number everywhere."""
    return any(isinstance(node, ast.Attribute) and node.attr in ("cpu", "cuda", "to") for node in ast.walk(function))
