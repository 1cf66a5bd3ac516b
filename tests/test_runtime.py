"""Fixtures run: what `after.py` computes is what `before.py` computes, with fewer graph breaks."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gbfix_codemods
from gbfix import testing

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.runtime

REWRITTEN = [case for case in testing.cases(Path(__file__).parent / "fixtures", gbfix_codemods) if not case.keeps]


class BreakLog(logging.Handler):
    """Collects Dynamo's own log of graph breaks while it is attached."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(scope="module")
def log() -> Iterator[BreakLog]:
    """The break log, attached after Dynamo made its loggers, and proven to see a known break."""
    import torch._dynamo

    log = BreakLog()
    torch._logging.set_logs(graph_breaks=True)
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if "__graph_breaks" in name]
    kept = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [log], False
    with torch.no_grad():
        torch.compile(_canary, backend="eager")(torch.ones(1))
    assert log.lines, "the graph-break log is silent on a known break"
    yield log
    for logger, handlers, propagate in kept:
        logger.handlers, logger.propagate = handlers, propagate
    torch._logging.set_logs()


def _canary(x: Any) -> Any:
    torch._dynamo.graph_break()
    return x + 1


def load(path: Path) -> ModuleType:
    """The fixture as a fresh module."""
    name = f"fixture_{path.parent.parent.name}_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def made(module: ModuleType) -> tuple[Callable[..., Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The fixture's callable and inputs: `forward` and `example_inputs`, or `build` and `make_inputs` with keywords."""
    torch.manual_seed(0)
    if hasattr(module, "build"):
        return module.build(), module.make_inputs()
    return module.forward, [(args, {}) for args in module.example_inputs()]


def call(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """What one call leaves behind: result or exception type, mutated arguments, gradients and text."""
    args, kwargs = copy.deepcopy((args, kwargs))
    torch.manual_seed(0)
    random.seed(0)
    text = io.StringIO()
    seen: dict[str, Any] = {}
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seen["result"] = function(*args, **kwargs)
            losses = [leaf.sum() for leaf in tensors(seen["result"]) if leaf.requires_grad]
            if losses:
                sum(losses).backward()
        except Exception as error:
            seen["raised"] = type(error)
    gradients = [leaf.grad for leaf in tensors((args, kwargs))]
    return {**seen, "arguments": (args, kwargs), "gradients": gradients, "text": text.getvalue()}


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def difference(a: Any, b: Any, path: str = "", *, bits: bool = True) -> str:
    """Where two outcomes differ, bit for bit (or in value, one NaN like another); empty when they do not."""
    if type(a) is not type(b):
        return f"{path}: {a!r} and {b!r}"
    if isinstance(a, torch.Tensor):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{path}: {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
        one, other = (tensor.detach().contiguous().reshape(-1) for tensor in (a, b))
        same = one.view(torch.uint8).equal(other.view(torch.uint8))
        if not bits:
            same = bool(((one == other) | ((one != one) & (other != other))).all())
        return "" if same else f"{path}: {a} and {b}"
    if isinstance(a, (tuple, list)):
        if len(a) != len(b):
            return f"{path}: {len(a)} and {len(b)} items"
        found = (difference(*pair, f"{path}[{i}]", bits=bits) for i, pair in enumerate(zip(a, b, strict=True)))
        return next(filter(None, found), "")
    if isinstance(a, dict):
        return difference(list(a.items()), list(b.items()), path, bits=bits)
    return "" if a == b or hasattr(a, "__dict__") else f"{path}: {a!r} and {b!r}"


def compiled(path: Path, log: BreakLog) -> tuple[int, list[dict[str, Any]]]:
    """The breaks that Dynamo logs on all inputs, and the outcomes."""
    function, inputs = made(load(path))
    torch._dynamo.reset()
    log.lines.clear()
    fast = torch.compile(function, backend="eager")
    outcomes = [call(fast, *given) for given in inputs]
    return len(log.lines), outcomes


@pytest.mark.parametrize("case", REWRITTEN, ids=lambda case: case.id)
def test_runtime(case: testing.Case, log: BreakLog) -> None:
    before, after = case.folder / "before.py", case.folder / "after.py"
    outcomes = []
    for path in (before, after):
        function, inputs = made(load(path))
        outcomes.append([call(function, *given) for given in inputs])
    assert not (found := difference(*outcomes)), f"eager results differ at {found}"
    broken, _ = compiled(before, log)
    left, seen = compiled(after, log)
    for run, wanted in zip(seen, outcomes[1], strict=True):
        for part in ("result", "raised", "arguments", "gradients"):
            found = difference(wanted.get(part), run.get(part), bits=False)
            assert not found, f"compiled results differ at {part}{found}"
    assert left < broken, f"{left} graph breaks after the rewrite, {broken} before"
