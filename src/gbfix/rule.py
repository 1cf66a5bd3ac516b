"""What a rule pack imports: Rule and the plain data a rule gives back."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import libcst as cst

from gbfix.facts.lattice import Arms, Op, Site, Value


class Applicability(enum.Enum):
    """What a rule claims of a fix from the source alone."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    SUGGESTION = "suggestion"


@dataclass(frozen=True)
class Edit:
    """A span of the source and the text that replaces it. Lines are 1-based, columns 0-based characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def overlaps(self, other: Edit) -> bool:
        """Whether both touch the same text (an insertion inside or at the start of a span touches it)."""
        mine, theirs = (self.line, self.column), (other.line, other.column)
        return mine == theirs or (
            mine < (other.end_line, other.end_column) and theirs < (self.end_line, self.end_column)
        )


@dataclass(frozen=True)
class Fix:
    """One way to remove a break. `form` names the remedy (where, guard, wrap, ...), `reason` why it is not safe."""

    message: str
    edits: tuple[Edit, ...]
    applicability: Applicability
    form: str
    reason: str = ""
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One site. `fix` is the offer, `declined` the reason why there is none. Columns are 0-based characters.

    `fingerprint` is stable when lines move; the engine fills it in, with `path`.
    """

    code: str
    name: str
    gb_ids: tuple[str, ...]
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    symbol: str
    certain: bool
    fix: Fix | None = None
    declined: str = ""
    path: str = ""
    fingerprint: str = ""

    @property
    def key(self) -> tuple[str, int, int, str]:
        """The order of findings in every output."""
        return (self.path, self.line, self.column, self.code)


class Context(Protocol):
    """What the engine lends to a rule for one definition: facts, the concrete syntax tree and the file's own names."""

    def value(self, node: ast.AST) -> Value:
        """The abstract value of an expression."""

    def op(self, call: ast.Call) -> Op | None:
        """The torch operator or tensor method that a call reaches, if it is one."""

    def dotted(self, node: ast.AST) -> str | None:
        """The full dotted name of a name or attribute, through the file's imports: `th.where` is `torch.where`."""

    def tested(self, test: ast.expr) -> list[ast.expr]:
        """The tensors, and Python values read from tensors, whose truth a test takes, left to right."""

    def arms(self, node: ast.If) -> Arms | None:
        """The names' values before an `if` and at the end of its arms, None where it is not reached."""

    def live_after(self, statement: ast.stmt) -> frozenset[str]:
        """Names that may be read after a statement."""

    def torch(self, name: str) -> str:
        """How this file spells a torch name: `torch("where")` is `torch.where`, or `th.where`; adds the import if it must."""

    def text(self, node: ast.AST) -> str:
        """The source text of a node."""

    def concrete(self, node: ast.AST) -> cst.CSTNode:
        """The concrete tree of a statement's or expression's own text."""

    def code(self, node: cst.CSTNode) -> str:
        """The text of a concrete node (also of a made one), in the file's newlines and indentation."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds this one."""

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node (or the node itself)."""

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement stands in."""

    def unit(self) -> str:
        """One level of the file's indentation."""

    def before(self, node: ast.stmt) -> str:
        """The text between the start of a statement's line and the statement."""

    def after(self, node: ast.stmt) -> str:
        """The rest of a statement's last line: a comment, a semicolon, or nothing."""

    def source(self, first_line: int, last_line: int) -> str:
        """The raw text of a range of lines (both included), ends kept."""

    def comments(self, first_line: int, last_line: int) -> list[str]:
        """The own-line comments between two lines (both included), stripped."""

    def indent(self, statement: ast.stmt) -> str:
        """The white space before a statement's line."""

    def is_entry(self, function: ast.AST) -> bool:
        """Whether the function is handed to torch.compile, or is a module's `forward`, or nothing in the file calls it."""

    def fresh_name(self, function: ast.AST, hint: str) -> str:
        """A name not used in the function, the hint itself where that is free."""

    def replace(self, node: ast.AST, text: str, last: ast.AST | None = None) -> Edit:
        """The edit that puts text in place of a node (through `last`, where the span holds several statements)."""


def kebab(name: str) -> str:
    """`DataDependentBranch` -> `data-dependent-branch`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


class Rule:
    """One rewrite. A subclass sets `code` and `gb_ids`, says which sites it wants, and writes `check`.

    `kinds` are the kinds of sites it is shown; `calls` are dotted names whose calls it is shown as sites of kind "call"
    (`print`, `warnings.warn`, `logging.Logger.*` for every method of a logger).
    """

    code: ClassVar[str]
    gb_ids: ClassVar[tuple[str, ...]]
    kinds: ClassVar[tuple[str, ...]] = ()
    calls: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: Context) -> None:
        self.context = context

    @classmethod
    def name(cls) -> str:
        """The rule's kebab-case name."""
        return kebab(cls.__name__)

    def check(self, site: Site) -> Iterator[Finding]:
        """Yield what the rule has to say of one site."""
        raise NotImplementedError

    def report(self, site: Site, message: str, fix: Fix | None = None, declined: str = "") -> Finding:
        """A finding at a site. Every finding has a fix or the reason why there is none."""
        assert fix is not None or declined, f"{self.code} must say why it declines"
        node = site.place
        if fix is not None and not site.certain and fix.applicability is Applicability.SAFE:
            fix = replace(fix, applicability=Applicability.UNSAFE, reason=f"likely, not certain: {site.why}")
        return Finding(
            code=self.code,
            name=self.name(),
            gb_ids=self.gb_ids,
            message=message,
            line=node.lineno,
            column=node.col_offset,
            end_line=node.end_lineno or node.lineno,
            end_column=node.end_col_offset or node.col_offset,
            symbol=site.function.name,
            certain=site.certain,
            fix=fix,
            declined=declined,
        )
