"""Calling torch's operators on small tensors: what tests of the op table share."""

from __future__ import annotations

import importlib
import itertools
from functools import cache
from typing import Any

import pytest

from gbfix.facts import ops
from gbfix.facts.lattice import Op

torch = pytest.importorskip("torch")
from op_recipes import RECIPES  # noqa: E402 (needs torch)

FLOATS = (torch.float16, torch.float32, torch.float64, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.bool)
SHAPES = ((2, 3), (3,), ())
GOOD, BAD = [0.25, 0.5, 0.75, 0.3, 0.6, 0.9], [float("nan"), float("inf"), float("-inf"), 0.0, -1.5, -0.0]
GOOD_INTS, BAD_INTS = [1, 2, 3, 1, 2, 3], [0, -1, 2, 0, -5, 7]
EDGES = [0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e4, -1e4]
# What cannot be called here: no such device; the name is only an error or a deprecation; it needs files or processes.
UNCALLED = {"cuda", "xpu", "pin_memory"}


def values(dtype: Any, shape: tuple[int, ...], bad: bool = False) -> Any:
    """A tensor of this dtype and shape with ordinary or with hostile values."""
    source = (BAD if bad else GOOD) if dtype in FLOATS else (BAD_INTS if bad else GOOD_INTS)
    size = torch.Size(shape).numel()
    return torch.tensor(source[:size], dtype=torch.float64 if dtype in FLOATS else torch.int64).reshape(shape).to(dtype)


def resolve(name: str) -> Any:
    """The object that a table's name means."""
    parts = name.split(".")
    value: Any = torch.Tensor if parts[0] == "Tensor" else torch
    for end, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            importlib.import_module(".".join(parts[:end]))
        value = getattr(value, part)
    return value


@cache
def operators() -> tuple[Op, ...]:
    """Every function and method of the table."""
    found = [ops.function(name) for name in ops.table()["functions"]] + [
        ops.method(name) for name in ops.table()["methods"]
    ]
    return tuple(op for op in found if op is not None)


def bare(op: Op) -> str:
    """The operator's last name, without the underscore of an in-place one."""
    name = op.name.rpartition(".")[2]
    return name if name.startswith("_") else name.rstrip("_")


def copies(x: Any, count: int) -> list[tuple[Any, ...]]:
    """Argument lists of this many tensors."""
    return [tuple(x.clone() for _ in range(count))]


@cache
def arity(op: Op) -> int:
    """The fewest tensors that the operator accepts as its arguments, 0 when it takes none of the tries."""
    for count in (1, 2, 3):
        for dtype, shape in itertools.product(DTYPES, SHAPES):
            if not isinstance(attempt(op, copies(values(dtype, shape), count)[0]), Exception):
                return count
    return 0


def arguments(op: Op, x: Any) -> list[tuple[Any, ...]]:
    """Argument lists to try: the recipe, or as many copies as the operator needs."""
    recipe = RECIPES.get(op.name) or RECIPES.get(f"{op.name.rpartition('.')[0]}.{bare(op)}") or RECIPES.get(bare(op))
    if recipe is None:
        return copies(x, arity(op)) if arity(op) else []
    try:
        return [tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in recipe(x))]
    except (RuntimeError, IndexError, ValueError):
        return []


def attempt(op: Op, args: tuple[Any, ...]) -> Any:
    """The result, or the exception as a value."""
    try:
        result = resolve(op.name)(*args)
    except Exception as error:
        return error
    return TypeError("not implemented") if result is NotImplemented else result


@cache
def accepted(op: Op) -> tuple[tuple[tuple[Any, ...], Any], ...]:
    """The calls that the operator accepts over all dtypes and shapes: arguments as they were, and the result."""
    found = []
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        for args in arguments(op, values(dtype, shape)):
            before = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
            result = attempt(op, args)
            if not isinstance(result, Exception):
                found.append((before, result))
    return tuple(found)


def tensors(args: tuple[Any, ...]) -> list[Any]:
    """The tensors among the arguments."""
    return [a for a in args if isinstance(a, torch.Tensor)]


# Names that would change this process, or crash it on a plain tensor.
UNSAFE_TO_CALL = {
    "backward",
    "fork",
    "from_file",
    "init_num_threads",
    "load",
    "manual_seed",
    "save",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "share_memory",
    "while_loop",
    "cond",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "use_deterministic_algorithms",
    "vmap",
    "compile",
    "resize",
    "set",
    "slice_inverse",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "synchronize",
    "record_stream",
    "get_rank",
    "get_world_size",
    "current_device",
    "checkpoint",
    "memory_allocated",
    "max_memory_allocated",
    "quantized_lstm_cell",
    "quantized_gru_cell",
    "set_autocast_enabled",
}


# Values for the calls that must break: the first is what the operator reads.
READS = {
    "__contains__": lambda x: (x, 1.0),
    "allclose": lambda x: (x, x),
    "can_cast": lambda x: (torch.float32, torch.int32),
}
READS |= {
    "finfo": lambda x: (torch.float32,),
    "iinfo": lambda x: (torch.int32,),
    "get_autocast_dtype": lambda x: ("cpu",),
}
READS |= {"promote_types": lambda x: (torch.int32, torch.int64), "broadcast_shapes": lambda x: ((2, 3), (3,))}
READS |= {
    "is_nonzero": lambda x: (x[0],),
    "item": lambda x: (x[0],),
    "__bool__": lambda x: (x[0],),
    "__int__": lambda x: (x[0],),
}
READS |= {
    "__float__": lambda x: (x[0],),
    "__complex__": lambda x: (x[0],),
    "__index__": lambda x: (x[0].to(torch.int64),),
}


def breaks(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether the call breaks the graph in default mode (`error_on_graph_break` is the exact oracle on torch 2.13)."""
    function = resolve(op.name)

    def run(x: Any, *inputs: Any) -> Any:
        inputs = tuple(i + 0 if isinstance(i, torch.Tensor) and i.dtype is not torch.bool else i for i in inputs)
        return function(*inputs), x * 2

    torch._dynamo.reset()
    try:
        with torch._dynamo.error_on_graph_break(True):
            torch.compile(run, backend="eager")(torch.ones(2), *args)
    except torch._dynamo.exc.Unsupported:
        return True
    return False
