"""The rule untraceable-context."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._effects import called, one_line
from gbfix_codemods._lines import leads
from gbfix_codemods._places import is_set

# Measured in default mode on torch 2.13, each around one multiplication. no_grad, autocast, inference_mode, profilers,
# record_function, suppress, nullcontext and managers of the user's own are traced where they are made in the `with`.
MANAGERS = (
    "torch.device", "torch.autograd.detect_anomaly", "torch.autograd.set_detect_anomaly", "torch.random.fork_rng",
    "torch.autograd.graph.saved_tensors_hooks", "torch.autograd.graph.save_on_cpu",
    "torch.autograd.graph.allow_mutation_on_saved_tensors", "torch.autograd.set_multithreading_enabled",
    "torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt", "torch.cuda.nvtx.range",
    "torch.cuda.device_of", "torch.backends.cudnn.flags", "torch.backends.mkldnn.flags", "torch.backends.mkl.verbose",
    "torch.backends.cuda.sdp_kernel", "torch.sparse.check_sparse_tensor_invariants",
    "torch.utils.flop_counter.FlopCounterMode", "contextlib.redirect_stdout", "contextlib.redirect_stderr",
    "contextlib.closing", "contextlib.chdir", "decimal.localcontext", "numpy.errstate", "numpy.printoptions",
)  # fmt: skip
# These break as objects that were made before the function.
MODES = ("torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.set_grad_enabled")
OBJECTS = (
    *MODES, "threading.Lock", "threading.RLock", "threading.Condition", "threading.Semaphore", "multiprocessing.Lock",
    "object.__enter__",
)  # fmt: skip
ENTERED = "contextlib.ExitStack.enter_context"


class UntraceableContext(Rule):
    """Flag a `with` whose manager Dynamo cannot enter; rewrite one grad mode to a `with` that makes it.

    Breaks because Dynamo knows a fixed list of managers, and only where it sees them made.
    Unsafe because the object could be replaced, or be wanted for its own state.
    Source: GB0007, GB0008, GB0142, GB0208, GB0262, GB0294 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF502"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0007", "GB0008", "GB0142", "GB0208", "GB0262", "GB0294")
    calls: ClassVar[tuple[str, ...]] = (*MANAGERS, *OBJECTS, ENTERED)
    kinds: ClassVar[tuple[str, ...]] = ("with",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each item of a `with`, and for each manager that an ExitStack enters."""
        node = site.node
        assert isinstance(node, ast.expr)
        if site.kind == "call":
            if site.name == ENTERED and isinstance(node, ast.Call) and self.is_torch(node.args):
                message = f"`{called(self.context, node)}` enters a manager that Dynamo does not know as an object"
                fix = self.spread(node, site.function)
                why = "" if fix else "give the manager, or contextlib.nullcontext(), to a `with` of its own"
                yield self.report(site, message, fix, why)
        elif site.name in MANAGERS or not isinstance(node, ast.Call):
            if site.name not in (*MANAGERS, *OBJECTS) or (site.name in OBJECTS and self.is_made_here(node, site)):
                return
            spelled = called(self.context, node) if isinstance(node, ast.Call) else one_line(self.context, node)
            fix = self.made(site, node)
            why = "" if fix else self.advice(site.name)
            yield self.report(site, f"`with {spelled}` cannot be traced", fix, why)

    def advice(self, name: str) -> str:
        """What to do instead."""
        if name == "torch.device":
            return "give `device=` to what is made inside"
        if name.startswith(("threading.", "multiprocessing.")):
            return "take the lock outside of the compiled code"
        if name in OBJECTS:
            return "make the manager in the `with` itself"
        return "enter it around the call of the compiled code"

    def is_torch(self, arguments: list[ast.expr]) -> bool:
        """Whether a manager handed to an ExitStack is torch's own or a nullcontext; the user's are traced."""
        first = arguments[0] if arguments else None
        dotted = (self.context.dotted(first.func) or "") if isinstance(first, ast.Call) else ""
        return dotted.startswith("torch.") or dotted == "contextlib.nullcontext"

    def is_made_here(self, node: ast.expr, site: Site) -> bool:
        """Whether the function itself makes the object."""
        return isinstance(node, ast.Name) and is_set(site.function, node.id)

    def made(self, site: Site, node: ast.expr) -> Fix | None:
        """`with CTX:` of a module's `CTX = torch.no_grad()` as `with torch.no_grad():`."""
        if site.name not in MODES[:2] or not isinstance(node, ast.Name):
            return None
        text = f"{self.context.torch(site.name[len('torch.') :])}()"
        reason = "another object could be assigned to the name from outside"
        return Fix("make it here", (self.context.replace(node, text),), Applicability.UNSAFE, "inline", reason)

    def spread(self, node: ast.Call, function: ast.AST) -> Fix | None:
        """`with ExitStack() as s: s.enter_context(m); ...` as `with m: ...`, where the stack does nothing else."""
        statement, owner = self.context.statement(node), self.context.parent(self.context.statement(node))
        if not isinstance(owner, ast.With) or len(owner.items) != 1 or len(owner.body) < 2 or len(node.args) != 1:
            return None
        item, stack = owner.items[0], node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(statement, ast.Expr) or statement.value is not node or owner.body[0] is not statement:
            return None
        if not isinstance(item.optional_vars, ast.Name) or not isinstance(stack, ast.Name):
            return None
        if sum(isinstance(n, ast.Name) and n.id == item.optional_vars.id for n in ast.walk(function)) != 2:
            return None
        header = self.context.replace(item.context_expr, self.context.text(node.args[0]), item.optional_vars)
        after = owner.body[1]
        end = Edit(statement.lineno, statement.col_offset, after.lineno, after.col_offset, "")
        if leads(self.context, after):
            if not leads(self.context, statement) or self.context.after(statement).strip():
                return None
            end = Edit(statement.lineno, 0, (statement.end_lineno or statement.lineno) + 1, 0, "")
        return Fix("enter it by the `with`", (header, end), Applicability.SAFE, "inline")
