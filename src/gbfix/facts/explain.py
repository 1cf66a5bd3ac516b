"""What facts know of one place in a file, as plain data: the values of its expressions and why, and whether it is compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gbfix.facts.compiled import Reach, compiled
from gbfix.facts.entries import qualified
from gbfix.facts.flow import Flow
from gbfix.facts.lattice import DEFAULT_SCOPE, UNKNOWN, Kind, Scope, Site, Value
from gbfix.facts.project import ModuleFacts
from gbfix.facts.sites import sites
from gbfix.facts.walk import own

# Longest chain of reasons.
_STEPS = 12
Span = tuple[int, int, int, int]
_Binds = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For
_Tests = ast.If | ast.While | ast.Assert | ast.IfExp


@dataclass(frozen=True)
class Expression:
    """An expression at a place: lines are 1-based, columns 0-based characters. `value` None: no path that Dynamo traces reaches it."""

    text: str
    span: Span
    value: Value | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """What is known of one place: the function around it, why that is compiled (None: it is not), and what stands there."""

    function: str
    reach: Reach | None
    expressions: tuple[Expression, ...]
    sites: tuple[Site, ...]


class NothingThere(Exception):
    """The place has no function or no expression; the text says which."""


def explain(
    facts: ModuleFacts, line: int, column: int | None, calls: Sequence[str] = (), scope: Scope = DEFAULT_SCOPE
) -> Place:
    """What is known of a line, or of the innermost expression at a column (0-based). `calls` are the names that rules ask for."""
    flow = _flow_at(facts, line)
    nodes = _innermost(flow, line, column) if column is not None else _on_line(flow, line)
    if not nodes:
        raise NothingThere("no expression starts here" if column is None else "no expression is here")
    reached = compiled(facts, scope)
    found: dict[tuple[str, Value | None], Expression] = {}
    for node in nodes:
        text, source = _text(node), _holder(flow, node)
        value = flow.values.get(id(source))
        name = facts.names.dotted(node) if value is None else None
        reasons = (f"`{name}`, by import",) if name else tuple(_reasons(flow, source))
        found.setdefault((text, value), Expression(text, _span(node), UNKNOWN if name else value, reasons))
    here = tuple(site for site in sites(facts, reached, calls) if _is_at(site, line))
    assert not isinstance(flow.function, ast.Module)
    return Place(qualified(facts, flow.function), reached.get(id(flow.function)), tuple(found.values()), here)


def _flow_at(facts: ModuleFacts, line: int) -> Flow:
    """The flow of the innermost function that holds a line."""
    around = [
        flow
        for flow in facts.flows.values()
        if isinstance(flow.function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and flow.function.lineno <= line <= (flow.function.end_lineno or 0)
    ]
    if not around:
        raise NothingThere("no function is here; what stands outside of functions runs once, on import")
    return max(around, key=lambda flow: flow.function.lineno if not isinstance(flow.function, ast.Module) else 0)


def _own(function: ast.AST) -> list[ast.expr | ast.arg]:
    """The expressions and parameters of a function, nested functions left out."""
    return [node for node in own(function) if isinstance(node, (ast.expr, ast.arg))]


def _innermost(flow: Flow, line: int, column: int) -> list[ast.expr | ast.arg]:
    """The innermost expression at a place; of what a call names, the call."""
    around = [node for node in _own(flow.function) if _start(node) <= (line, column) < _end(node)]
    around.sort(key=lambda node: (_start(node), _negative(_end(node))))
    while len(around) > 1 and id(around[-1]) not in flow.values:
        inner, outer = around[-1], around[-2]
        if not (isinstance(outer, ast.Call) and outer.func is inner) and not isinstance(outer, ast.Attribute):
            break
        around.pop()
    return around[-1:]


def _on_line(flow: Flow, line: int) -> list[ast.expr | ast.arg]:
    """Every test, name and call that starts on a line, the widest first where several start together."""
    nodes = _own(flow.function)
    tests = {id(node.test) for node in ast.walk(flow.function) if isinstance(node, _Tests)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    wanted = [
        node
        for node in nodes
        if node.lineno == line
        and (isinstance(node, (ast.Call, ast.arg)) or id(node) in tests or _is_name(flow, node, called))
    ]
    return sorted(wanted, key=lambda node: (_start(node), _negative(_end(node))))


def _is_name(flow: Flow, node: ast.AST, called: set[int]) -> bool:
    """Whether a node is a name or attribute that stands for a value, not for an import or for what is called."""
    if isinstance(node, ast.Name):
        return id(node) not in called and node.id != flow.self_name and flow.module.names.dotted(node) is None
    return isinstance(node, ast.Attribute) and id(node) in flow.values and flow.module.names.dotted(node) is None


def _holder(flow: Flow, node: ast.expr | ast.arg) -> ast.AST:
    """The node that holds the value: of an assigned name what it is given, of another new name or a parameter its first use."""
    if not isinstance(node, ast.arg) and not isinstance(getattr(node, "ctx", None), ast.Store):
        return node
    for statement in ast.walk(flow.function):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node in _targets(statement):
            return statement.value or node
    name = node.arg if isinstance(node, ast.arg) else _text(node)
    uses = [n for n in _own(flow.function) if id(n) in flow.values and n is not node and _text(n) == name]
    after = [use for use in uses if _start(use) >= _start(node)]
    return min(after, key=_start, default=node)


def _reasons(flow: Flow, node: ast.AST) -> Iterator[str]:
    """Why a value is what it is, a line for each step: from an operation to its operands, from a name to its assignment."""
    said = {""}
    current: ast.AST | None = node
    for _ in range(_STEPS):
        value = flow.values.get(id(current)) if current is not None else None
        if current is None or value is None:
            return
        reason = re.sub(r"^line \d+: ", "", value.evidence[0]) if value.evidence else "read from a tensor" * value.read
        if isinstance(current, ast.Name):
            step, current = _binding(flow, current, value)
        else:
            step, current = f"line {current.lineno}: `{_short(current)}`", _operand(flow, current)  # type: ignore[attr-defined]
        if reason not in said or ": parameter " in step:
            yield f"{step}: {reason}" if reason not in said else step
        said.add(reason)
        if value.kind is not Kind.TENSOR and not value.read:
            return


def _binding(flow: Flow, name: ast.Name, value: Value) -> tuple[str, ast.AST | None]:
    """Where a name got its value, and the expression that gave it: the assignment that the reason names, else the last one before."""
    assert not isinstance(flow.function, ast.Module)
    named = {int(number) for reason in value.evidence for number in re.findall(r"^line (\d+)", reason)}
    before = [
        statement
        for statement in ast.walk(flow.function)
        if isinstance(statement, _Binds)
        and statement.lineno < name.lineno
        and any(isinstance(part, ast.Name) and part.id == name.id for t in _targets(statement) for part in ast.walk(t))
    ]
    exact = [s for s in before if named & set(range(s.lineno, (s.end_lineno or s.lineno) + 1))]
    if exact or before:
        last = max(exact or before, key=lambda statement: statement.lineno)
        return f"line {last.lineno}: `{_short(last)}`", last.iter if isinstance(last, ast.For) else last.value
    for argument in ast.walk(flow.function.args):
        if isinstance(argument, ast.arg) and argument.arg == name.id:
            return f"line {argument.lineno}: parameter `{_text(argument)}`", None
    return f"line {name.lineno}: `{name.id}`", None


def _operand(flow: Flow, node: ast.AST) -> ast.AST | None:
    """The first operand on which a value depends; None for what is a tensor whatever it is given, such as `torch.isfinite(x)`."""
    if isinstance(node, ast.Call):
        dotted = flow.module.names.dotted(node.func) or ""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if dotted.startswith("torch.") or (receiver is not None and _kind(flow, node.func) is Kind.MODULE):
            return None
    return next(_tensors(flow, node), None)


def _kind(flow: Flow, node: ast.AST) -> Kind | None:
    value = flow.values.get(id(node))
    return value.kind if value is not None else None


def _targets(node: _Binds) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _tensors(flow: Flow, node: ast.AST) -> Iterator[ast.AST]:
    """The operands that are tensors, or were read from one, left to right."""
    for child in ast.iter_child_nodes(node):
        value = flow.values.get(id(child))
        if value is not None and (value.kind is Kind.TENSOR or value.read):
            yield child
        elif value is None or value.kind is not Kind.MODULE:
            yield from _tensors(flow, child)


def _is_at(site: Site, line: int) -> bool:
    return line in (site.place.lineno, site.node.lineno)  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _short(node: ast.AST) -> str:
    text = _text(node) if not isinstance(node, ast.For) else f"for {_text(node.target)} in {_text(node.iter)}"
    return text if len(text) <= 100 else text[:97] + "..."


def _start(node: ast.expr | ast.arg) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.arg) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _negative(place: tuple[int, int]) -> tuple[int, int]:
    return -place[0], -place[1]


def _span(node: ast.expr | ast.arg) -> Span:
    return (*_start(node), *_end(node))
