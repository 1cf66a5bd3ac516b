"""The abstract value of an expression, one function at a time, on demand."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts import ops, terms
from gbfix.facts.lattice import UNKNOWN, Kind, Op, Value

if TYPE_CHECKING:
    from gbfix.facts.project import ClassFacts, ModuleFacts

Env = dict[str, Value]
SCALAR = Value(Kind.SCALAR)
NONE = Value(Kind.NONE)
BOOL = Value(Kind.SCALAR, cls="bool")
INT = Value(Kind.SCALAR, cls="int")
TRUE = Value(Kind.SCALAR, cls="bool", constant=True)
FALSE = Value(Kind.SCALAR, cls="bool", constant=False)

# Flags that are constant while Dynamo traces. Source: torch/compiler/__init__.py, torch/_dynamo/variables/torch.py, torch 2.13.
COMPILING = {
    "torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling", "torch._dynamo.is_compiling",
    "torch._dynamo.external_utils.is_compiling", "torch._utils.is_compiling",
}  # fmt: skip
NOT_COMPILING = {"torch.jit.is_scripting", "torch.jit.is_tracing", "torch.onnx.is_in_onnx_export"}
STATIC_ATTRIBUTES = {"shape", "dtype", "device", "ndim", "layout", "itemsize", "training", "config"}
READING_BUILTINS = {"float": "float", "int": "int", "bool": "bool", "complex": "complex"}
SCALAR_BUILTINS = {
    "len", "isinstance", "issubclass", "hasattr", "callable", "id", "hash", "ord", "round", "str", "repr", "format", "divmod", "pow", "any", "all",
}  # fmt: skip


def join(a: Value, b: Value, where: str = "") -> Value:
    """The value of a name that is `a` on one path and `b` on another."""
    if a == b:
        return a
    if Kind.NONE in (a.kind, b.kind) and a.kind is not b.kind:
        other = b if a.kind is Kind.NONE else a
        return replace(other, optional=True, constant=None)
    if a.kind is not b.kind:
        return replace(UNKNOWN, certain=False, read=a.read or b.read or Kind.TENSOR in (a.kind, b.kind) and Kind.SCALAR in (a.kind, b.kind))
    same = lambda x, y, tag: x if x == y else (f"{tag}@{where}" if where and x and y else None)  # noqa: E731
    items = a.items
    if a.items != b.items:
        items = tuple(map(join, a.items, b.items)) if a.items and b.items and len(a.items) == len(b.items) else None
    return Value(
        a.kind, a.certain and b.certain, a.optional or b.optional, same(a.dtype, b.dtype, "d"), same(a.shape, b.shape, "s"),
        a.fresh and b.fresh, a.parameter or b.parameter, a.read or b.read, items, a.cls if a.cls == b.cls else None,
        a.constant if a.constant == b.constant and type(a.constant) is type(b.constant) else None, a.evidence or b.evidence,
    )  # fmt: skip


def truth(value: Value) -> bool | None:
    """What `bool(value)` is known to be while tracing, None when not known."""
    if value.kind is Kind.NONE:
        return False
    return bool(value.constant) if value.kind is Kind.SCALAR and value.constant is not None else None


def at(node: ast.AST) -> str:
    """The place of a node as a term's suffix."""
    return f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"


def new_tensor(node: ast.AST, why: str, *, certain: bool = True, fresh: bool = False, dtype: str | None = None, shape: str | None = None) -> Value:
    """A tensor of which nothing else is known; its terms name the place."""
    return Value(
        Kind.TENSOR, certain, dtype=dtype or f"d@{at(node)}", shape=shape or f"s@{at(node)}", fresh=fresh,
        evidence=(f"line {getattr(node, 'lineno', 0)}: {why}",),
    )  # fmt: skip


def opaque(value: Value, node: ast.AST) -> Value:
    """A callee's value seen by the caller: terms over the callee's own names lose their meaning."""
    dtype = value.dtype if value.dtype in terms.CONCRETE else None
    shape = value.shape if value.shape == "()" else None
    if value.kind is Kind.TENSOR:
        return replace(value, dtype=dtype or f"d@{at(node)}", shape=shape or f"s@{at(node)}", fresh=False)
    if value.items is not None:
        return replace(value, items=tuple(replace(opaque(item, node), dtype=None, shape=None) for item in value.items))
    return value


