"""The abstract value of an expression, one function at a time, on demand."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts import ops, terms
from gbfix.facts.lattice import UNKNOWN, Kind, Op, Tensor, Value
from gbfix.facts.narrow import narrow
from gbfix.facts.values import (
    BOOL,
    FALSE,
    INT,
    NONE,
    SCALAR,
    TRUE,
    Env,
    Function,
    at,
    join,
    new_tensor,
    opaque,
    scalar_class,
    truth,
    with_scalar,
)

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

STATIC_ATTRIBUTES = {"shape", "dtype", "device", "ndim", "layout", "itemsize", "training", "config"}


class Evaluator:
    """Evaluates expressions of one function and keeps the value of every node it reached."""

    def __init__(self, module: ModuleFacts, owner: ClassFacts | None) -> None:
        self.module = module
        self.owner = owner
        self.values: dict[int, Value] = {}
        self.calls: list[tuple[Function, ast.AST, list[Value], dict[str, Value], bool]] = []
        self.locals: dict[str, Function] = {}
        self.self_name = ""

    def record(
        self, callee: Function, node: ast.AST, args: list[Value], keywords: dict[str, Value], *, bound: bool
    ) -> None:
        """Note a call of a function of this module."""
        self.calls.append((callee, node, args, keywords, bound))

    def call_local(
        self, callee: Function, node: ast.Call, args: list[Value], keywords: dict[str, Value], *, bound: bool
    ) -> Value:
        """The value of calling a function of this module."""
        self.record(callee, node, args, keywords, bound=bound)
        return opaque(self.module.summary(callee), node)

    def eval(self, node: ast.expr, env: Env) -> Value:
        """The value of an expression; a node that cannot be reached while tracing keeps none."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        value: Value = method(node, env) if method else self._other(node, env)
        self.values[id(node)] = value
        return value

    def _other(self, node: ast.expr, env: Env) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child, env)
        return UNKNOWN

    def _constant(self, node: ast.Constant, env: Env) -> Value:
        if node.value is None:
            return NONE
        return Value(Kind.SCALAR, cls=type(node.value).__name__, constant=node.value)

    def _name(self, node: ast.Name, env: Env) -> Value:
        if node.id in env:
            return env[node.id]
        dotted = self.module.names.dotted(node)
        if dotted in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"):
            return FALSE
        return self.module.global_value(node.id)

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        dotted = self.module.names.dotted(node)
        if dotted == "typing.TYPE_CHECKING":
            return FALSE
        if dotted is not None:
            self.values[id(node.value)] = UNKNOWN
            return SCALAR if dotted.startswith(("torch.", "math.", "numpy.")) else UNKNOWN
        base = self.eval(node.value, env)
        if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in env:
            return env[f"{node.value.id}.{node.attr}"]
        if base.kind is Kind.TENSOR:
            return self._tensor_attribute(node, base)
        if isinstance(node.value, ast.Name) and node.value.id == self.self_name and self.owner is not None:
            if node.attr == "training":
                return BOOL
            found = self.module.attribute(self.owner, node.attr)
            if found is not None:
                return found
        if base.kind is Kind.OBJECT and base.cls in self.module.classes:
            return self.module.attribute(self.module.classes[base.cls], node.attr) or UNKNOWN
        if base.kind is Kind.MODULE and node.attr in ("weight", "bias") and (base.cls or "").startswith("torch.nn."):
            return replace(
                new_tensor(node, f"`{node.attr}` of a module", certain=base.certain),
                parameter=True,
                optional=node.attr == "bias",
            )
        if node.attr in STATIC_ATTRIBUTES:
            return SCALAR
        if base.kind is Kind.SCALAR:
            return replace(
                SCALAR,
                cls={"finfo": "float", "iinfo": "int"}.get(base.cls or "", base.cls),
                certain=base.certain,
                read=base.read,
            )
        if ast.unparse(node.value).rpartition(".")[2] in ("config", "cfg", "args", "hparams"):
            return replace(SCALAR, certain=False)
        return UNKNOWN

    def _tensor_attribute(self, node: ast.Attribute, base: Value) -> Value:
        kind = ops.attribute(node.attr)
        if kind == "tensor":
            return new_tensor(
                node,
                f"`.{node.attr}` of a tensor",
                certain=base.certain,
                dtype=base.dtype if node.attr in ("T", "mT", "H", "mH", "data") else None,
            )
        return SCALAR if kind else UNKNOWN

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        base, index = self.eval(node.value, env), self.eval(node.slice, env)
        if base.kind is Kind.TENSOR:
            return new_tensor(node, "an element of a tensor", certain=base.certain, dtype=base.dtype)
        if base.kind in (Kind.TUPLE, Kind.LIST) and base.items:
            if isinstance(node.slice, ast.Slice):
                return (
                    Value(Kind.LIST, base.certain, items=base.items)
                    if base.kind is Kind.LIST
                    else Value(Kind.TUPLE, base.certain)
                )
            if base.kind is Kind.LIST:
                return opaque(base.items[0], node)
            if isinstance(index.constant, int) and -len(base.items) <= index.constant < len(base.items):
                return base.items[index.constant]
            return UNKNOWN
        if base.kind is Kind.DICT and base.items:
            return opaque(base.items[0], node)
        if base.kind is Kind.MODULE and base.items:
            return base.items[0]
        return SCALAR if base.kind is Kind.SCALAR else base if base.kind is Kind.NDARRAY else UNKNOWN

    def _slice(self, node: ast.Slice, env: Env) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.eval(part, env)
        return SCALAR

    def _tuple(self, node: ast.Tuple, env: Env) -> Value:
        items = tuple(self.eval(item, env) for item in node.elts)
        return Value(Kind.TUPLE, items=None if any(isinstance(item, ast.Starred) for item in node.elts) else items)

    def _list(self, node: ast.List, env: Env) -> Value:
        items = [self.eval(item, env) for item in node.elts]
        whole = items[0] if items else UNKNOWN
        for item in items[1:]:
            whole = join(whole, item)
        return Value(Kind.LIST, items=(whole,) if items else None)

    def _dict(self, node: ast.Dict, env: Env) -> Value:
        for key in node.keys:
            if key is not None:
                self.eval(key, env)
        items = [self.eval(item, env) for item in node.values]
        # other keys may hold other things
        alike = bool(items) and all(i.kind is items[0].kind for i in items)
        return Value(Kind.DICT, items=(replace(items[0], certain=False),) if alike else None)

    def _joinedstr(self, node: ast.JoinedStr, env: Env) -> Value:
        self._other(node, env)
        return Value(Kind.SCALAR, cls="str")

    def _namedexpr(self, node: ast.NamedExpr, env: Env) -> Value:
        value = self.eval(node.value, env)
        env[node.target.id] = value
        return value

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        inner = {**env, **{a.arg: UNKNOWN for a in ast.walk(node.args) if isinstance(a, ast.arg)}}
        self.eval(node.body, inner)
        return Value(Kind.OBJECT, cls="lambda")

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, env: Env) -> Value:
        inner = self._generators(node.generators, env)
        return Value(Kind.LIST, items=(self.eval(node.elt, inner),))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _dictcomp(self, node: ast.DictComp, env: Env) -> Value:
        inner = self._generators(node.generators, env)
        self.eval(node.key, inner)
        return Value(Kind.DICT, items=(replace(self.eval(node.value, inner), certain=False),))

    def _generators(self, generators: list[ast.comprehension], env: Env) -> Env:
        inner = dict(env)
        for generator in generators:
            self.bind(generator.target, self.element(self.eval(generator.iter, inner), generator.iter), inner)
            for test in generator.ifs:
                self.eval(test, inner)
        return inner

    def _boolop(self, node: ast.BoolOp, env: Env) -> Value:
        stop = isinstance(node.op, ast.Or)
        scope, result = dict(env), None
        for operand in node.values:
            value = self.eval(operand, scope)
            known = truth(value)
            if known is not None and known is not stop and operand is not node.values[-1]:
                continue
            result = value if result is None else join(result, value)
            if known is stop:
                # the rest is never evaluated while tracing
                return (
                    value if result == value else replace(value if stop is False else result, constant=value.constant)
                )
            narrow(self, operand, scope, not stop)
        for name in {t.target.id for t in ast.walk(node) if isinstance(t, ast.NamedExpr)}:
            if name in scope:
                env[name] = scope[name]
        return result if result is not None else UNKNOWN

    def _unaryop(self, node: ast.UnaryOp, env: Env) -> Value:
        value = self.eval(node.operand, env)
        if isinstance(node.op, ast.Not):
            known = truth(value)
            return BOOL if known is None else (FALSE if known else TRUE)
        if value.kind is Kind.SCALAR and isinstance(value.constant, (int, float)) and isinstance(node.op, ast.USub):
            return replace(value, constant=-value.constant)
        return replace(value, fresh=True, parameter=False) if value.kind is Kind.TENSOR else value

    def _ifexp(self, node: ast.IfExp, env: Env) -> Value:
        known = truth(self.eval(node.test, env))
        then, other = dict(env), dict(env)
        narrow(self, node.test, then, True)
        narrow(self, node.test, other, False)
        if known is not None:
            return self.eval(node.body, then) if known else self.eval(node.orelse, other)
        return join(self.eval(node.body, then), self.eval(node.orelse, other), at(node))

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        values = [self.eval(part, env) for part in (node.left, *node.comparators)]
        read = any(v.read for v in values)
        if len(values) == 2 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and values[1].kind is Kind.NONE:
            left = values[0]
            if left.kind is Kind.NONE or (left.tensor is Tensor.YES and left.certain):
                return TRUE if (left.kind is Kind.NONE) == isinstance(node.ops[0], ast.Is) else FALSE
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return BOOL
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            searched = values[1].kind is not Kind.DICT
            return replace(BOOL, read=read or (searched and any(v.kind is Kind.TENSOR for v in values)))
        tensors = [v for v in values if v.kind is Kind.TENSOR]
        if not tensors and any(v.kind is Kind.NDARRAY for v in values):
            return Value(Kind.NDARRAY, certain=False)
        if not tensors:
            return replace(BOOL, read=read) if all(v.kind is Kind.SCALAR for v in values) else UNKNOWN
        if any(v.kind in (Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.OBJECT, Kind.NDARRAY) for v in values):
            return UNKNOWN
        shape = tensors[0].shape
        for other in tensors[1:]:
            shape = terms.broadcast(shape, other.shape)
        if any(v.kind is Kind.UNKNOWN for v in values):
            shape = None
        certain = all(v.certain for v in tensors) and not any(
            v.kind is Kind.UNKNOWN for v in values if isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        )
        return new_tensor(node, "a comparison with a tensor", certain=certain, fresh=True, dtype="bool", shape=shape)

    def _binop(self, node: ast.BinOp, env: Env) -> Value:
        left, right = self.eval(node.left, env), self.eval(node.right, env)
        return self.binary(node, node.op, left, right)

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        """The value of an arithmetic operation."""
        kinds = {left.kind, right.kind}
        if Kind.TENSOR not in kinds:
            if Kind.NDARRAY in kinds:
                return Value(Kind.NDARRAY, certain=False)
            if kinds == {Kind.SCALAR}:
                return Value(
                    Kind.SCALAR,
                    left.certain and right.certain,
                    cls=scalar_class(op, left, right),
                    read=left.read or right.read,
                )
            if kinds <= {Kind.LIST, Kind.TUPLE, Kind.SCALAR}:
                return left if left.kind is not Kind.SCALAR else right
            return UNKNOWN
        if kinds & {Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.NONE}:
            return UNKNOWN
        certain = all(v.certain for v in (left, right) if v.kind is Kind.TENSOR)
        dtype, shape = self._result(op, left, right)
        return new_tensor(node, "arithmetic on a tensor", certain=certain, fresh=True, dtype=dtype, shape=shape)

    def _result(self, op: ast.operator, left: Value, right: Value) -> tuple[str | None, str | None]:
        if left.kind is Kind.TENSOR and right.kind is Kind.TENSOR:
            if isinstance(op, ast.MatMult):
                return (left.dtype if left.dtype == right.dtype else None), None
            dtype = terms.promote(left.dtype, right.dtype, left.shape, right.shape)
            return (terms.to_float(dtype) if isinstance(op, ast.Div) else dtype), terms.broadcast(
                left.shape, right.shape
            )
        tensor, other = (left, right) if left.kind is Kind.TENSOR else (right, left)
        if other.kind is not Kind.SCALAR:
            return None, None
        return (
            terms.to_float(tensor.dtype) if isinstance(op, ast.Div) else with_scalar(tensor.dtype, other)
        ), tensor.shape

    def _call(self, node: ast.Call, env: Env) -> Value:
        from gbfix.facts import calls

        return calls.evaluate(self, node, env)

    def op(self, node: ast.Call) -> Op | None:
        """The torch operator that a call reaches: a torch function, or a method of a value that is a tensor."""
        dotted = self.module.names.dotted(node.func)
        if dotted is not None:
            return ops.function(dotted)
        if isinstance(node.func, ast.Attribute):
            base = self.values.get(id(node.func.value), UNKNOWN)
            if base.kind is Kind.TENSOR:
                return ops.method(node.func.attr)
        return None

    def element(self, value: Value, node: ast.AST) -> Value:
        """What iterating over a value gives."""
        if value.kind is Kind.TENSOR:
            return new_tensor(node, "a row of a tensor", certain=value.certain, dtype=value.dtype)
        if value.kind in (Kind.LIST, Kind.MODULE) and value.items:
            return opaque(value.items[0], node)
        if value.kind is Kind.TUPLE and value.items:
            whole = value.items[0]
            for item in value.items[1:]:
                whole = join(whole, item, at(node))
            return whole
        return replace(INT, read=value.read) if value.kind is Kind.SCALAR and value.cls == "range" else UNKNOWN

    def bind(self, target: ast.expr, value: Value, env: Env) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = (
                value.items
                if value.kind is Kind.TUPLE and value.items and len(value.items) == len(target.elts)
                else None
            )
            for index, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self.bind(part.value, UNKNOWN, env)
                elif known is not None:
                    self.bind(part, known[index], env)
                else:
                    self.bind(
                        part,
                        self.element(value, part)
                        if value.kind in (Kind.TENSOR, Kind.LIST)
                        else (SCALAR if value.kind is Kind.SCALAR else UNKNOWN),
                        env,
                    )
        elif isinstance(target, ast.Attribute):
            self.eval(target.value, env)
            if isinstance(target.value, ast.Name):
                env[f"{target.value.id}.{target.attr}"] = replace(value, fresh=False)
        elif isinstance(target, ast.Subscript):
            self.eval(target.value, env)
            self.eval(target.slice, env)
