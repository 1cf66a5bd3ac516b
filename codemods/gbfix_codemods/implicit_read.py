"""The rule implicit-read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Tensor
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._places import in_test, in_text, is_input, is_known
from gbfix_codemods._uses import INDEX, LOOP, SIZE, kept

# The place of the first size or index among a function's arguments. All of them read a tensor that is given there.
FACTORIES = {
    "zeros": 0, "ones": 0, "empty": 0, "rand": 0, "randn": 0, "eye": 0, "arange": 0, "full": 0, "randint": 0, "randperm": 0,
    "tril_indices": 0, "triu_indices": 0,
}  # fmt: skip
METHODS = {
    "view": 1, "reshape": 1, "expand": 1, "repeat": 1, "tile": 1, "topk": 1, "split": 1, "chunk": 1, "roll": 1, "narrow": 1,
    "unflatten": 1, "new_zeros": 1, "new_ones": 1, "new_empty": 1, "new_full": 1, "unsqueeze": 1, "cumsum": 1, "select": 1,
}  # fmt: skip
ONE_SIZE = ("full", "new_full")
LAYERS = {"torch.nn.functional.pad": 1, "torch.nn.functional.one_hot": 1}
SIZED = {
    **{f"torch.{name}": place for name, place in {**FACTORIES, **METHODS}.items()},
    **{f"torch.Tensor.{name}": place - 1 for name, place in METHODS.items()},
    **LAYERS,
}
REASON = "it is a copy, CUDA raises late if out of range, and an index of dtype bool or uint8 would be a mask"
LISTS = ("torch.nn.ModuleList", "torch.nn.ParameterList")


class ImplicitRead(Rule):
    """Flag a tensor where Python or torch takes a number; rewrite the index `x[i]` to `x[i.reshape(1)].squeeze(0)`.

    Breaks because a size, a slice, the place in a list and the functions of `math` need the tensor's value.
    Unsafe because the rewritten index gives a copy, not a view, and on CUDA raises only later when it is out of range.
    Source: GB0033, GB0124, GB0059 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF202"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0033", "GB0124", "GB0059")
    kinds: ClassVar[tuple[str, ...]] = ("index",)
    calls: ClassVar[tuple[str, ...]] = ("math.*", "operator.index", "range", "slice", *SIZED)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place that needs a number."""
        if isinstance(site.node, ast.Subscript):
            yield from self.subscript(site, site.node)
        elif isinstance(site.node, ast.Call) and not in_text(self, site.node):
            yield from self.call(site, site.node)

    def call(self, site: Site, node: ast.Call) -> Iterator[Finding]:
        """A call that takes a tensor for a number."""
        if site.name in SIZED:
            read, declined = self.sizes(site, node), SIZE
        elif site.name == "range":
            parent = self.context.parent(node)
            loops = isinstance(parent, ast.For) and parent.iter is node
            read, declined = [] if loops else self.tensors(node.args, certain=True), LOOP
        elif site.name.startswith("math."):
            read = [] if in_test(self.context, node) else self.tensors(node.args)
            name = site.name.rpartition(".")[2]
            declined = kept(
                f"`math.{name}` computes in double precision and raises on bad values; `torch.{name}` gives a tensor"
            )
        else:
            read, declined = self.tensors(node.args, certain=True), kept("it needs a Python number")
        if read:
            message = f"`{called(self.context, node)}` reads the value of `{one_line(self.context, read[0])}`"
            yield self.report(site, message, declined=declined)

    def sizes(self, site: Site, node: ast.Call) -> list[ast.expr]:
        """The tensors among the sizes of a call."""
        first = SIZED[site.name]
        last = first + 1 if site.name.rpartition(".")[2] in ONE_SIZE else None
        given = [
            *node.args[first:last],
            *(k.value for k in node.keywords if k.arg in ("size", "k", "end", "steps", "num_classes")),
        ]
        flat = [part for a in given for part in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
        return self.tensors(flat)

    def tensors(self, nodes: list[ast.expr], *, certain: bool = False) -> list[ast.expr]:
        """The tensors of some nodes; those that come in as they are only where their reading breaks too (`certain`)."""
        return [
            node
            for node in nodes
            if self.context.value(node).tensor is Tensor.YES
            and (certain or not (is_input(self.context, node) or is_known(self.context, node)))
        ]

    def subscript(self, site: Site, node: ast.Subscript) -> Iterator[Finding]:
        """A tensor as the bound of a slice, as a place in a list, or as a number among a tensor's indices."""
        base = self.context.value(node.value)
        message = f"`{one_line(self.context, node)}` reads a tensor's value"
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        bounds = [
            b
            for part in parts
            if isinstance(part, ast.Slice)
            for b in (part.lower, part.upper, part.step)
            if b is not None
        ]
        if self.tensors(bounds, certain=True):
            yield self.report(
                site, message, declined=f"{SIZE}; `torch.arange(n)` and `index_select` keep a fixed number of rows"
            )
        elif base.kind in (Kind.LIST, Kind.TUPLE) or base.cls in LISTS:
            if self.tensors([node.slice], certain=True):
                declined = "a Python list needs the number: stack its tensors and index the stack, or compute all and weigh them"
                yield self.report(site, message, declined=declined)
        elif base.kind is Kind.TENSOR:
            numbers = [
                p
                for p in self.tensors(parts)
                if self.context.value(p).is_zero_dim and not self.context.value(p).is_bool
            ]
            if numbers:
                fix = self.index(node, numbers[0])
                yield self.report(site, message, fix) if fix else self.report(site, message, declined=INDEX)

    def index(self, node: ast.Subscript, number: ast.expr) -> Fix | None:
        """The fix for a tensor's only index, where its element is read."""
        context = self.context
        parent = context.parent(node)
        written = (
            isinstance(parent, (ast.AugAssign, ast.Attribute, ast.Subscript)) and getattr(parent, "value", None) is node
        )
        if not isinstance(node.ctx, ast.Load) or node.slice is not number or context.value(number).dtype == "uint8":
            return None
        if isinstance(parent, ast.AugAssign) or (written and not self.only_reads(parent)):
            return None
        text = context.text(number)
        simple = isinstance(number, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        edits = (
            context.replace(
                node, f"{context.text(node.value)}[{text if simple else f'({text})'}.reshape(1)].squeeze(0)"
            ),
        )
        return Fix(
            "index with one row",
            edits,
            Applicability.UNSAFE,
            "index",
            REASON,
        )

    def only_reads(self, parent: ast.AST | None) -> bool:
        """Whether what follows `x[i]` gives a new tensor."""
        call = self.context.parent(parent) if isinstance(parent, ast.Attribute) else None
        op = self.context.op(call) if isinstance(call, ast.Call) else None
        return op is not None and not op.traits & {"inplace", "view"}
