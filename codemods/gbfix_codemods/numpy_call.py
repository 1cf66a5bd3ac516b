"""The rule numpy-call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Tensor
from gbfix.rule import Applicability, Finding, Fix, Rule
from gbfix_codemods._effects import called, effect

# Measured in default mode on torch 2.13, each on a small array. What `torch._numpy` has is traced and not listed.
MISSING = tuple(
    f"numpy.{name}"
    for name in (
        "interp", "vectorize", "polyfit", "polyval", "poly1d", "digitize", "lexsort", "isin", "pad", "nanmean", "nanmax",
        "nansum", "nanstd", "nanmedian", "piecewise", "apply_along_axis", "frombuffer", "fromiter", "fromstring",
        "loadtxt", "genfromtxt", "savetxt", "set_printoptions", "setdiff1d", "union1d", "intersect1d", "packbits",
        "unravel_index", "ravel_multi_index", "ndindex", "ndenumerate", "nditer", "block", "insert", "delete", "select",
        "partition", "argpartition", "copyto", "place", "putmask", "array2string", "array_str", "unwrap", "ediff1d",
        "trim_zeros", "may_share_memory", "shares_memory", "frompyfunc", "matrix", "datetime64", "cov", "corrcoef",
        "unique", "nonzero", "argwhere", "bincount", "array_equal", "allclose", "result_type", "can_cast", "isscalar",
        "rec.array", "ma.masked_array", "lib.stride_tricks.as_strided", "lib.stride_tricks.sliding_window_view",
        "linalg.lstsq", "testing.assert_allclose", "random.get_state", "random.set_state", "random.beta",
        "random.binomial", "random.poisson", "random.exponential", "random.gamma", "random.dirichlet",
        "random.multinomial", "random.standard_normal", "random.bytes", "random.choice", "random.RandomState",
        "random.RandomState.*", "random.default_rng.*",
    )
)  # fmt: skip
# The number of arguments from which these give an array, which is traced; one random number is not.
SIZED = {"rand": 1, "randn": 1, "random": 1, "random_sample": 1, "uniform": 3, "normal": 3, "randint": 3}
NUMBERS = tuple(f"numpy.random.{name}" for name in SIZED)
READS = ("int", "float", "bool")
REDUCED = {
    f"numpy.{name}" for name in ("prod", "sum", "max", "min", "mean", "std", "var", "argmax", "argmin", "median")
}


class NumpyCall(Rule):
    """Flag NumPy that is not traced, and numbers read from its arrays; rewrite `int(np.prod(shape))` to `math.prod(shape)`.

    Breaks because Dynamo traces NumPy as tensor operators, of which some are missing and none gives a Python number.
    Safe because sizes are Python integers, and their exact product is what NumPy computes.
    Source: GB0033, GB0036, GB0208, GB0294 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF505"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0033", "GB0036", "GB0208", "GB0294")
    calls: ClassVar[tuple[str, ...]] = (*MISSING, *NUMBERS, *READS)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        node = site.node
        assert isinstance(node, ast.Call)
        text = called(self.context, node)
        if site.name in READS:
            if len(node.args) == 1 and not node.keywords and self.is_array(node.args[0]):
                fix = self.product(node) if site.name == "int" else None
                why = "" if fix else "keep the array, or compute with `math` on Python numbers"
                yield self.report(site, f"`{text}` reads a number from an array", fix, why)
        elif site.name in NUMBERS:
            if self.is_one(node, SIZED[site.name.rpartition(".")[2]]):
                yield self.report(site, f"`{text}` gives one number", declined="draw it before the compiled code")
        else:
            yield self.report(
                site, f"`{text}` is not traced", declined="use torch, or call it outside of the compiled code"
            )

    def is_one(self, node: ast.Call, sized: int) -> bool:
        """Whether a random function is called without a size."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return False
        return len(node.args) < sized and all(k.arg in ("low", "high", "loc", "scale") for k in node.keywords)

    def is_array(self, node: ast.expr) -> bool:
        """Whether the value is an array while Dynamo traces: functions of numbers give numbers."""
        if isinstance(node, ast.Call) and (dotted := self.context.dotted(node.func)) is not None:
            return dotted in REDUCED
        if not isinstance(node, (ast.Call, ast.Subscript)):
            return False
        base = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
        base = base.value if isinstance(base, ast.Subscript) else base
        of_tensor = isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr == "numpy"
        return of_tensor or self.context.value(node).kind is Kind.NDARRAY

    def product(self, node: ast.Call) -> Fix | None:
        """`int(np.prod(x.shape))` as `math.prod(x.shape)`."""
        inner = node.args[0]
        if not isinstance(inner, ast.Call) or self.context.dotted(inner.func) != "numpy.prod":
            return None
        if len(inner.args) != 1 or inner.keywords or not self.is_sizes(inner.args[0]):
            return None
        known = self.context.dotted(ast.Name("math", ast.Load())) == "math"
        edits = (self.context.replace(node, f"math.prod({self.context.text(inner.args[0])})"),)
        return Fix("use math.prod", edits, Applicability.SAFE, "same", imports=() if known else ("import math",))

    def is_sizes(self, node: ast.expr) -> bool:
        """Whether the value is a tensor's shape, or a slice of it."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.is_sizes(node.value)
        if isinstance(node, ast.Call) and not node.args and not node.keywords and isinstance(node.func, ast.Attribute):
            return node.func.attr == "size" and self.is_tensor(node.func.value)
        return isinstance(node, ast.Attribute) and node.attr == "shape" and self.is_tensor(node.value)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether a value is surely a tensor, and getting it has no effect."""
        return self.context.value(node).tensor is Tensor.YES and not effect(self.context, [node])
