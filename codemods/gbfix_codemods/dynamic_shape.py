"""The rule dynamic-shape."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Finding, Rule
from gbfix_codemods._effects import called, one_line

CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops = True keeps it in the graph"
HITS = f"the number of hits depends on data: keep the mask and use torch.where or products with it; {CAPTURE}"
ADVICE = {
    "one_hot": "its width depends on data: give `num_classes`",
    "bincount": "its length depends on data: `torch.zeros(n).scatter_add_(0, x, ones)` with a known number of bins has a fixed one",
    "repeat_interleave": f"its length depends on data: give `output_size` and use `torch.searchsorted`, or pad; {CAPTURE}",
    "unique": f"the number of distinct values depends on data: `torch.sort` keeps the size; {CAPTURE}",
    "unique_consecutive": f"the number of distinct values depends on data: compare neighbours instead; {CAPTURE}",
    "masked_select": HITS,
    "lstsq": "torch.linalg.lstsq returns sizes that depend on data: torch.linalg.pinv, or a solve of the normal equations, does not",
    "ctc_loss": "the loss reads the lengths on the host: compute it outside of the compiled code",
    "pack_padded_sequence": "packing reads the lengths on the host: run the padded batch with a mask, or leave it outside",
    "pad_packed_sequence": "unpacking reads the lengths on the host: run the padded batch with a mask, or leave it outside",
}
FIXED = ("nonzero_static", "histogramdd")
CALLS = (
    "torch.linalg.lstsq", "torch.nn.functional.ctc_loss", "torch.ctc_loss", "torch.nn.utils.rnn.pack_padded_sequence",
    "torch.nn.utils.rnn.pad_packed_sequence",
)  # fmt: skip
FOLDS = {
    "sum": "`torch.where(mask, x, 0).sum()` gives the same number",
    "mean": "`torch.where(mask, x, 0).sum() / mask.sum()` gives the same number",
    "max": "`x.masked_fill(~mask, -inf).max()` gives the same number where something is selected",
    "min": "`x.masked_fill(~mask, inf).min()` gives the same number where something is selected",
    "numel": "`mask.sum()` is the number",
    "size": "`mask.sum()` is the number",
    "shape": "`mask.sum()` is the number",
    "any": "`(x & mask).any()` gives the same answer",
    "all": "`(x | ~mask).all()` gives the same answer",
}


class DynamicShape(Rule):
    """Flag an output size that depends on data, such as `x[mask]`; rewrite nothing: what fits depends on its use.

    Breaks because the shapes in a graph are known before it runs, and these are not.
    Unsafe because a mask of fixed size keeps the elements that were left out, and their gradients.
    Source: GB0036, GB0246, GB0007, GB0033 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF401"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0036", "GB0246", "GB0007", "GB0033")
    kinds: ClassVar[tuple[str, ...]] = ("index", "dynamic")
    calls: ClassVar[tuple[str, ...]] = CALLS

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each operator, and one for all selections with a mask in a statement."""
        node = site.node
        if isinstance(node, ast.Subscript):
            if self.selects(node) and self.is_first(node):
                message = f"`{one_line(self.context, node)}` selects as many elements as the data say"
                yield self.report(site, message, declined=self.selection(node))
        elif isinstance(node, ast.Call) and (site.kind == "call" or self.is_dynamic(node)):
            name = site.name.rpartition(".")[2]
            declined = ADVICE.get(name, HITS)
            message = f"the size of `{called(self.context, node)}` depends on data"
            yield self.report(site, message, declined=declined)

    def is_first(self, node: ast.Subscript) -> bool:
        """Whether no other selection stands before this one in its statement."""
        statement = self.context.statement(node)
        places = [
            (other.lineno, other.col_offset)
            for other in ast.walk(statement)
            if isinstance(other, ast.Subscript) and self.context.statement(other) is statement and self.selects(other)
        ]
        return (node.lineno, node.col_offset) == min(places)

    def selects(self, node: ast.AST) -> bool:
        """Whether a subscript reads the elements of a tensor that a mask selects."""
        if not isinstance(node, ast.Subscript) or self.context.value(node.value).kind is not Kind.TENSOR:
            return False
        read = isinstance(node.ctx, ast.Load) or isinstance(self.context.parent(node), ast.AugAssign)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return read and any(
            self.context.value(part).is_bool and not self.context.value(part).optional for part in parts
        )

    def selection(self, node: ast.Subscript) -> str:
        """What would do the same as a selection, by what becomes of it."""
        parent, statement = self.context.parent(node), self.context.statement(node)
        if isinstance(parent, ast.Attribute) and parent.attr in FOLDS:
            return f"{FOLDS[parent.attr]}; {CAPTURE}"
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len":
            return f"{FOLDS['numel']}; {CAPTURE}"
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Subscript) for target in targets):
            return f"it is put back in its place: `y = torch.where(mask, f(x), y)`, with f made safe where the mask is not set; {CAPTURE}"
        if isinstance(statement, ast.Return) and statement.value is node:
            return f"it is returned: the caller would need the mask instead; {CAPTURE}"
        return HITS

    def is_dynamic(self, node: ast.Call) -> bool:
        """Whether this call of an operator with an output of unknown size has one."""
        op = self.context.op(node)
        assert op is not None
        name = op.name.rpartition(".")[2]
        method = op.name.startswith("Tensor.")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        arguments = node.args if method else node.args[1:]
        if name == "where":
            return not method and len(node.args) + len(keywords) == 1
        if name == "one_hot":
            classes = self.context.value(
                keywords.get("num_classes") or (arguments[0] if arguments else ast.Constant(-1))
            )
            return not (arguments or keywords.get("num_classes")) or classes.constant == -1
        if name == "repeat_interleave":
            repeats = keywords.get("repeats") or (arguments[0] if arguments else None)
            known = repeats is not None and self.context.value(repeats).kind is not Kind.TENSOR
            return not known and "output_size" not in keywords
        return "untraced" not in op.traits and name not in FIXED
