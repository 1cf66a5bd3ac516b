"""The rule untraceable-call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site, Wanted
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._measured import ADVICE, CALLS
from gbfix_codemods._untraceable import breaks

LOOPS = (ast.For, ast.While, ast.With, ast.Try)
MOST_STATEMENTS = 12
WANTED = Wanted(CALLS)


class UntraceableCall(Rule):
    """Flag a call into Python that Dynamo cannot follow; rewrite its helper to be left out by `torch.compiler.disable`.

    Breaks because Dynamo has no graph form for clocks, random numbers of Python, files, processes, locks, storages, sparse
    layouts and most C functions.
    Unsafe because the helper is then never compiled, and its call stays a graph break (one instead of several).
    Source: GB0006, GB0007, GB0008, GB0014, GB0015, GB0045, GB0046, GB0055, GB0059, GB0087, GB0088, GB0090, GB0107,
    GB0110, GB0116, GB0126, GB0127, GB0134, GB0142, GB0147, GB0148, GB0156, GB0170, GB0180, GB0208, GB0277, GB0294,
    GB0363, GB0374, GB4198, GB4695, GB5976, GB7650, GB8977 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF501"
    gb_ids: ClassVar[tuple[str, ...]] = (
        "GB0006", "GB0007", "GB0008", "GB0014", "GB0015", "GB0045", "GB0046", "GB0055", "GB0059", "GB0087",
        "GB0088", "GB0090", "GB0107", "GB0110", "GB0116", "GB0126", "GB0127", "GB0134", "GB0142", "GB0147",
        "GB0148", "GB0156", "GB0170", "GB0180", "GB0208", "GB0277", "GB0294", "GB0363", "GB0374", "GB4198",
        "GB4695", "GB5976", "GB7650", "GB8977",
    )  # fmt: skip
    calls: ClassVar[tuple[str, ...]] = CALLS
    kinds: ClassVar[tuple[str, ...]] = ("attribute", "store")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call; the fix is one for the whole helper."""
        if site.name not in WANTED or not breaks(self.context, site):
            return
        message = f"`{self.spelled(site.node)}` cannot be traced"
        if why := self.keeps(site.function):
            advice = next(text for names, text in ADVICE.items() if site.name in Wanted(names))
            yield self.report(site, message, declined=f"{self.place(site)}{why}; {advice}")
            return
        line, column = site.function.lineno, site.function.col_offset
        decorator = f"@{self.context.torch('compiler.disable')}\n{self.context.indent(site.function)}"
        yield self.report(
            site,
            message,
            fix=Fix(
                f"leave `{site.function.name}` out with torch.compiler.disable",
                (Edit(line, column, line, column, decorator),),
                Applicability.UNSAFE,
                "wrap",
                "one graph break stays, at the call of the helper",
            ),
        )

    def keeps(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        """Why a function cannot be left out as a whole, or why that would not pay; empty when it does."""
        name = f"`{function.name}`"
        if self.context.is_entry(function):
            return f"{name} is compiled itself, where torch.compiler.disable is ignored"
        if any(isinstance(node, (ast.AsyncFunctionDef, ast.Yield, ast.YieldFrom)) for node in ast.walk(function)):
            return f"{name} is a generator or coroutine, which torch.compiler.disable does not cover"
        if not isinstance(self.context.parent(function), (ast.Module, ast.ClassDef)):
            return f"{name} is a nested function"
        if {ast.unparse(decorator) for decorator in function.decorator_list} - {"staticmethod", "classmethod"}:
            return f"{name} has decorators of its own"
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and self.is_untraceable(node)]
        statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function))
        if statements > MOST_STATEMENTS or self.has_tensor_work(function, calls):
            return f"{name} does other work too, which would leave the graph with it"
        if len(calls) < 2 or not self.is_traced_alone(function):
            return f"torch.compiler.disable on {name} would only move the one break to its call"
        return ""

    def spelled(self, node: ast.AST) -> str:
        """What a finding calls its site."""
        if isinstance(node, ast.Call):
            return called(self.context, node)
        if isinstance(node, ast.Assign):
            return f"{one_line(self.context, node.targets[0])} = ..."
        return one_line(self.context, node)

    def place(self, site: Site) -> str:
        """What makes a break costlier here. After one in `with torch.no_grad():` and the like, Dynamo resumes."""
        node = self.context.parent(site.node)
        while node is not None and node is not site.function:
            resumes = isinstance(node, ast.With) and all(
                self.is_torch_manager(item.context_expr) for item in node.items
            )
            if isinstance(node, LOOPS) and not resumes:
                return f"a break inside `{type(node).__name__.lower()}` keeps the whole function from being compiled; "
            node = self.context.parent(node)
        return ""

    def is_torch_manager(self, manager: ast.expr) -> bool:
        """Whether a context manager is torch's own."""
        called = manager.func if isinstance(manager, ast.Call) else manager
        return (self.context.dotted(called) or "").startswith("torch.")

    def is_untraceable(self, call: ast.Call) -> bool:
        """Whether a call is one of this rule's."""
        name = self.context.dotted(call.func) or (call.func.id if isinstance(call.func, ast.Name) else "")
        return name in WANTED

    def has_tensor_work(self, function: ast.AST, calls: list[ast.Call]) -> bool:
        """Whether a function computes tensors, other than to hand them to the calls."""
        handed = {id(node) for call in calls for node in ast.walk(call)}
        return any(
            isinstance(node, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare))
            and id(node) not in handed
            and self.context.value(node).kind is Kind.TENSOR
            for node in ast.walk(function)
        )

    def is_traced_alone(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether Dynamo, after the break, starts anew inside the function: where a tensor or a module comes in."""
        names = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
        loads = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in names]
        return "self" in names or any(self.context.value(load).kind is Kind.TENSOR for load in loads)
