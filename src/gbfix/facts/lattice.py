"""The plain data of facts: abstract values, operators, sites and their names."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Kind(enum.Enum):
    """What a Python value is, as far as the source alone shows."""

    TENSOR = "tensor"
    TUPLE = "tuple"
    LIST = "list"
    DICT = "dict"
    MODULE = "module"
    SCALAR = "scalar"
    NONE = "none"
    NDARRAY = "ndarray"
    LOGGER = "logger"
    OBJECT = "object"
    UNKNOWN = "unknown"


class Tensor(enum.Enum):
    """The three-valued answer to "is this a tensor"; unknown never reads as no."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Value:
    """An abstract value.

    `dtype` and `shape` are transfer terms: equal terms mean equal dtypes (shapes) at run time, whatever they are. A dtype
    term is a name such as `bool`, `int64`, `float`, or a term over the dtypes of base values; the shape term `()` means
    0-dim. None means nothing is known. `fresh` says that no other name can reach the storage; `parameter` that a module owns it;
    `read` that a Python value came out of a tensor's data. `cls` is the dotted class of a module or object, or a scalar's type.
    """

    kind: Kind = Kind.UNKNOWN
    certain: bool = True
    optional: bool = False
    dtype: str | None = None
    shape: str | None = None
    fresh: bool = False
    parameter: bool = False
    read: bool = False
    items: tuple[Value, ...] | None = None
    cls: str | None = None
    constant: object = None
    evidence: tuple[str, ...] = field(default=(), compare=False)

    @property
    def tensor(self) -> Tensor:
        """Whether the value is a tensor; a value that may also be None is not known to be one."""
        if self.kind is Kind.UNKNOWN:
            return Tensor.UNKNOWN
        if self.kind is not Kind.TENSOR:
            return Tensor.NO
        return Tensor.UNKNOWN if self.optional else Tensor.YES

    @property
    def is_zero_dim(self) -> bool:
        """Whether the tensor is proven to have no dimensions."""
        return self.kind is Kind.TENSOR and self.shape == "()"

    @property
    def is_bool(self) -> bool:
        """Whether the tensor is proven to have dtype torch.bool."""
        return self.kind is Kind.TENSOR and self.dtype == "bool"


UNKNOWN = Value()


@dataclass(frozen=True)
class Arms:
    """What the names hold before an `if` (whose Python conjuncts hold), and where each arm falls through (None: it never does)."""

    before: dict[str, Value]
    then: dict[str, Value] | None
    orelse: dict[str, Value] | None


@dataclass(frozen=True)
class Op:
    """One torch operator or tensor method, as the op table (torch_ops.json) has it.

    `returns` is tensor, tensors (a tuple or list of them), bool, int, float, none, size, dtype, device or other.
    `dtype` says how the result's dtype follows from the inputs': same (of the first tensor), float (integers become the default
    float), promote, bool, int64, or None when unknown. `shape`: same, broadcast, scalar (0-dim when called without a
    dim), or None.
    """

    name: str
    returns: str
    traits: frozenset[str] = frozenset()
    dtype: str | None = None
    shape: str | None = None

    @property
    def breaks(self) -> bool:
        """Whether the call itself reads tensor data on the host (`.item()`, `torch.equal`), which breaks by default."""
        return "sync" in self.traits


class Wanted:
    """Dotted names, and starts of dotted names (`torch.optim.*`), that rules ask for."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = list(patterns)
        self._exact = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
        self._starts = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return bool(name) and (name in self._exact or name.startswith(self._starts))


@dataclass(frozen=True)
class Scope:
    """What the user says about what is compiled.

    With `assume_compiled` every function counts, except those that Dynamo never enters. `entry_points` are functions handed
    to torch.compile elsewhere: `func`, `Class.method`, or one of these after `pkg.mod:`.
    """

    assume_compiled: bool = False
    entry_points: tuple[str, ...] = ()


DEFAULT_SCOPE = Scope()


@dataclass(frozen=True)
class Site:
    """A span of code that could break a graph.

    `kind` is branch, ternary, while, assert, read (`.item()`, `float(t)`), call (a call of a name that a rule asked for;
    `name` is then the dotted name), for (over a tensor, or as often as one says), truth (`a and b`, `not t` or `v in t` outside
    of a test), filter (a comprehension's test), index (a subscript with tensors), dynamic (an operator whose output can have any
    size), text (a tensor formatted by `%` or `!r`) or array (`.item()` of a NumPy array). `focus` is the first tensor that a
    test reads. Lines are 1-based, columns 0-based characters.
    """

    kind: str
    node: ast.AST
    function: ast.FunctionDef | ast.AsyncFunctionDef
    name: str = ""
    certain: bool = True
    why: str = ""
    focus: ast.expr | None = None

    @property
    def place(self) -> ast.expr | ast.stmt:
        """The node that a finding points at: the first tensor that a test reads, else the site itself."""
        place = self.focus if self.focus is not None else self.node
        assert isinstance(place, (ast.expr, ast.stmt))
        return place
