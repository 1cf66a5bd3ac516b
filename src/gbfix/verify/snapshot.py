"""Turn any value into plain data with tensors that can be saved, compared and blamed."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

DEEP = 12
PLAIN = (bool, int, str, type(None))


def name_of(value: object) -> str:
    """The qualified name of a value's type."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def children(value: object) -> list[tuple[str, Any]] | None:
    """The named parts of a container or plain object; None for a value without parts."""
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]" if isinstance(key, PLAIN) else f"[{name_of(key)}]", item) for key, item in value.items()]
    if isinstance(value, (torch.nn.Module, type)) or callable(value):
        return None
    if dataclasses.is_dataclass(value):
        return [(f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if hasattr(value, "__dict__") and not type(value).__module__.startswith(("torch.", "numpy")):
        return [(f".{key}", item) for key, item in vars(value).items()]
    return None


def tensors(value: object, seen: set[int] | None = None, depth: int = 0) -> Iterator[torch.Tensor]:
    """Every tensor inside a value, in a fixed order, each one once."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth > DEEP:
        return
    if isinstance(value, torch.Tensor):
        seen.add(id(value))
        yield value
        return
    parts = children(value)
    if parts:
        seen.add(id(value))
        for _, part in parts:
            yield from tensors(part, seen, depth + 1)


def storage(tensor: torch.Tensor) -> int:
    """The address of a tensor's memory; 0 where it has none."""
    try:
        return tensor.untyped_storage().data_ptr() if tensor.numel() else 0
    except (RuntimeError, NotImplementedError):
        return 0


def tensor_parts(value: torch.Tensor) -> torch.Tensor:
    """A dense copy on the CPU of what a tensor holds."""
    plain = value.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return plain.clone().cpu()


def snap(value: object, inputs: list[int] | None = None, depth: int = 0) -> Any:
    """Plain data for a value; `inputs` are the storages of the arguments, to see which of them an output shares."""
    if isinstance(value, torch.Tensor):
        address = storage(value)
        return {
            "kind": "tensor",
            "type": type(value).__qualname__,
            "requires_grad": bool(value.requires_grad),
            "stride": list(value.stride()) if value.layout is torch.strided else [],
            "shares": [index for index, other in enumerate(inputs or []) if address and other == address],
            "data": tensor_parts(value),
        }
    if isinstance(value, float):
        return {"kind": "float", "type": name_of(value), "data": float(value)}
    if isinstance(value, (*PLAIN, complex)):
        return {"kind": "plain", "type": name_of(value), "data": repr(value)}
    if depth > DEEP:
        return {"kind": "opaque", "type": name_of(value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return snap_numpy(value)
    if isinstance(value, (set, frozenset)):
        return {"kind": "plain", "type": name_of(value), "data": repr(sorted(map(repr, value)))}
    parts = children(value)
    if parts is None:
        return {"kind": "opaque", "type": name_of(value)}
    items = [[name, snap(part, inputs, depth + 1)] for name, part in parts]
    return {"kind": "parts", "type": name_of(value), "items": items}


def snap_numpy(value: Any) -> Any:
    """An array or NumPy scalar as a tensor where torch knows its dtype, else as text."""
    head = {"type": f"{name_of(value)}[{value.dtype}]"}
    try:
        return {"kind": "array", **head, "data": torch.as_tensor(value.copy())}
    except (TypeError, ValueError):
        return {"kind": "plain", **head, "data": repr(value)}


def seed() -> None:
    """Seed every generator that a model may draw from."""
    torch.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)


def rng_state() -> dict[str, str]:
    """A digest of each generator's state."""
    states = {"torch": torch.get_rng_state().numpy().tobytes(), "random": repr(random.getstate()).encode()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, keys, position, *_ = numpy.random.get_state()
        states["numpy"] = keys.tobytes() + str(position).encode()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = b"".join(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
    return {name: hashlib.sha256(state).hexdigest() for name, state in states.items()}
