"""The rule untraceable-call."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from typing import ClassVar

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._effects import called

# Every name was measured to break in default mode on torch 2.13, in a function of its own. By what to do instead:
TIMES = (
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns",
    "time.process_time", "time.process_time_ns", "time.thread_time", "time.strftime", "time.localtime", "time.gmtime",
    "time.ctime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
)  # fmt: skip
DRAWS = (
    "random.random", "random.choice", "random.choices", "random.shuffle", "random.sample", "random.gauss",
    "random.normalvariate", "random.betavariate", "random.expovariate", "random.triangular", "random.getrandbits",
    "numpy.random.permutation", "numpy.random.shuffle", "numpy.random.default_rng", "secrets.*", "uuid.uuid1",
    "uuid.uuid4", "os.urandom", "random.uniform", "random.randint", "random.randrange",
)  # fmt: skip
# Dynamo passes these numbers in; only a branch on them breaks.
TRACED = ("random.uniform", "random.randint", "random.randrange")
SEEDS = (
    "random.seed", "random.getstate", "random.setstate", "torch.manual_seed", "torch.random.manual_seed",
    "torch.cuda.manual_seed_all", "torch.initial_seed", "torch.get_rng_state", "torch.set_rng_state",
    "torch.Generator",
)  # fmt: skip
QUESTIONS = (
    "os.getpid", "os.getcwd", "os.cpu_count", "os.listdir", "os.stat", "os.path.exists", "os.path.isfile",
    "os.path.isdir", "os.path.getsize", "os.path.abspath", "os.path.realpath", "glob.glob",
    "socket.gethostname", "json.dumps", "json.loads", "hashlib.*", "zlib.crc32", "base64.*", "bisect.*",
    "statistics.mean", "sys.getsizeof", "sys._getframe", "inspect.stack", "inspect.getsource",
    "inspect.currentframe", "importlib.import_module", "threading.get_ident", "threading.current_thread",
    "torch.get_num_threads", "torch.get_float32_matmul_precision", "torch.can_cast", "torch.cuda.device_count",
    "torch.cuda.memory_allocated", "torch.cuda.max_memory_allocated", "torch.backends.mps.is_available",
)  # fmt: skip
EFFECTS = (
    "open", "io.open", "time.sleep", "json.dump", "pickle.*", "torch.save", "torch.load", "numpy.save",
    "numpy.load", "os.makedirs", "os.remove", "os.system", "os.putenv", "subprocess.*", "shutil.*",
    "tempfile.mkdtemp", "gc.*", "heapq.*", "torch.set_num_threads", "threading.Lock", "threading.RLock",
    "threading.Event", "warnings.simplefilter", "warnings.filterwarnings", "logging.basicConfig",
)  # fmt: skip
ADVICE = {
    TIMES: "take the time outside of the compiled code",
    DRAWS: "draw before the compiled code and pass the number in",
    SEEDS: "set or read the seed outside of the compiled code",
    QUESTIONS: "ask once before the code is compiled and keep the answer",
    EFFECTS: "do it outside of the compiled code",
}
LOOPS = (ast.For, ast.While, ast.With, ast.Try)
MOST_STATEMENTS = 12


class UntraceableCall(Rule):
    """Flag a call into Python that Dynamo cannot follow; rewrite its helper to be left out by `torch.compiler.disable`.

    Breaks because Dynamo has no graph form for clocks, random numbers of Python, files, processes and most C functions.
    Unsafe because the helper is then never compiled, and its call stays a graph break (one instead of several).
    Source: GB0007, GB0008, GB0059, GB0134, GB0142, GB0156, GB0170, GB0208, GB0294, GB0363 in
    torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF501"
    gb_ids: ClassVar[tuple[str, ...]] = (
        "GB0007", "GB0008", "GB0059", "GB0134", "GB0142", "GB0156", "GB0170", "GB0208", "GB0294", "GB0363",
    )  # fmt: skip
    calls: ClassVar[tuple[str, ...]] = tuple(name for names in ADVICE for name in names)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call; the fix is one for the whole helper."""
        assert isinstance(site.node, ast.Call)
        if site.name in TRACED and not self.decides(site.node, site.function):
            return
        message = f"`{called(self.context, site.node)}` cannot be traced"
        if why := self.keeps(site.function):
            advice = next(text for names, text in ADVICE.items() if _matches(site.name, names))
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

    def decides(self, node: ast.AST, function: ast.AST) -> bool:
        """Whether a branch depends on a value, by itself or by the name it is assigned to."""
        statement = self.context.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        branches = (ast.If, ast.While, ast.IfExp, ast.Assert)
        tests = [inner.test for inner in ast.walk(function) if isinstance(inner, branches)]
        parts = [part for test in tests for part in ast.walk(test)]
        return any(part is node or (isinstance(part, ast.Name) and part.id in names) for part in parts)

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
        return _matches(name, self.calls)

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


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
