"""A tensor `if` as a tree of choices: what every path assigns or returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gbfix.facts.lattice import Kind
from gbfix.rule import Context
from gbfix_codemods._purity import Decline


@dataclass
class Assign:
    """One `name = value` of a path. `augmented` is the operator's text of an augmented assignment."""

    name: str
    value: ast.expr
    statement: ast.stmt
    augmented: str = ""


@dataclass
class Path:
    """Straight-line assignments, then a choice, a returned value, or falling through."""

    assigns: list[Assign] = field(default_factory=list)
    choice: Choice | None = None
    returned: ast.expr | None = None
    last: ast.stmt | None = None

    def names(self) -> set[str]:
        """Names assigned anywhere below."""
        found = {a.name for a in self.assigns}
        if self.choice is not None:
            found |= self.choice.then.names() | self.choice.other.names()
        return found

    def leaves(self) -> Iterator[Path]:
        """The ends of the paths, in source order."""
        if self.choice is None:
            yield self
        else:
            yield from self.choice.then.leaves()
            yield from self.choice.other.leaves()


@dataclass
class Choice:
    """A test on a tensor and the two paths."""

    node: ast.If
    test: ast.expr
    then: Path
    other: Path

    def below(self) -> Iterator[Choice]:
        """This choice and those inside it, first test outermost."""
        yield self
        for path in (self.then, self.other):
            if path.choice is not None:
                yield from path.choice.below()


def parse(context: Context, node: ast.If, test: ast.expr, tail: Sequence[ast.stmt]) -> tuple[Choice, bool]:
    """The tree of an `if` and whether its paths return; a path that falls through goes on with `tail` if any path returns.

    Raises Decline for what is not assignments and returns.
    """
    returns = any(isinstance(child, ast.Return) for child in _own(node))
    rest = list(tail) if returns else []
    choice = Choice(node, test, _path(context, node.body, rest), _path(context, node.orelse, rest))
    ends = [leaf.returned is not None for path in (choice.then, choice.other) for leaf in path.leaves()]
    if returns and not all(ends):
        raise Decline("one path returns and another goes on")
    return choice, returns


def _own(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own(child)


def _path(context: Context, body: Sequence[ast.stmt], tail: Sequence[ast.stmt]) -> Path:
    path = Path()
    statements = list(body)
    for index, statement in enumerate(statements):
        rest = statements[index + 1 :]
        if isinstance(statement, ast.If):
            _nested(context, path, statement, rest, tail)
            return path
        if isinstance(statement, ast.Return):
            if statement.value is None:
                raise Decline("a path returns None")
            path.returned, path.last = statement.value, statement
            return path
        path.assigns += _assigns(context, statement)
        path.last = statement
    if tail:
        onward = _path(context, tail, [])
        path.assigns += onward.assigns
        path.choice, path.returned, path.last = onward.choice, onward.returned, onward.last
    return path


def _nested(context: Context, path: Path, node: ast.If, rest: Sequence[ast.stmt], tail: Sequence[ast.stmt]) -> None:
    if not context.tested(node.test):
        raise Decline("an arm holds an `if` on a Python value")
    onward = [*rest, *tail]
    if onward and not any(isinstance(child, ast.Return) for child in _own(node)):
        raise Decline("code follows an inner `if`; it is rewritten once the inner one is")
    path.choice = Choice(node, node.test, _path(context, node.body, onward), _path(context, node.orelse, onward))


def _assigns(context: Context, statement: ast.stmt) -> list[Assign]:
    if isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ):
        return []
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _targets(statement.targets[0], statement.value, statement)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return [Assign(statement.target.id, statement.value, statement)]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        if context.value(statement.target).kind is Kind.TENSOR and not context.value(statement.target).fresh:
            raise Decline(f"`{context.text(statement)}` changes a tensor in place that others may hold")
        if context.value(statement.target).kind is not Kind.TENSOR:
            raise Decline(f"`{context.text(statement)}` updates a Python value")
        left, right = context.value(statement.target), context.value(statement.value)
        if right.kind is not Kind.SCALAR and (right.kind is not Kind.TENSOR or right.dtype != left.dtype):
            raise Decline(f"`{context.text(statement)}` keeps the dtype in place, and may promote it otherwise")
        operator = context.text(statement)[len(statement.target.id) :].lstrip().split("=", 1)[0]
        return [Assign(statement.target.id, statement.value, statement, operator)]
    raise Decline(_why(context, statement))


def _targets(target: ast.expr, value: ast.expr, statement: ast.stmt) -> list[Assign]:
    if isinstance(target, ast.Name):
        return [Assign(target.id, value, statement)]
    if (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(value, (ast.Tuple, ast.List))
        and len(target.elts) == len(value.elts)
    ):
        names = [t.id for t in target.elts if isinstance(t, ast.Name)]
        if len(names) == len(target.elts) and not any(isinstance(v, ast.Starred) for v in value.elts):
            for index, part in enumerate(value.elts):
                read = {n.id for n in ast.walk(part) if isinstance(n, ast.Name)}
                if read & set(names[:index]):
                    raise Decline("an arm swaps names")
            return [Assign(name, part, statement) for name, part in zip(names, value.elts, strict=True)]
    if isinstance(target, (ast.Attribute, ast.Subscript)):
        raise Decline(f"an arm stores into `{ast.unparse(target)}`")
    raise Decline("an arm unpacks a value")


def _why(context: Context, statement: ast.stmt) -> str:
    if isinstance(statement, ast.Raise):
        return "an arm raises"
    if isinstance(statement, ast.Expr):
        return f"an arm runs `{context.text(statement).splitlines()[0]}` for its effect"
    if isinstance(statement, (ast.Break, ast.Continue)):
        return f"an arm leaves the loop (`{context.text(statement)}`)"
    words = {
        "For": "a loop",
        "While": "a loop",
        "With": "a `with` block",
        "Try": "a `try` block",
        "Delete": "a `del`",
        "Assert": "an assert",
        "FunctionDef": "a function",
        "Import": "an import",
        "ImportFrom": "an import",
        "Assign": "a chained assignment",
        "AugAssign": "a store",
    }
    return f"an arm holds {words.get(type(statement).__name__, 'a statement that has no tensor form')}"
