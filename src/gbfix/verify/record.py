"""Call the user's code once and record everything that a caller could see."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .compare import differs
from .inputs import MUTATORS, Arguments, Case, duplicate, is_floating, mutate, with_gradients
from .overlay import HERE
from .snapshot import children, rng_state, seed, snap, storage, tensors

TORCH = os.path.dirname(os.path.abspath(torch.__file__))
MODULE_ATTRIBUTES = frozenset(vars(torch.nn.Module())) - {"training"}
RestoreError = (TypeError, RuntimeError, AttributeError, ValueError)
Record = dict[str, Any]


def unwrapped(value: Any) -> Any:
    """The callable under `torch.compile`, where the user has already applied it."""
    while True:
        inner = getattr(value, "_orig_mod", None) or getattr(value, "_torchdynamo_orig_callable", None)
        if inner is None:
            return value
        value = inner


def modules_of(value: Any, depth: int = 0) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a callable reaches: itself, its owner, its partial arguments, its closure."""
    if isinstance(value, torch.nn.Module):
        yield "", value
    if depth > 2 or isinstance(value, torch.nn.Module):
        return
    reach: list[Any] = [getattr(value, "__self__", None), getattr(value, "__wrapped__", None)]
    if isinstance(value, functools.partial):
        reach += [value.func, *value.args, *value.keywords.values()]
    for cell in getattr(value, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            reach.append(cell.cell_contents)
    if not callable(value) or not hasattr(value, "__code__"):
        reach += [part for _, part in children(value) or []]
        reach += vars(value).values() if hasattr(value, "__dict__") else []
    for part in reach:
        if part is not None and part is not value:
            yield from modules_of(part, depth + 1)


@dataclass
class Target:
    """The callable under test with the state of its modules as it was built, to put back before each case."""

    function: Any
    observe: Callable[[Any], object] | None
    modules: list[tuple[str, torch.nn.Module]] = field(default_factory=list)
    parameters: dict[str, torch.nn.Parameter] = field(default_factory=dict)
    built: dict[str, torch.Tensor] = field(default_factory=dict)
    attributes: list[tuple[torch.nn.Module, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        seen: set[int] = set()
        for _, root in modules_of(self.function):
            for name, module in root.named_modules():
                if id(module) not in seen:
                    seen.add(id(module))
                    self.modules.append((name, module))
        for name, tensor in self.registered():
            self.built[name] = tensor.detach().clone()
            if isinstance(tensor, torch.nn.Parameter):
                self.parameters[name] = tensor
        for _, module in self.modules:
            kept: dict[str, Any] = {}
            for name, value in self.own(module):
                with contextlib.suppress(Exception):
                    kept[name] = copy.deepcopy(value)
            self.attributes.append((module, kept))

    def registered(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and buffers with their names, each module's own."""
        for index, (prefix, module) in enumerate(self.modules):
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    yield f"{prefix or index}.{name}", tensor

    @staticmethod
    def own(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
        """What a module holds of its own in plain Python: counters, flags, caches, unregistered tensors."""
        for name, value in vars(module).items():
            simple = isinstance(value, (bool, int, float, str, type(None), list, dict, set, torch.Tensor))
            if name not in MODULE_ATTRIBUTES and simple:
                yield name, value

    def restore(self) -> None:
        """Put the state as built back, in place wherever that is possible."""
        with torch.no_grad():
            for name, tensor in self.registered():
                old = self.built.get(name)
                with contextlib.suppress(*RestoreError):
                    if old is not None and not same_bits(tensor, old):
                        tensor.copy_(old)
        for module, kept in self.attributes:
            for name in [name for name, _ in self.own(module) if name not in kept]:
                vars(module).pop(name, None)
            for name, value in kept.items():
                if name not in vars(module) or differs(snap(vars(module)[name]), snap(value)):
                    vars(module)[name] = copy.deepcopy(value)

    def change_weights(self, mutator: str) -> None:
        """Apply a mutator to every floating parameter."""
        with torch.no_grad():
            for parameter in self.parameters.values():
                if is_floating(parameter):
                    parameter.copy_(MUTATORS[mutator](parameter))

    def state(self) -> dict[str, Any]:
        """Buffers, parameters that are not as built, and what the modules hold in plain Python."""
        now: dict[str, Any] = {}
        for name, tensor in self.registered():
            old = self.built.get(name)
            if not isinstance(tensor, torch.nn.Parameter) or old is None or not same_bits(tensor, old):
                now[name] = snap(tensor)
        for index, (prefix, module) in enumerate(self.modules):
            for name, value in self.own(module):
                now[f"{prefix or index}.{name}"] = snap(value)
        return now


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits (NaN equals itself)."""
    if one.shape != other.shape or one.dtype != other.dtype or one.layout is not torch.strided:
        return False
    if one.is_complex():
        return same_bits(torch.view_as_real(one.detach()), torch.view_as_real(other.detach()))
    one, other = one.detach().contiguous(), other.detach().contiguous()
    if one.dim() == 0:
        one, other = one.reshape(1), other.reshape(1)
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@contextlib.contextmanager
def captured(record: Record) -> Iterator[None]:
    """Collect printed text, log records and warnings of user code while the block runs."""
    out = io.StringIO()
    logged: list[list[str]] = []
    handlers = logging.Logger.callHandlers

    def call_handlers(logger: logging.Logger, entry: logging.LogRecord) -> None:
        if not entry.name.startswith("torch"):
            logged.append([entry.name, entry.levelname, entry.getMessage()])
        handlers(logger, entry)

    # Patched on the class: a logger with its own handlers and propagate=False never reaches a handler on the root.
    logging.Logger.callHandlers = call_handlers  # type: ignore
    try:
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            yield
    finally:
        logging.Logger.callHandlers = handlers  # type: ignore[method-assign]
        record["stdout"], record["log"] = out.getvalue(), logged
        own = [entry for entry in warned if not entry.filename.startswith((TORCH, HERE))]
        record["warnings"] = [[entry.category.__name__, str(entry.message)] for entry in own]


def loss(outputs: object) -> torch.Tensor | None:
    """A weighted sum of every output that has a gradient, each element with another weight."""
    total: torch.Tensor | None = None
    for tensor in tensors(outputs):
        if not tensor.requires_grad or not tensor.numel():
            continue
        values = (tensor.abs() if tensor.is_complex() else tensor).double().flatten()
        weights = torch.linspace(0.5, 1.5, values.numel(), dtype=values.dtype, device=values.device)
        part = (values * weights).sum().cpu()
        total = part if total is None else total + part
    return total


def record_call(target: Target, via: Callable[..., Any], arguments: Arguments, mode: str) -> Record:
    """Call `via` (the target, or the target compiled) once; everything seen, as plain data."""
    record: Record = {"raises": "", "text": "", "output": None, "gradients": {}}
    leaves: list[torch.Tensor] = []
    trains = mode in ("grad", "saved")
    if trains:
        arguments, leaves = with_gradients(arguments, mode)
        for parameter in target.parameters.values():
            parameter.grad = None
    args, kwargs = arguments
    addresses = [storage(tensor) for tensor in tensors(arguments)]
    seed()
    with captured(record):
        try:
            with torch.no_grad() if mode == "no_grad" else contextlib.nullcontext():
                outputs = via(*args, **kwargs)
            record["rng"] = rng_state()
            record["output"] = snap(outputs, addresses)
            if trains and (total := loss(outputs)) is not None:
                total.backward()  # type: ignore[no-untyped-call]
        except (Exception, SystemExit) as error:
            record["raises"], record["text"] = type(error).__name__, str(error)[:300]
            record["kinds"] = [cls.__name__ for cls in type(error).__mro__]
            record["compiler"] = type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))
            record["rng"] = rng_state()
    record["inputs"] = snap(arguments)
    record["state"] = target.state()
    record["observed"] = snap(target.observe(target.function)) if target.observe else None
    if trains:
        taken = {f"input tensor {index + 1}": leaf.grad for index, leaf in enumerate(leaves)}
        taken |= {f"parameter {name}": parameter.grad for name, parameter in target.parameters.items()}
        record["gradients"] = {name: None if grad is None else snap(grad)["data"] for name, grad in taken.items()}
        for parameter in target.parameters.values():
            parameter.grad = None
    return record


def record_case(
    target: Target, via: Callable[..., Any], case: Case, inputs: list[Arguments], again: Callable[[], Arguments]
) -> list[Record]:
    """The records of one case: the state as built, then its calls in a row."""
    target.restore()
    if case.mutator and case.weights:
        target.change_weights(case.mutator)
    records = []
    for call in range(case.calls):
        arguments = duplicate(inputs[case.index], again)
        if case.mutator and not case.weights:
            arguments = mutate(arguments, case.mutator)
        record = record_call(target, via, arguments, case.mode)
        record["case"] = case.label + (" (second call)" if call else "")
        record["extreme"] = case.is_extreme
        records.append(record)
    return records


def trace_lines(files: set[str], reached: dict[str, set[int]]) -> Callable[[Any, str, Any], Any]:
    """A trace function that notes which lines of some files run."""
    real: dict[str, str] = {}

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            reached[real[frame.f_code.co_filename]].add(frame.f_lineno)
        return local

    def start(frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in real:
            real[name] = os.path.realpath(name)
        if real[name] not in files:
            return None
        reached.setdefault(real[name], set()).add(frame.f_lineno)
        return local

    return start


@contextlib.contextmanager
def tracing(files: set[str], reached: dict[str, set[int]]) -> Iterator[None]:
    """Note the lines of some files that run inside the block."""
    before = sys.gettrace()
    sys.settrace(trace_lines(files, reached))
    try:
        yield
    finally:
        sys.settrace(before)
