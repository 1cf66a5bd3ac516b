"""The facts of one module: its imports, classes, functions, their summaries, and what is compiled."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field, replace

from gbfix.facts.annotations import annotation
from gbfix.facts.entries import built, made_inputs
from gbfix.facts.flow import Flow
from gbfix.facts.infer import Evaluator
from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.facts.liveness import Liveness
from gbfix.facts.names import Names
from gbfix.facts.params import parameters
from gbfix.facts.values import Env, Function, join, opaque
from gbfix.facts.walk import walk

MAX_PASSES = 3
MODULE_BASES = ("Module", "PreTrainedModel", "LightningModule", "ModuleList", "Sequential")


@dataclass
class ClassFacts:
    """One class of the module."""

    node: ast.ClassDef
    bases: tuple[str, ...]
    is_module: bool
    methods: dict[str, Function]
    attributes: dict[str, Value] = field(default_factory=dict)


class ModuleFacts:
    """Answers about one module's source. Raises SyntaxError, and ValueError for a NUL byte."""

    def __init__(self, text: str, path: str = "") -> None:
        self.path = path
        self.text = text
        self.lines = split_lines(text)
        self.tree = ast.parse(text)
        _columns_to_characters(self.tree, self.lines)
        self.names = Names(self.tree)
        self.uses_numpy = any(full.split(".")[0] == "numpy" for full in self.names.aliases.values())
        self._nodes: dict[int, list[ast.AST]] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, ClassFacts] = {}
        self.owners: dict[int, ClassFacts] = {}
        self._index()
        self._globals: Env = {}
        self._summaries: dict[int, Value] = {}
        self._passed: dict[int, dict[str, Value]] = {}
        self._liveness: dict[int, Liveness] = {}
        self.flows: dict[int, Flow] = {}
        self.outer: dict[int, Function] = {}
        self._analyse()

    # -- structure

    def _index(self) -> None:
        self._classes(self.tree.body)
        for node in _top_level(self.tree.body):
            self.functions[node.name] = node
        for info in self.classes.values():
            info.is_module = any(
                base.rpartition(".")[2] in MODULE_BASES or base.startswith("torch.nn.")
                for c in self.mro(info)
                for base in c.bases
            ) or ("forward" in info.methods and bool(info.bases))

    def _classes(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(self.names.dotted(b) or (b.id if isinstance(b, ast.Name) else "") for b in node.bases)
                methods = {m.name: m for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))}
                info = self.classes[node.name] = ClassFacts(node, bases, False, methods)
                self.owners.update({id(m): info for m in methods.values()})
            for part in ("body", "orelse", "finalbody"):
                self._classes(getattr(node, part, []))
            for handler in getattr(node, "handlers", ()):
                self._classes(handler.body)

    def mro(self, info: ClassFacts) -> list[ClassFacts]:
        """The class and its bases in this module, nearest first."""
        order: list[ClassFacts] = []
        queue = [info]
        while queue:
            current = queue.pop(0)
            if current not in order:
                order.append(current)
                queue.extend(self.classes[base] for base in current.bases if base in self.classes)
        return order

    def method(self, info: ClassFacts, name: str) -> tuple[ClassFacts, Function] | None:
        """The method that `self.name` reaches, with the class that defines it."""
        for cls in self.mro(info):
            if name in cls.methods:
                return cls, cls.methods[name]
        return None

    def resolve(self, evaluator: Evaluator, func: ast.Attribute, receiver: Value) -> tuple[bool, Function | None]:
        """The method of this module that `receiver.name(...)` calls, and whether the receiver is passed as `self`."""
        owner: ClassFacts | None = None
        bound = True
        if receiver.kind is Kind.OBJECT and receiver.cls == "super" and evaluator.owner is not None:
            for cls in self.mro(evaluator.owner)[1:]:
                if func.attr in cls.methods:
                    return not is_static(cls.methods[func.attr]), cls.methods[func.attr]
            return True, None
        if isinstance(func.value, ast.Name) and func.value.id == evaluator.self_name:
            owner = evaluator.owner
        elif receiver.cls in self.classes:
            owner = self.classes[receiver.cls]
        elif isinstance(func.value, ast.Name) and func.value.id in self.classes:
            owner, bound = self.classes[func.value.id], False
        found = self.method(owner, func.attr) if owner is not None else None
        if found is None:
            return True, None
        return (bound and not is_static(found[1])) or is_class_method(found[1]), found[1]

    def attribute(self, info: ClassFacts, name: str) -> Value | None:
        """What `self.name` holds, by `__init__`, class body or property; None when the class does not say."""
        for cls in self.mro(info):
            if name in cls.attributes:
                return cls.attributes[name]
            if name in cls.methods and is_property(cls.methods[name]):
                return opaque(self.summary(cls.methods[name]), cls.methods[name])
        return None

    def annotation(self, node: ast.expr, name: str) -> Value | None:
        """What an annotation says of a value."""
        return annotation(self, node, name)

    def global_value(self, name: str) -> Value:
        """The value of a module-level name."""
        return self._globals.get(name, UNKNOWN)

    # -- analysis

    def _analyse(self) -> None:
        top = Flow(self, self.tree, None)
        end = top.run({}) or {}
        self._globals = {
            name: replace(value, constant=None, fresh=False) for name, value in end.items() if "." not in name
        }
        again: set[int] | None = None
        for _ in range(MAX_PASSES):
            before = (
                dict(self._summaries),
                dict(self._passed),
                {id(c): dict(c.attributes) for c in self.classes.values()},
            )
            self._pass(again)
            again = self._outdated(*before)
            if not again:
                break

    def _pass(self, again: set[int] | None) -> None:
        """Evaluate all functions, or only those whose ground has changed."""
        for info in self.classes.values():
            if again is None:
                self._class_body(info)
            if "__init__" in info.methods and (again is None or id(info.methods["__init__"]) in again):
                self._function(info.methods["__init__"], info, {})
        for info in self.classes.values():
            for method in info.methods.values():
                if method.name != "__init__" and (again is None or id(method) in again):
                    self._function(method, info, {})
        for function in self.functions.values():
            if again is None or id(function) in again:
                self._function(function, None, {})
        passed: dict[int, dict[str, Value]] = {}
        for flow in self.flows.values():
            for callee, _, args, keywords, bound in flow.calls:
                _join_passed(passed.setdefault(id(callee), {}), callee, args, keywords, bound)
        for function in built(self):
            for args, keywords in made_inputs(self.flows[id(self.functions["make_inputs"])]):
                _join_passed(passed.setdefault(id(function), {}), function, args, keywords, id(function) in self.owners)
        self._passed = passed

    def _outdated(
        self, summaries: dict[int, Value], passed: dict[int, dict[str, Value]], attributes: dict[int, dict[str, Value]]
    ) -> set[int]:
        """The functions (with what is nested in them) that rest on something that the last pass found to be different."""
        classes = {id(c) for c in self.classes.values() if attributes[id(c)] != c.attributes}
        found: set[int] = set()
        for key, flow in self.flows.items():
            changed = passed.get(key, {}) != self._passed.get(key, {})
            changed = changed or any(
                summaries.get(id(c[0]), UNKNOWN) != self._summaries.get(id(c[0]), UNKNOWN) for c in flow.calls
            )
            changed = changed or (flow.owner is not None and any(id(c) in classes for c in self.mro(flow.owner)))
            if changed:
                while key in self.outer:
                    key = id(self.outer[key])
                found.add(key)
        return found

    def _class_body(self, info: ClassFacts) -> None:
        for statement in info.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                value = annotation(self, statement.annotation, statement.target.id)
                if value is not None:
                    info.attributes[statement.target.id] = value
            elif (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.targets[0], ast.Name)
            ):
                info.attributes[statement.targets[0].id] = Value(
                    Kind.NONE if statement.value.value is None else Kind.SCALAR
                )

    def _function(self, function: Function, owner: ClassFacts | None, closure: Env) -> None:
        flow = Flow(self, function, owner)
        bound = owner is not None and id(function) in self.owners and not is_static(function)
        first = [*function.args.posonlyargs, *function.args.args][:1]
        flow.self_name = first[0].arg if bound and first else ("self" if owner is not None else "")
        env = {
            **closure,
            **parameters(self, function, owner, self._passed.get(id(function), {}), bound and bool(first)),
        }
        end = flow.run(env)
        self.flows[id(function)] = flow
        self._summaries[id(function)] = flow.returns()
        if owner is not None and function.name == "__init__" and end is not None:
            for name, value in end.items():
                if name.startswith(f"{flow.self_name}."):
                    plain = replace(value, constant=None, fresh=False)
                    if value.kind is Kind.TENSOR:
                        attr = name.partition(".")[2]
                        plain = replace(
                            plain, dtype=f"d:self.{attr}", shape="()" if value.shape == "()" else f"s:self.{attr}"
                        )
                    owner.attributes[name.partition(".")[2]] = plain
        if owner is not None and function.name != "__init__":
            for node in self.nodes(function):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == flow.self_name
                ):
                    owner.attributes[node.attr] = _also_set(owner.attributes.get(node.attr), flow.values.get(id(node)))
        if flow.nested:
            stores = Counter(
                n.id for n in self.nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
            for nested, scope in flow.nested:
                self.outer[id(nested)] = function
                self._function(
                    nested, owner, {name: UNKNOWN if stores[name] > 1 else value for name, value in scope.items()}
                )

    def summary(self, function: Function) -> Value:
        """What a function of this module gives back."""
        return self._summaries.get(id(function), UNKNOWN)

    def nodes(self, function: ast.AST) -> list[ast.AST]:
        """Every node below a function, nested functions included; walked once."""
        if id(function) not in self._nodes:
            self._nodes[id(function)] = walk(function)
        return self._nodes[id(function)]

    def liveness(self, function: Function) -> Liveness:
        """The names live after each statement of a function."""
        if id(function) not in self._liveness:
            self._liveness[id(function)] = Liveness(function)
        return self._liveness[id(function)]


def _also_set(known: Value | None, value: Value | None) -> Value:
    """An attribute that another method stores too: its kind holds only where both agree."""
    if known is None:
        return UNKNOWN
    return (
        replace(known, constant=None)
        if value is None or value.kind is known.kind
        else replace(known, constant=None, optional=True)
    )


def _join_passed(
    into: dict[str, Value], callee: Function, args: list[Value], keywords: dict[str, Value], bound: bool
) -> None:
    names = [a.arg for a in (*callee.args.posonlyargs, *callee.args.args)][1 if bound else 0 :]
    for name, value in (*zip(names, args, strict=False), *keywords.items()):
        plain = replace(
            value,
            constant=None,
            dtype=None,
            shape="()" if value.shape == "()" else None,
            evidence=("what the module's own calls pass",),
        )
        into[name] = join(into[name], plain) if name in into else plain


def is_static(function: Function) -> bool:
    """Whether a method takes no `self`."""
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)


