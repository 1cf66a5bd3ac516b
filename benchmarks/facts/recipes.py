"""Small models with random weights, built from recipes.json: the class, its configuration, inputs and modes.

A recipe has `cls` (a class of transformers, or `module:Class` below transformers.models), `kw` (arguments of its
configuration; nested ones are dicts), `in` (arguments of forward) and `modes`; some have `dtype`. A string in `in` is a tensor:

- `f:2,3,8` normal, `u:2,4` uniform in [0, 1), `b:2,4` true, `1:2,16` and `z:2,16` ones and zeros (int64)
- `i:LOW:HIGH:2,16` integers below HIGH, `t:[[1, 2]]` literal
- `p:COUNT:ID:2,16` integers with COUNT copies of ID from position 1 on
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

Recipe = dict[str, Any]


def load() -> dict[str, Recipe]:
    """Every recipe by its name."""
    text = Path(__file__).with_name("recipes.json").read_text(encoding="utf-8")
    return {recipe["name"]: recipe for recipe in json.loads(text)}


def build(recipe: Recipe, seed: int = 0) -> tuple[Any, dict[str, Any]]:
    """The model in eval mode and the keyword arguments of its forward, seeded."""
    import torch

    torch.manual_seed(seed)
    cls = _class(recipe["cls"])
    model = cls(cls.config_class(**recipe["kw"])).eval()
    generator = torch.Generator().manual_seed(seed)
    inputs = {
        name: _tensor(value, generator) if isinstance(value, str) else value for name, value in recipe["in"].items()
    }
    if "dtype" in recipe:
        dtype = getattr(torch, recipe["dtype"])
        model = model.to(dtype)
        inputs = {
            name: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
            for name, value in inputs.items()
        }
    return model, inputs


def _class(name: str) -> Any:
    module, _, cls = name.rpartition(":")
    return getattr(importlib.import_module(f"transformers.models.{module}" if module else "transformers"), cls)


def _tensor(spec: str, generator: Any) -> Any:
    import torch

    kind, *numbers, shape = spec.split(":")
    if kind == "t":
        return torch.tensor(json.loads(shape))
    size = [int(number) for number in shape.split(",")]
    if kind == "f":
        return torch.randn(size, generator=generator)
    if kind == "u":
        return torch.rand(size, generator=generator)
    if kind == "i":
        return torch.randint(*map(int, numbers), size, generator=generator)
    if kind == "p":
        ids = torch.randint(5, 100, size, generator=generator)
        ids[:, 1 : 1 + int(numbers[0])] = int(numbers[1])
        return ids
    return torch.full(size, kind != "z", dtype=torch.bool if kind == "b" else torch.long)
