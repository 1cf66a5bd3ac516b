"""Sites that are reached through an object: `lock.acquire()` of a `threading.Lock`, a `with` item, an attribute, a store."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gbfix.facts.flow import Flow
from gbfix.facts.lattice import UNKNOWN, Kind, Site, Wanted
from gbfix.facts.values import Function
from gbfix.facts.walk import own

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

DISABLED = {"torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.decorators.disable"}
# Methods that give back their own object.
SAME = {"manual_seed", "eval", "train", "to", "cuda", "cpu", "half", "float", "double", "requires_grad_"}
SCRIPTED = {"torch.jit.script", "torch.jit.trace"}
BACKWARD_HOOKS = {"register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Bindings = dict[str, list[ast.expr | None]]


class Objects:
    """What the objects of one module are, by the one call that makes each of them."""

    def __init__(self, facts: ModuleFacts, wanted: Wanted) -> None:
        self.facts = facts
        self.wanted = wanted
        self._bound: dict[int, Bindings] = {}

    def sites(self, flow: Flow, nodes: Iterable[ast.AST], site: Callable[..., Site]) -> Iterator[Site]:
        """The sites among a function's own nodes whose name (of kind call, attribute, store, with) a rule asks for, and classes."""
        callees = {id(call[1]): call[0] for call in flow.calls}
        called: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                if id(node) in flow.values and (name := self.called(flow, node, callees)) in self.wanted:
                    yield site("call", node, [], name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                if (
                    id(node) in flow.values
                    and id(node) not in called
                    and (name := self.read(flow, node)) in self.wanted
                ):
                    yield site("attribute", node, [node.value], name)
            elif not isinstance(node, ast.stmt) or id(node) not in flow.reached:
                continue
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if (name := self.stored(flow, target)) in self.wanted:
                        yield site("store", node, [], name)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if (name := self.entered(flow, item.context_expr)) in self.wanted:
                        yield site("with", item.context_expr, [], name)
            elif isinstance(node, ast.ClassDef):
                yield site("class", node, [], node.name)

    def called(self, flow: Flow, node: ast.Call, callees: dict[int, Function]) -> str:
        """The name of a call through an object: `threading.Lock.acquire`; `torch.nn.LSTM.__call__` where it is called itself."""
        func = node.func
        callee = callees.get(id(node))
        if callee is not None and self._is_disabled(callee):
            return "torch.compiler.disable.__call__"
        value = flow.values.get(id(func), UNKNOWN)
        if isinstance(func, ast.Attribute):
            receiver = flow.values.get(id(func.value), UNKNOWN)
            if self.facts.names.dotted(func) is not None or receiver.kind in (Kind.TENSOR, Kind.LOGGER, Kind.LIST):
                return ""
            if self._has_backward_hook(flow, func):
                return "torch.nn.Module.register_full_backward_hook.__call__"
            if receiver.kind is Kind.MODULE and value.kind is not Kind.MODULE:
                return f"torch.nn.Module.{func.attr}"
            if made := self.maker(flow, func.value):
                return f"{made}.{func.attr}"
        elif isinstance(func, ast.Name) and func.id in self.facts.classes:
            return self._built(self.facts.classes[func.id])
        if value.kind is Kind.MODULE and (value.cls or "").startswith("torch."):
            return f"{value.cls}.__call__"
        made = self.maker(flow, func) if callee is None or not isinstance(func, ast.Name) else ""
        return f"{'torch.compiler.disable' if made in DISABLED else made}.__call__" if made else ""

    def read(self, flow: Flow, node: ast.Attribute) -> str:
        """The name of an attribute of a tensor, or `functools.cached_property` of an object of this module."""
        value = flow.values.get(id(node.value), UNKNOWN)
        if value.kind is Kind.TENSOR:
            return f"torch.Tensor.{node.attr}"
        owner = flow.owner if _is_self(flow, node.value) else self.facts.classes.get(value.cls or "")
        found = self.facts.method(owner, node.attr) if owner is not None else None
        if found and any(self.facts.names.dotted(d) == "functools.cached_property" for d in found[1].decorator_list):
            return "functools.cached_property"
        return ""

    def stored(self, flow: Flow, target: ast.expr) -> str:
        """The name of what an assignment sets: an attribute of a tensor, or an item of `os.environ`."""
        if isinstance(target, ast.Subscript):
            return self.facts.names.dotted(target.value) or ""
        if isinstance(target, ast.Attribute) and flow.values.get(id(target.value), UNKNOWN).kind is Kind.TENSOR:
            return f"torch.Tensor.{target.attr}"
        return ""

    def entered(self, flow: Flow, manager: ast.expr) -> str:
        """The name of what makes a context manager; `object.__enter__` for one of this module's classes."""
        if isinstance(manager, ast.Attribute) and manager.attr == "device":
            return "torch.device" if flow.values.get(id(manager.value), UNKNOWN).kind is Kind.TENSOR else ""
        return self.maker(flow, manager)

    def maker(self, flow: Flow, node: ast.expr) -> str:
        """The dotted name of the one call that makes what a name, attribute or call stands for; empty when there are others."""
        if isinstance(node, ast.Call):
            return self._callable(flow, node)
        values: Sequence[ast.expr | None] = ()
        if isinstance(node, ast.Name):
            values = self._values(flow, node.id)
        elif isinstance(node, ast.Attribute) and _is_self(flow, node.value) and flow.owner is not None:
            values = self._attributes(flow.owner).get(node.attr, ())
        made = {self._callable(flow, value) if isinstance(value, ast.Call) else "" for value in values}
        return made.pop() if len(made) == 1 else ""

    def _callable(self, flow: Flow, call: ast.Call) -> str:
        dotted = self.facts.names.dotted(call.func)
        if dotted in SCRIPTED:
            return dotted if call.args and self._is_module(flow, call.args[0]) else ""
        if dotted is not None:
            return dotted
        if isinstance(call.func, ast.Attribute) and call.func.attr in SAME and isinstance(call.func.value, ast.Call):
            return self._callable(flow, call.func.value)
        if not isinstance(call.func, ast.Name):
            return ""
        if (info := self.facts.classes.get(call.func.id)) is not None:
            return "object.__enter__" if self.facts.method(info, "__enter__") else ""
        return call.func.id if call.func.id == "open" and "open" not in self.facts.functions else ""

    def _is_module(self, flow: Flow, node: ast.expr) -> bool:
        """Whether an argument of torch.jit.script is a module: only those break, functions do not."""
        if not isinstance(node, ast.Call):
            return self.maker(flow, node).startswith("torch.nn.")
        if isinstance(node.func, ast.Name) and node.func.id in self.facts.classes:
            return self.facts.classes[node.func.id].is_module
        return self._callable(flow, node).startswith("torch.nn.")

    def _is_disabled(self, function: Function) -> bool:
        owner = self.facts.owners.get(id(function))
        decorators = [*function.decorator_list, *(owner.node.decorator_list if owner is not None else ())]
        return any(self.facts.names.dotted(d.func if isinstance(d, ast.Call) else d) in DISABLED for d in decorators)

    def _built(self, info: ClassFacts) -> str:
        """What making an instance of a class of this module reaches: hooks that Dynamo has no form for."""
        if "__getattribute__" in info.methods:
            return "object.__getattribute__"
        errors = [base for base in info.bases if isinstance(getattr(builtins, base, None), type)]
        init = info.methods.get("__init__")
        if init is None or not any(issubclass(getattr(builtins, base), BaseException) for base in errors):
            return ""
        calls = (n for n in ast.walk(init) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
        return "BaseException.__init__" if any(getattr(c.func, "attr", "") == "__init__" for c in calls) else ""

    def _has_backward_hook(self, flow: Flow, func: ast.Attribute) -> bool:
        """Whether the class gives this child module a backward hook."""
        if flow.owner is None or not _is_self(flow, func.value):
            return False
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in BACKWARD_HOOKS
            and isinstance(n.func.value, ast.Attribute) and n.func.value.attr == func.attr
            for n in self.facts.nodes(flow.owner.node)
        )  # fmt: skip

    def _values(self, flow: Flow, name: str) -> Sequence[ast.expr | None]:
        """What is assigned to a name in the function, or in the functions around it, or in the module."""
        function: ast.AST | None = flow.function
        while function is not None:
            if (values := self._bindings(function).get(name)) is not None:
                return values
            function = self.facts.outer.get(id(function))
        return self._bindings(self.facts.tree).get(name, ())

    def _attributes(self, owner: ClassFacts) -> Bindings:
        """What is assigned to the attributes of `self` in a class and its bases."""
        if id(owner) not in self._bound:
            found: Bindings = {}
            for info in self.facts.mro(owner):
                for node in self.facts.nodes(info.node):
                    for target, value in _targets(node):
                        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                            found.setdefault(target.attr, []).append(value)
            self._bound[id(owner)] = found
        return self._bound[id(owner)]

    def _bindings(self, scope: ast.AST) -> Bindings:
        """What is bound to each name of a scope; None for what is not an assignment of one value."""
        if id(scope) not in self._bound:
            found: Bindings = {}
            if isinstance(scope, FUNCTIONS):
                for node in ast.walk(scope.args):
                    if isinstance(node, ast.arg):
                        found.setdefault(node.arg, []).append(None)
            for node in own(scope, lambdas=False):
                for target, value in _targets(node):
                    for inner in ast.walk(target):
                        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                            found.setdefault(inner.id, []).append(value if inner is target else None)
                if isinstance(node, ast.Global):
                    for name in node.names:
                        found.setdefault(name, []).append(None)
            self._bound[id(scope)] = found
        return self._bound[id(scope)]


def _is_self(flow: Flow, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == flow.self_name


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets that a node binds, each with its value where that is one expression."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield node.target, node.value
    elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, None
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr
