"""The calls to make: the given inputs, and those made of them so that more arms are reached."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .overlay import LoadError
from .snapshot import tensors

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def with_one(value: float, at: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A mutator that sets one element."""

    def mutate(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel():
            return tensor
        changed = tensor.detach().clone(memory_format=torch.contiguous_format)
        changed.view(-1)[at] = value
        return changed

    return mutate


MUTATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "negated": lambda tensor: -tensor.detach(),
    "set to zero": torch.zeros_like,
    "times 1e4": lambda tensor: tensor.detach() * 1e4,
    "with one NaN": with_one(math.nan, 0),
    "with one inf": with_one(math.inf, -1),
}
MODES = {
    "plain": "",
    "no_grad": " under no_grad",
    "grad": " with gradients",
    "saved": " with gradients through saved inputs",
}
EXTREME = ("with one NaN", "with one inf")


@dataclass(frozen=True)
class Case:
    """One way to call: which input, how it is changed, in which gradient mode, how many times in a row.

    `mode` is plain (as given), no_grad, grad (inputs and parameters get gradients) or saved (as grad, and the inputs
    are needed by the backward pass, so that writing over them is an error). `weights` says that the model is changed
    instead of the input.
    """

    index: int
    mutator: str = ""
    mode: str = "plain"
    calls: int = 1
    weights: bool = False

    @property
    def label(self) -> str:
        """How a message names the case."""
        changed = f"input {self.index + 1}"
        if self.mutator:
            changed += f" with weights {self.mutator}" if self.weights else f" {self.mutator}"
        return changed + MODES[self.mode]

    @property
    def is_extreme(self) -> bool:
        """Whether the case holds a NaN or an infinity that nobody gave."""
        return self.mutator in EXTREME


def checked(value: object, name: str) -> list[Arguments]:
    """The user's inputs, or a LoadError that says what was seen instead."""
    shape = f"{name} must return a list of (args, kwargs) pairs"
    if not isinstance(value, (list, tuple)):
        raise LoadError(f"{shape}, not {type(value).__name__}")
    if not value:
        raise LoadError(f"{shape}; it returned an empty one")
    for index, item in enumerate(value):
        pair = isinstance(item, (list, tuple)) and len(item) == 2
        if not pair or not isinstance(item[0], (list, tuple)) or not isinstance(item[1], dict):
            raise LoadError(f"{shape}; item {index} is {type(item).__name__}, such as ((x, mask), {{}}) is expected")
    return [(tuple(args), dict(kwargs)) for args, kwargs in value]


def is_floating(value: object) -> bool:
    """Whether a value is a tensor of real floating dtype."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def plan(inputs: Sequence[Arguments], mutated: int, has_weights: bool) -> list[Case]:
    """The cases in order: given inputs first, then changes of the first `mutated` of them."""
    cases: list[Case] = []
    for index in range(len(inputs)):
        cases += [Case(index, calls=2), *(Case(index, mode=mode) for mode in ("no_grad", "grad", "saved"))]
    for index, arguments in enumerate(inputs[:mutated]):
        floating = any(map(is_floating, tensors(arguments)))
        if floating or has_weights:
            for mutator in MUTATORS:
                cases += [Case(index, mutator, mode, weights=not floating) for mode in ("plain", "grad")]
    return cases


def duplicate(arguments: Arguments, again: Callable[[], Arguments]) -> Arguments:
    """An independent copy of the arguments; `again` makes them anew where they cannot be copied."""
    try:
        return copy.deepcopy(arguments)
    except Exception:
        return again()


def mutate(arguments: Arguments, mutator: str) -> Arguments:
    """The arguments with every floating tensor changed."""
    change = MUTATORS[mutator]

    def changed(value: object) -> object:
        if not isinstance(value, torch.Tensor) or not is_floating(value):
            return value
        return change(value).detach().requires_grad_(value.requires_grad)

    result: Arguments = pytree.tree_map(changed, arguments)
    return result


class Saved(torch.autograd.Function):
    """Identity whose output is needed by the backward pass: an in-place write to it is an error there."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.clone()
        ctx.save_for_backward(copied)
        return copied

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        assert ctx.saved_tensors is not None
        return grads[0]


def with_gradients(arguments: Arguments, mode: str) -> tuple[Arguments, list[torch.Tensor]]:
    """The arguments made of fresh leaves that take gradients, and those leaves."""
    leaves: list[torch.Tensor] = []

    def leaf(value: object) -> object:
        if not isinstance(value, torch.Tensor) or not is_floating(value):
            return value
        leaves.append(value.detach().clone().requires_grad_())
        if mode == "saved":
            return Saved.apply(leaves[-1])  # type: ignore[no-untyped-call]
        return leaves[-1] * 1

    result: Arguments = pytree.tree_map(leaf, arguments)
    return result, leaves
