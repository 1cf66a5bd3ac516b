"""The abstract value of a call: torch operators, modules, the project's own functions, builtins."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts import ops, terms
from gbfix.facts.lambdas import hand_over
from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.facts.results import result
from gbfix.facts.values import BOOL, FALSE, INT, SCALAR, TRUE, Env, new_tensor, opaque

if TYPE_CHECKING:
    from gbfix.facts.infer import Evaluator

# Flags that are constant while Dynamo traces. Source: torch/compiler/__init__.py, torch/_dynamo/variables/torch.py, torch 2.13.
COMPILING = {
    "torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling", "torch._dynamo.is_compiling",
    "torch._dynamo.external_utils.is_compiling", "torch._utils.is_compiling",
}  # fmt: skip
NOT_COMPILING = {"torch.jit.is_scripting", "torch.jit.is_tracing", "torch.onnx.is_in_onnx_export"}
READING_BUILTINS = {"float": "float", "int": "int", "bool": "bool", "complex": "complex"}
SCALAR_BUILTINS = {
    "len", "isinstance", "issubclass", "hasattr", "callable", "id", "hash", "ord", "round", "str", "repr", "format", "divmod", "pow",
}  # fmt: skip
LOGGER_FACTORIES = ("getLogger", "get_logger", "getlogger")
CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64", "short": "int16",
    "bool": "bool", "char": "int8", "byte": "uint8",
}  # fmt: skip
CONTAINERS = {"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"}


def evaluate(self: Evaluator, node: ast.Call, env: Env) -> Value:
    """The value of a call; its arguments are evaluated first."""
    func = node.func
    dotted = self.module.names.dotted(func)
    receiver = self.eval(func.value, env) if isinstance(func, ast.Attribute) and dotted is None else None
    called = self.eval(func, env) if not isinstance(func, (ast.Name, ast.Attribute)) else UNKNOWN
    args = [self.eval(arg, env) for arg in node.args]
    keywords = {keyword.arg or "**": self.eval(keyword.value, env) for keyword in node.keywords}
    hand_over(self, node, dotted, args, receiver, env)
    if dotted is not None:
        return _dotted(self, node, dotted, args, keywords)
    if isinstance(func, ast.Name):
        return _named(self, node, func.id, args, keywords, env)
    if isinstance(func, ast.Attribute) and receiver is not None:
        return _method(self, node, func, receiver, args, keywords, env)
    return _call_module(self, node, called, args) if called.kind is Kind.MODULE else UNKNOWN


def _dotted(self: Evaluator, node: ast.Call, dotted: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    last = dotted.rpartition(".")[2]
    if dotted in COMPILING or last in ("is_torchdynamo_compiling", "is_torch_dynamo_compiling"):
        return TRUE
    if dotted in NOT_COMPILING:
        return FALSE
    if last in LOGGER_FACTORIES:
        return Value(Kind.LOGGER)
    if dotted in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return replace(new_tensor(node, "a Parameter"), parameter=True)
    if dotted in ("torch.nn.Buffer", "torch.nn.parameter.Buffer"):
        return new_tensor(node, "a buffer")
    if dotted in CONTAINERS:
        items = args[0].items if args and args[0].kind is Kind.LIST else tuple(args) or None
        return Value(Kind.MODULE, cls=dotted, items=items)
    if dotted.startswith("torch.nn.") and last[:1].isupper():
        return Value(Kind.MODULE, cls=dotted)
    if dotted in ("torch.finfo", "torch.iinfo"):
        return Value(Kind.SCALAR, cls=last)
    op = ops.function(dotted)
    if op is not None:
        return result(node, op, args, keywords, explicit_dtype(self, node))
    if dotted in ("torch.compile", "torch.compiler.disable", "torch._dynamo.disable") and args:
        return args[0]
    if dotted in ("random.uniform", "random.randint", "random.randrange"):
        # traced as graph inputs, so that a branch on one reads a tensor (GB0170, torch 2.13)
        return Value(Kind.SCALAR, cls="float" if last == "uniform" else "int", read=True)
    if dotted.startswith(("math.", "time.", "random.", "os.", "sys.")):
        return Value(
            Kind.SCALAR,
            cls="float" if dotted.startswith("math.") else None,
            read=any(a.read or (a.kind is Kind.TENSOR and dotted.startswith("math.")) for a in args),
        )
    if dotted.startswith(("numpy.", "torch.distributed.")):
        return Value(Kind.NDARRAY) if dotted.startswith("numpy.") else UNKNOWN
    if self.module.names.aliases.get(dotted.partition(".")[0]) is None and dotted in self.module.classes:
        return Value(Kind.OBJECT, cls=dotted)
    return UNKNOWN


def explicit_dtype(self: Evaluator, node: ast.Call) -> str | None:
    """The dtype term of a `dtype=` argument (or a positional dtype), None when there is none or it is not known."""
    for argument in (*(k.value for k in node.keywords if k.arg in ("dtype", None)), *node.args):
        dotted = self.module.names.dotted(argument)
        if dotted and dotted.startswith("torch.") and terms.concrete(dotted[6:]):
            return terms.concrete(dotted[6:])
        if isinstance(argument, ast.Attribute) and argument.attr == "dtype":
            base = self.values.get(id(argument.value), UNKNOWN)
            if base.kind is Kind.TENSOR:
                return base.dtype
    return None


def _named(
    self: Evaluator, node: ast.Call, name: str, args: list[Value], keywords: dict[str, Value], env: Env
) -> Value:
    if name in self.locals:
        return self.call_local(self.locals[name], node, args, keywords, bound=False)
    if name in env:
        value = env[name]
        return _call_module(self, node, value, args) if value.kind is Kind.MODULE else UNKNOWN
    if name in self.module.functions:
        return self.call_local(self.module.functions[name], node, args, keywords, bound=False)
    if name in self.module.classes:
        info = self.module.classes[name]
        return Value(Kind.MODULE if info.is_module else Kind.OBJECT, cls=name)
    if name == "super":
        return Value(Kind.OBJECT, cls="super")
    if name == "id":
        return INT
    read = any(a.kind is Kind.TENSOR or a.read for a in args)
    if name in READING_BUILTINS:
        return Value(Kind.SCALAR, cls=READING_BUILTINS[name], read=read)
    if name == "hasattr" and len(node.args) == 2 and self.module.names.dotted(node.args[0]) == "torch":
        return (
            TRUE
            if isinstance(node.args[1], ast.Constant) and node.args[1].value in ("compiler", "_dynamo", "compile")
            else BOOL
        )
    if name == "hasattr" or name == "isinstance":
        return BOOL
    if name in ("any", "all"):
        return replace(BOOL, read=read or any(a.items and a.items[0].kind is Kind.TENSOR for a in args))
    if name in SCALAR_BUILTINS:
        return INT if name == "len" else replace(SCALAR, read=read)
    if name == "range":
        return Value(Kind.SCALAR, cls="range", read=read)
    if name in ("max", "min", "sum", "abs") and args:
        return _fold(self, node, name, args)
    if name == "enumerate" and args:
        return Value(Kind.LIST, items=(Value(Kind.TUPLE, items=(INT, self.element(args[0], node))),))
    if name == "zip":
        return Value(Kind.LIST, items=(Value(Kind.TUPLE, items=tuple(self.element(a, node) for a in args)),))
    if name in ("list", "tuple", "reversed", "iter", "sorted") and args:
        element = self.element(args[0], node)
        return Value(Kind.LIST, items=(element,) if element.kind is not Kind.UNKNOWN else None)
    if name in ("print", "setattr"):
        return Value(Kind.NONE)
    return UNKNOWN


def _fold(self: Evaluator, node: ast.Call, name: str, args: list[Value]) -> Value:
    if name == "abs":
        return replace(args[0], dtype=terms.to_real(args[0].dtype), fresh=True)
    parts = args if len(args) > 1 else [self.element(args[0], node)]
    if any(a.kind is Kind.TENSOR for a in parts):
        return new_tensor(
            node, f"`{name}` of tensors", certain=all(a.kind is Kind.TENSOR or a.kind is Kind.SCALAR for a in parts)
        )
    return replace(SCALAR, read=any(a.read for a in parts)) if all(a.kind is Kind.SCALAR for a in parts) else UNKNOWN


def _method(
    self: Evaluator,
    node: ast.Call,
    func: ast.Attribute,
    receiver: Value,
    args: list[Value],
    keywords: dict[str, Value],
    env: Env,
) -> Value:
    name = func.attr
    if (
        receiver.kind is Kind.UNKNOWN
        and receiver.read
        and ops.method(name) is not None
        and name not in ("real", "imag", "conj")
    ):
        # a tensor or a number: numbers have no such method
        receiver = new_tensor(func.value, f"`.{name}()` of a tensor or number")
        self.values[id(func.value)] = receiver
    if receiver.kind is Kind.UNKNOWN and name in ("item", "tolist") and not args:
        # only tensors and arrays have these
        return Value(Kind.SCALAR, certain=False, read=True)
    if receiver.kind is Kind.TENSOR:
        return _tensor_method(self, node, func, receiver, args, keywords, env)
    if receiver.kind is Kind.LOGGER:
        return Value(Kind.LOGGER) if name == "getChild" else SCALAR
    if name in LOGGER_FACTORIES:
        return Value(Kind.LOGGER)
    owner, method = self.module.resolve(self, func, receiver)
    if method is not None:
        for key in [key for key in env if key.startswith(f"{self.self_name}.")]:
            del env[key]
        return self.call_local(method, node, args, keywords, bound=owner)
    if isinstance(func.value, ast.Name) and func.value.id == self.self_name and self.owner is not None:
        found = self.module.attribute(self.owner, name)
        if found is not None and found.kind is Kind.MODULE:
            self.values[id(func)] = found
            return _call_module(self, node, found, args)
        if found is not None and found.kind is Kind.LOGGER:
            return found
        if (
            name in ("register_buffer", "register_parameter", "add_module")
            and len(args) > 1
            and isinstance(node.args[0], ast.Constant)
        ):
            env[f"{self.self_name}.{node.args[0].value!s}"] = replace(args[1], parameter=name == "register_parameter")
        if name in ("parameters", "buffers"):
            return Value(Kind.LIST, items=(replace(new_tensor(node, "a parameter"), parameter=True),))
    if receiver.kind is Kind.MODULE:
        inner = (
            self.module.attribute(self.module.classes[receiver.cls], name)
            if receiver.cls in self.module.classes
            else None
        )
        if inner is not None and inner.kind is Kind.MODULE:
            return _call_module(self, node, inner, args)
        return (
            receiver if name in ("to", "eval", "train", "cuda", "cpu", "half", "float", "requires_grad_") else UNKNOWN
        )
    if receiver.kind is Kind.DICT and name in ("get", "pop", "values") and receiver.items:
        value = opaque(receiver.items[0], node)
        return Value(Kind.LIST, items=(value,)) if name == "values" else value
    if receiver.kind is Kind.DICT and name == "items" and receiver.items:
        return Value(Kind.LIST, items=(Value(Kind.TUPLE, items=(SCALAR, opaque(receiver.items[0], node))),))
    if receiver.kind is Kind.SCALAR:
        return replace(SCALAR, read=receiver.read)
    if name in ("dim", "numel", "is_floating_point", "is_complex"):
        return SCALAR
    return Value(Kind.NDARRAY) if receiver.kind is Kind.NDARRAY else UNKNOWN


def _tensor_method(
    self: Evaluator,
    node: ast.Call,
    func: ast.Attribute,
    receiver: Value,
    args: list[Value],
    keywords: dict[str, Value],
    env: Env,
) -> Value:
    name = func.attr
    if name in CASTS:
        return replace(receiver, dtype=CASTS[name], fresh=False, parameter=False, optional=False)
    if name == "type" and not node.args and not node.keywords:
        return Value(Kind.SCALAR, cls="str")
    if name in ("to", "type", "type_as", "view_as"):
        dtype = (
            args[0].dtype if name == "type_as" and args and args[0].kind is Kind.TENSOR else explicit_dtype(self, node)
        )
        if name == "to" and dtype is None and args and args[0].kind is Kind.TENSOR:
            dtype = args[0].dtype
        device_only = (
            name == "to"
            and bool(node.args or node.keywords)
            and all(_is_device(self, a) for a in (*node.args, *(k.value for k in node.keywords)))
        )
        shape = receiver.shape if name != "view_as" else None
        return new_tensor(
            node,
            f"`.{name}` of a tensor",
            certain=receiver.certain,
            dtype=dtype or (receiver.dtype if device_only or name == "view_as" else None),
            shape=shape,
        )
    if name in ("cpu", "cuda", "detach", "clone", "contiguous"):
        return replace(receiver, fresh=name == "clone", parameter=False, optional=False)
    op = ops.method(name)
    if op is None:
        return UNKNOWN
    if "inplace" in op.traits:
        if isinstance(func.value, ast.Name) and func.value.id in env:
            env[func.value.id] = replace(env[func.value.id], optional=False)
        return replace(receiver, optional=False)
    return result(node, op, [receiver, *args], keywords, explicit_dtype(self, node))


def _is_device(self: Evaluator, node: ast.expr) -> bool:
    return (
        (isinstance(node, ast.Attribute) and node.attr == "device")
        or (isinstance(node, ast.Name) and node.id == "device")
        or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bool)))
    )


def _call_module(self: Evaluator, node: ast.Call, module: Value, args: list[Value]) -> Value:
    cls = module.cls or ""
    if cls in self.module.classes:
        owner = self.module.classes[cls]
        method = self.module.method(owner, "forward")
        if method is not None:
            self.record(method[1], node, args, {}, bound=True)
            return opaque(self.module.summary(method[1]), node)
        return UNKNOWN
    if cls == "torch.nn.Sequential":
        return new_tensor(node, "the output of nn.Sequential", certain=bool(args) and args[0].kind is Kind.TENSOR)
    op = ops.module(cls)
    if op is None or op.returns not in ("tensor", "tensors"):
        return UNKNOWN
    if op.returns == "tensors":
        return Value(Kind.TUPLE)
    base = args[0] if args and args[0].kind is Kind.TENSOR else None
    shape = base.shape if base is not None and "pointwise" in op.traits else None
    return new_tensor(node, f"the output of {cls.rpartition('.')[2]}", shape=shape)