class Evaluator:
    """Evaluates expressions of one function and keeps the value of every node it reached."""

    def __init__(self, module: ModuleFacts, owner: ClassFacts | None) -> None:
        self.module = module
        self.owner = owner
        self.values: dict[int, Value] = {}
        self.calls: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call, list[Value], dict[str, Value], bool]] = []
        self.locals: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.self_name = ""

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
            return replace(new_tensor(node, f"`{node.attr}` of a module", certain=base.certain), parameter=True, optional=node.attr == "bias")
        if node.attr in STATIC_ATTRIBUTES:
            return SCALAR
        if base.kind is Kind.SCALAR:
            return replace(SCALAR, cls={"finfo": "float", "iinfo": "int"}.get(base.cls or "", base.cls), certain=base.certain, read=base.read)
        if ast.unparse(node.value).rpartition(".")[2] in ("config", "cfg", "args", "hparams"):
            return replace(SCALAR, certain=False)
        return UNKNOWN

    def _tensor_attribute(self, node: ast.Attribute, base: Value) -> Value:
        kind = ops.attribute(node.attr)
        if kind == "tensor":
            return new_tensor(node, f"`.{node.attr}` of a tensor", certain=base.certain, dtype=base.dtype if node.attr in ("T", "mT", "H", "mH", "data") else None)
        return SCALAR if kind else UNKNOWN

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        base, index = self.eval(node.value, env), self.eval(node.slice, env)
        if base.kind is Kind.TENSOR:
            whole = new_tensor(node, "an element of a tensor", certain=base.certain, dtype=base.dtype)
            return whole
        if base.kind in (Kind.TUPLE, Kind.LIST) and base.items:
            if isinstance(node.slice, ast.Slice):
                return Value(Kind.LIST, base.certain, items=base.items) if base.kind is Kind.LIST else Value(Kind.TUPLE, base.certain)
            if base.kind is Kind.LIST:
                return opaque(base.items[0], node)
            if isinstance(index.constant, int) and -len(base.items) <= index.constant < len(base.items):
                return base.items[index.constant]
            return UNKNOWN
        if base.kind is Kind.DICT and base.items:
            return opaque(base.items[0], node)
        if base.kind is Kind.MODULE and base.items:
            return base.items[0]
        return SCALAR if base.kind is Kind.SCALAR else UNKNOWN

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
        return Value(Kind.DICT, items=(items[0],) if items and all(i.kind is items[0].kind for i in items) else None)

    def _joinedstr(self, node: ast.JoinedStr, env: Env) -> Value:
        self._other(node, env)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.eval(part.value, env)
        return Value(Kind.SCALAR, cls="str")

    def _namedexpr(self, node: ast.NamedExpr, env: Env) -> Value:
        value = self.eval(node.value, env)
        env[node.target.id] = value
        return value

    def _starred(self, node: ast.Starred, env: Env) -> Value:
        self.eval(node.value, env)
        return UNKNOWN

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
        return Value(Kind.DICT, items=(self.eval(node.value, inner),))

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
                return value if result == value else replace(value if stop is False else result, constant=value.constant)
            self.narrow(operand, scope, not stop)
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
        self.narrow(node.test, then, True)
        self.narrow(node.test, other, False)
        if known is not None:
            return self.eval(node.body, then) if known else self.eval(node.orelse, other)
        return join(self.eval(node.body, then), self.eval(node.orelse, other), at(node))

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        values = [self.eval(part, env) for part in (node.left, *node.comparators)]
        read = any(v.read for v in values)
        if len(values) == 2 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and values[1].kind is Kind.NONE:
            left = values[0]
            if left.kind is Kind.NONE or (left.kind is Kind.TENSOR and not left.optional and left.certain):
                return TRUE if (left.kind is Kind.NONE) == isinstance(node.ops[0], ast.Is) else FALSE
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return BOOL
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            return replace(BOOL, read=read or (values[0].kind is Kind.TENSOR and values[1].kind is not Kind.DICT))
        tensors = [v for v in values if v.kind is Kind.TENSOR]
        if not tensors:
            return replace(BOOL, read=read) if all(v.kind is Kind.SCALAR for v in values) else UNKNOWN
        if any(v.kind in (Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.OBJECT, Kind.NDARRAY) for v in values):
            return UNKNOWN
        shape = tensors[0].shape
        for other in tensors[1:]:
            shape = terms.broadcast(shape, other.shape)
        if any(v.kind is Kind.UNKNOWN for v in values):
            shape = None
        certain = all(v.certain for v in tensors) and not any(v.kind is Kind.UNKNOWN for v in values if isinstance(node.ops[0], (ast.Eq, ast.NotEq)))
        return new_tensor(node, "a comparison with a tensor", certain=certain, fresh=True, dtype="bool", shape=shape)

    def _binop(self, node: ast.BinOp, env: Env) -> Value:
        left, right = self.eval(node.left, env), self.eval(node.right, env)
        return self.binary(node, node.op, left, right)

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        """The value of an arithmetic operation."""
        kinds = {left.kind, right.kind}
        if Kind.TENSOR not in kinds:
            if kinds == {Kind.SCALAR}:
                return Value(Kind.SCALAR, left.certain and right.certain, cls=_scalar_class(op, left, right), read=left.read or right.read)
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
            return (terms.to_float(dtype) if isinstance(op, ast.Div) else dtype), terms.broadcast(left.shape, right.shape)
        tensor, other = (left, right) if left.kind is Kind.TENSOR else (right, left)
        if other.kind is not Kind.SCALAR:
            return None, None
        return (terms.to_float(tensor.dtype) if isinstance(op, ast.Div) else with_scalar(tensor.dtype, other)), tensor.shape

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
            if base.kind is Kind.MODULE and base.cls:
                return None
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
            known = value.items if value.kind is Kind.TUPLE and value.items and len(value.items) == len(target.elts) else None
            for index, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self.bind(part.value, UNKNOWN, env)
                elif known is not None:
                    self.bind(part, known[index], env)
                else:
                    self.bind(part, self.element(value, part) if value.kind in (Kind.TENSOR, Kind.LIST) else (SCALAR if value.kind is Kind.SCALAR else UNKNOWN), env)
        elif isinstance(target, ast.Attribute):
            self.eval(target.value, env)
            if isinstance(target.value, ast.Name):
                env[f"{target.value.id}.{target.attr}"] = replace(value, fresh=False)
        elif isinstance(target, ast.Subscript):
            self.eval(target.value, env)
            self.eval(target.slice, env)

    def narrow(self, test: ast.expr, env: Env, outcome: bool) -> None:
        """What a test's outcome says of the names in it."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.narrow(test.operand, env, not outcome)
        if isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) is outcome:
                for operand in test.values:
                    self.narrow(operand, env, outcome)
            return None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            if isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None:
                self._narrow_none(test.left, env, isinstance(test.ops[0], (ast.Is, ast.Eq)) is outcome)
            elif isinstance(test.ops[0], ast.Eq) and outcome and isinstance(test.left, ast.Attribute) and test.left.attr == "dtype":
                self._narrow_dtype(test.left.value, test.comparators[0], env)
            return None
        if isinstance(test, ast.Call) and test.args and isinstance(test.args[0], ast.Name):
            self._narrow_type(test, test.args[0].id, env, outcome)
        elif isinstance(test, (ast.Name, ast.Attribute)) and outcome:
            self._narrow_none(test, env, False)
        return None

    def _narrow_none(self, target: ast.expr, env: Env, is_none: bool) -> None:
        key = target.id if isinstance(target, ast.Name) else ast.unparse(target) if isinstance(target, ast.Attribute) else ""
        value = env.get(key) or (self.values.get(id(target)) if key else None)
        if value is None:
            return
        if is_none:
            env[key] = NONE
        elif value.optional:
            env[key] = replace(value, optional=False)

    def _narrow_dtype(self, target: ast.expr, dtype: ast.expr, env: Env) -> None:
        """`x.dtype == torch.float16` holds."""
        term = terms.concrete((self.module.names.dotted(dtype) or "").removeprefix("torch."))
        if term is not None and isinstance(target, ast.Name) and target.id in env and env[target.id].kind is Kind.TENSOR:
            env[target.id] = replace(env[target.id], dtype=term)

    def _narrow_type(self, test: ast.Call, name: str, env: Env, outcome: bool) -> None:
        dotted = self.module.names.dotted(test.func)
        is_tensor = dotted == "torch.is_tensor"
        if isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2:
            is_tensor = self.module.names.dotted(test.args[1]) in ("torch.Tensor", "torch.nn.Parameter")
            if not is_tensor and outcome and name in env:
                env[name] = self.module.annotation(test.args[1], name, test) or UNKNOWN
                return
        if is_tensor and name in env:
            old = env[name]
            if outcome:
                env[name] = replace(old, optional=False) if old.kind is Kind.TENSOR else Value(Kind.TENSOR, dtype=f"d@{at(test)}:{name}", shape=f"s@{at(test)}:{name}", evidence=(f"line {test.lineno}: tested to be a tensor",))
            elif old.kind is Kind.TENSOR or old.kind is Kind.UNKNOWN:
                env[name] = NONE if old.optional else SCALAR


def with_scalar(dtype: str | None, scalar: Value) -> str | None:
    """The dtype of a tensor combined with a Python number."""
    return {"int": terms.to_number, "bool": lambda d: d, "float": terms.to_float}.get(scalar.cls or "", lambda d: None)(dtype)


def _scalar_class(op: ast.operator, left: Value, right: Value) -> str | None:
    if isinstance(op, ast.Div):
        return "float"
    if "str" in (left.cls, right.cls):
        return "str"
    if "float" in (left.cls, right.cls):
        return "float"
    return "int" if {left.cls, right.cls} <= {"int", "bool"} else None
