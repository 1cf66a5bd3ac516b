"""The op table against the installed torch: names, return kinds, and every claim, measured on small tensors."""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gbfix.facts import ops
from gbfix.facts.lattice import Op

torch = pytest.importorskip("torch")
from op_calls import (  # noqa: E402 (needs torch)
    DTYPES,
    EDGES,
    READS,
    SHAPES,
    UNCALLED,
    UNSAFE_TO_CALL,
    accepted,
    arguments,
    attempt,
    bare,
    breaks,
    operators,
    resolve,
    tensors,
    values,
)
from op_recipes import RECIPES  # noqa: E402

pytestmark = pytest.mark.skipif(
    torch.__version__.partition("+")[0] != ops.table()["torch"], reason="the table is of another torch"
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_name_exists_in_torch() -> None:
    assert [op.name for op in operators() if not callable(resolve(op.name))] == []
    assert [name for name in ops.table()["modules"] if not issubclass(resolve(name), torch.nn.Module)] == []
    assert [name for name in ops.table()["attributes"] if not hasattr(torch.Tensor, name)] == []


def test_the_table_is_wide() -> None:
    known = [op for op in operators() if op.returns != "other"]
    assert len(known) > 1900


def test_lookups() -> None:
    assert ops.function("torch.no_such_thing") is None
    assert ops.function("torch.Tensor.add") == ops.method("add")
    assert ops.function("torch.nn.functional.relu").traits == {"pure", "pointwise"}
    assert ops.method("item").breaks
    assert ops.attribute("shape") == "size"
    assert ops.module("torch.nn.LSTM").returns == "tensors"


@pytest.mark.parametrize(
    ("name", "args", "keywords", "expected"),
    [
        ("torch.sum", 1, (), True),
        ("torch.sum", 2, (), False),
        ("torch.sum", 1, ("dim",), False),
        ("torch.sum", 1, ("dtype",), True),
        ("Tensor.max", 1, (), True),
        ("torch.max", 2, (), False),
        ("torch.nn.functional.mse_loss", 2, (), True),
        ("torch.nn.functional.mse_loss", 2, ("reduction",), False),
        ("torch.add", 2, (), False),
        ("Tensor.norm", 1, (), True),
    ],
)
def test_gives_scalar(name: str, args: int, keywords: tuple[str, ...], expected: bool) -> None:
    op = ops.method(name[7:]) if name.startswith("Tensor.") else ops.function(name)
    assert ops.gives_scalar(op, args, keywords) is expected


@pytest.mark.parametrize(
    ("name", "args", "keywords", "expected"),
    [
        ("torch.max", 1, (), "tensor"),
        ("torch.max", 1, ("dim",), "tensors"),
        ("torch.max", 2, (), "other"),
        ("torch.median", 2, (), "tensors"),
        ("torch.where", 1, (), "tensors"),
        ("torch.where", 3, (), "tensor"),
        ("torch.unique", 1, ("return_inverse",), "other"),
        ("torch.add", 2, (), "tensor"),
    ],
)
def test_returned(name: str, args: int, keywords: tuple[str, ...], expected: str) -> None:
    assert ops.returned(ops.function(name), args, keywords) == expected


KINDS = {
    "tensor": torch.Tensor,
    "tensors": (tuple, list),
    "bool": bool,
    "int": int,
    "float": float,
    "none": type(None),
    "size": torch.Size,
}
KINDS |= {"dtype": torch.dtype, "device": torch.device}


@pytest.mark.runtime
def test_return_kinds() -> None:
    wrong, called = [], 0
    for op in operators():
        if op.returns in KINDS and not op.name.rpartition(".")[2].startswith("_") and bare(op) not in UNSAFE_TO_CALL:
            for args, result in accepted(op):
                called += 1
                expected = ops.returned(op, len(args))
                if expected != "other" and (
                    not isinstance(result, KINDS[expected]) or (expected == "int" and isinstance(result, bool))
                ):
                    wrong.append((op.name, expected, type(result).__name__, len(args)))
    assert sorted(set(wrong)) == []
    assert called > 10_000


@pytest.mark.runtime
def test_dtype_claims() -> None:
    wrong, silent = [], []
    for op in operators():
        if op.dtype is None or op.returns != "tensor" or bare(op) in UNCALLED:
            continue
        seen = 0
        for args, result in accepted(op):
            if isinstance(result, torch.Tensor) and tensors(args):
                seen += 1
                expected = expected_dtype(op, args)
                if result.dtype is not expected:
                    wrong.append((op.name, str(tensors(args)[0].dtype), str(result.dtype)))
        if not seen and op.dtype != "int64":
            silent.append(op.name)
    assert sorted(set(wrong)) == []
    assert silent == []


def expected_dtype(op: Op, args: tuple[Any, ...]) -> Any:
    """What the dtype claim says for these arguments."""
    parts = tensors(args)
    if op.dtype in ("bool", "int64"):
        return getattr(torch, op.dtype)
    if op.dtype == "same":
        return parts[0].dtype
    dtype = parts[0]
    promoted = parts[0].dtype
    for other in args[1:]:
        if isinstance(other, (torch.Tensor, int, float)):
            promoted = (
                torch.result_type(dtype, other)
                if dtype is parts[0] and len(args) == 2
                else torch.promote_types(promoted, other.dtype)
            )
    return promoted if op.dtype == "promote" or promoted.is_floating_point else torch.get_default_dtype()


@pytest.mark.runtime
def test_promotion_of_mixed_operands() -> None:
    wrong = []
    for op in operators():
        if (
            op.dtype not in ("promote", "float")
            or op.shape != "broadcast"
            or "inplace" in op.traits
            or bare(op) == "where"
        ):
            continue
        for a, b, sa, sb in itertools.product(DTYPES, DTYPES, ((3,), ()), ((3,), ())):
            x, y = values(a, sa), values(b, sb)
            for args in ((x, y), (x, 2), (x, 0.5)):
                result = attempt(op, args)
                if isinstance(result, torch.Tensor) and bare(op) != "addcmul":
                    reflected = op.name.rpartition(".")[2].startswith("__r")
                    expected = torch.result_type(*(args[::-1] if reflected else args))
                    if op.dtype == "float" and not expected.is_floating_point:
                        expected = torch.get_default_dtype()
                    if result.dtype is not expected:
                        wrong.append((op.name, str(a), sa, str(b) if args[1] is y else args[1], sb, str(result.dtype)))
    assert wrong[:20] == []


@pytest.mark.runtime
def test_shape_claims() -> None:
    wrong, silent = [], []
    for op in operators():
        if op.shape is None or op.returns != "tensor" or bare(op) in UNCALLED:
            continue
        seen = 0
        for args, result in accepted(op):
            if not isinstance(result, torch.Tensor) or not tensors(args):
                continue
            if op.shape == "scalar":
                expected = torch.Size(()) if ops.gives_scalar(op, len(args)) else result.shape
                seen += ops.gives_scalar(op, len(args))
            elif op.shape == "same":
                expected, seen = tensors(args)[0].shape, seen + 1
            else:
                expected, seen = torch.broadcast_shapes(*(t.shape for t in tensors(args))), seen + 1
            if result.shape != expected:
                wrong.append((op.name, [tuple(t.shape) for t in tensors(args)], tuple(result.shape)))
        if not seen:
            silent.append(op.name)
    assert wrong[:20] == []
    assert silent == []


@pytest.mark.runtime
def test_pointwise_operators_broadcast() -> None:
    wrong = []
    for op in operators():
        if op.shape == "broadcast" and "inplace" not in op.traits:
            row, column = torch.full((1, 4), 0.5), torch.full((3, 1), 0.5)
            for args in ((row, column), (row, column, column), (row > 0, column, column), (row, column > 0, 2)):
                result = attempt(op, args)
                if isinstance(result, torch.Tensor) and len(tensors(args)) > 1 and result.shape != (3, 4):
                    wrong.append((op.name, tuple(result.shape)))
    assert wrong == []


@pytest.mark.runtime
def test_pure_operators_touch_nothing_and_do_not_raise_on_data() -> None:
    wrong, called = [], 0
    for op in operators():
        if "pure" not in op.traits or bare(op) in UNCALLED | UNSAFE_TO_CALL:
            continue
        for dtype, shape in itertools.product(DTYPES, SHAPES):
            good = [not isinstance(attempt(op, args), Exception) for args in arguments(op, values(dtype, shape))]
            for usual, args in zip(good, arguments(op, values(dtype, shape, bad=True)), strict=False):
                if not usual:
                    continue
                called += 1
                before, state = [t.clone() for t in tensors(args)], torch.get_rng_state()
                result = attempt(op, args)
                if isinstance(result, Exception):
                    wrong.append((op.name, str(dtype), shape, str(result)[:60]))
                if not torch.equal(state, torch.get_rng_state()):
                    wrong.append((op.name, "draws random numbers"))
                if any(
                    not torch.equal(a, b) and not same_bits(a, b) for a, b in zip(tensors(args), before, strict=True)
                ):
                    wrong.append((op.name, "changes its input"))
    assert wrong[:20] == []
    assert called > 5000


def same_bits(a: Any, b: Any) -> bool:
    """Whether two tensors are equal with NaN equal to NaN."""
    return (
        bool(torch.equal(torch.nan_to_num(a, nan=123.0), torch.nan_to_num(b, nan=123.0)))
        if a.is_floating_point()
        else bool(torch.equal(a, b))
    )


@pytest.mark.runtime
def test_no_alias_without_view() -> None:
    wrong = []
    for op in operators():
        if op.returns == "tensor" and "pure" in op.traits and "view" not in op.traits and bare(op) not in UNCALLED:
            for shape in SHAPES:
                for args in arguments(op, values(torch.float32, shape)):
                    result = attempt(op, args)
                    if isinstance(result, torch.Tensor) and result.numel() and result.layout is torch.strided:
                        storages = {t.untyped_storage().data_ptr() for t in tensors(args)}
                        if result.untyped_storage().data_ptr() in storages:
                            wrong.append((op.name, shape))
    assert wrong == []


@pytest.mark.runtime
def test_derivatives_are_finite_without_nan_grad() -> None:
    wrong = []
    for op in operators():
        if (
            not {"pure", "pointwise"} <= op.traits
            or "nan_grad" in op.traits
            or op.returns != "tensor"
            or bare(op) in UNCALLED
        ):
            continue
        for count in (1, 2, 3):
            parts = [torch.tensor(EDGES, dtype=torch.float64, requires_grad=True) for _ in range(count)]
            args = arguments(op, parts[0])[-1] if bare(op) in RECIPES and count == 1 else tuple(parts)
            result = attempt(op, args)
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.sum().backward()
                if any(p.grad is not None and not torch.isfinite(p.grad).all() for p in parts):
                    wrong.append((op.name, count))
    assert wrong == []


@pytest.mark.runtime
def test_sync_and_untraced_calls_break_and_static_ones_do_not() -> None:
    wrong, called = [], 0
    for op in operators():
        if not op.traits & {"sync", "untraced", "static"} or bare(op) in UNSAFE_TO_CALL:
            continue
        x = values(torch.float32, (3,))
        tries = [READS[bare(op)](x)] if bare(op) in READS else arguments(op, x) or [()]
        for args in tries:
            if not isinstance(attempt(op, args), Exception):
                called += 1
                if breaks(op, args) is ("static" in op.traits):
                    wrong.append((op.name, sorted(op.traits)))
    assert wrong == []
    assert called > 50


@pytest.mark.runtime
def test_a_sample_of_pure_operators_does_not_break() -> None:
    wrong = []
    for op in [op for op in operators() if op.traits >= {"pure"} and tensors_of(op)][::6]:
        args = arguments(op, values(torch.float32, (2, 3)))
        if args and not isinstance(attempt(op, args[0]), Exception) and breaks(op, args[0]):
            wrong.append(op.name)
    assert wrong == []


def tensors_of(op: Op) -> bool:
    """Whether the operator computes on tensors, so that a size given as a tensor is not what breaks."""
    return (
        bool(op.traits & {"pointwise", "reduction", "nan_grad", "heavy"}) and bare(op) not in UNSAFE_TO_CALL | UNCALLED
    )


MODULE_ARGS = {
    "LayerNorm": (3,),
    "RMSNorm": (3,),
    "GroupNorm": (1, 2),
    "LocalResponseNorm": (2,),
    "Threshold": (0.1, 2.0),
    "Softmax2d": (),
}


@pytest.mark.runtime
def test_modules_keep_shape_and_dtype_as_claimed() -> None:
    wrong, silent = [], []
    for op in [ops.module(name) for name in ops.table()["modules"]]:
        if op is None or op.shape != "same":
            continue
        module = resolve(op.name)(*MODULE_ARGS.get(bare(op), ())).train()
        results = []
        for x in (torch.rand(2, 3), torch.rand(1, 2, 3), torch.rand(1, 2, 3, 3), torch.rand(1, 2, 3, 3, 3)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                module, inputs, state = module.to(dtype), x.to(dtype), torch.get_rng_state()
                try:
                    result = module(inputs)
                except (RuntimeError, ValueError):
                    continue
                drew = not torch.equal(state, torch.get_rng_state())
                results.append(
                    result.shape == inputs.shape
                    and (op.dtype is None or result.dtype is dtype)
                    and drew <= ("rng" in op.traits)
                )
        (wrong if not all(results) else silent if not results else []).append(op.name)
    assert wrong == []
    assert silent == []


@pytest.mark.runtime
def test_attributes_give_their_kind() -> None:
    x, wrong = torch.ones(2, 2, requires_grad=True), []
    x.sum().backward()
    for name, kind in ops.table()["attributes"].items():
        try:
            value = getattr(x, name)
        except RuntimeError:
            continue
        if kind in KINDS and value is not None and not isinstance(value, KINDS[kind]):
            wrong.append((name, kind, type(value).__name__))
    assert wrong == []


@pytest.mark.runtime
def test_the_generator_gives_the_same_file_again() -> None:
    root = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location("make_torch_ops", root / "tools" / "make_torch_ops.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.text() == generator.TABLE.read_text(encoding="utf-8")