def is_class_method(function: Function) -> bool:
    """Whether a method takes its class."""
    return any(isinstance(d, ast.Name) and d.id == "classmethod" for d in function.decorator_list)


def is_property(function: Function) -> bool:
    """Whether a method is read as an attribute."""
    return any(ast.unparse(d).rpartition(".")[2] in ("property", "cached_property") for d in function.decorator_list)


def _top_level(body: list[ast.stmt]) -> list[Function]:
    found: list[Function] = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node)
        elif isinstance(node, ast.If):
            found += _top_level(node.body) + _top_level(node.orelse)
        elif isinstance(node, ast.Try):
            found += (
                _top_level(node.body) + [f for h in node.handlers for f in _top_level(h.body)] + _top_level(node.orelse)
            )
    return found


def split_lines(text: str) -> list[str]:
    """The lines of a text, ends kept, as Python's tokenizer counts them: LF, CRLF and CR end a line, form feed does not."""
    if "\r" in text:
        return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _columns_to_characters(tree: ast.AST, lines: list[str]) -> None:
    """Turn ast's UTF-8 byte columns into characters, in place."""
    odd = {number: line.encode("utf-8", "surrogatepass") for number, line in enumerate(lines, 1) if not line.isascii()}
    if not odd:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt, ast.arg, ast.keyword, ast.alias, ast.excepthandler)):
            if node.lineno in odd:
                node.col_offset = len(odd[node.lineno][: node.col_offset].decode("utf-8", "surrogatepass"))
            if node.end_lineno in odd and node.end_col_offset is not None:
                node.end_col_offset = len(odd[node.end_lineno][: node.end_col_offset].decode("utf-8", "surrogatepass"))
