"""Compare records: bit for bit between two sources run eagerly, within a tolerance once compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

Record = dict[str, Any]
Difference = dict[str, Any]
TOLERANCE = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 2e-3,
}
LOOSE = 2e-2


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Real values of a tensor in one dimension, in double precision where it is floating."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return (tensor.double() if tensor.is_floating_point() else tensor).reshape(-1)


def differing_values(one: torch.Tensor, other: torch.Tensor, tolerance: float | None) -> str:
    """What differs between the values of two tensors of equal dtype and shape; empty when nothing does."""
    a, b = flat(one), flat(other)
    if not a.is_floating_point():
        return "" if torch.equal(a, b) else f"{int((a != b).sum())} of {a.numel()} elements"
    nan = a.isnan() != b.isnan()
    if nan.any():
        return f"NaN in {int(b.isnan().sum())} elements, before in {int(a.isnan().sum())}"
    gap = torch.where(a == b, torch.zeros_like(a), (a - b).abs()).nan_to_num(nan=0.0, posinf=math.inf)
    largest = float(gap.max()) if gap.numel() else 0.0
    if tolerance is None:
        if largest > 0:
            return f"max abs {largest:.1g}"
        return "" if torch.equal(a.signbit() | a.isnan(), b.signbit() | b.isnan()) else "sign of zero"
    finite = a[a.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    limit = tolerance * max(scale, 0.1)
    return f"max abs {largest:.1g}, tolerance {limit:.0g}" if largest > limit else ""


def tolerance_of(tensor: torch.Tensor, loosen: float | None) -> float | None:
    """The tolerance for a tensor's dtype, `loosen` times; None asks for equal bits."""
    return None if loosen is None else TOLERANCE.get(tensor.dtype, LOOSE) * loosen


def short(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def diff_tensor(one: Any, other: Any, loosen: float | None) -> Iterator[tuple[str, str, bool]]:
    """The differences of two tensor snapshots, as (aspect, what was seen, hard)."""
    a, b = one["data"], other["data"]
    if a.dtype != b.dtype:
        yield "dtype", f"{short(a.dtype)} becomes {short(b.dtype)}", True
    if a.shape != b.shape:
        yield "shape", f"{tuple(a.shape)} becomes {tuple(b.shape)}", True
    if one["shares"] != other["shares"]:
        yield "alias", "memory shared with the inputs changes", loosen is None
    if one["type"] != other["type"]:
        yield "class", f"{one['type']} becomes {other['type']}", False
    if one["requires_grad"] != other["requires_grad"]:
        yield "requires_grad", f"{one['requires_grad']} becomes {other['requires_grad']}", False
    if loosen is None and a.shape == b.shape and one["stride"] != other["stride"]:
        yield "stride", f"{tuple(one['stride'])} becomes {tuple(other['stride'])}", False
    if a.dtype == b.dtype and a.shape == b.shape:
        seen = differing_values(a, b, tolerance_of(a, loosen))
        if seen:
            yield "value", seen, True


def diff(one: Any, other: Any, loosen: float | None) -> Iterator[tuple[str, str, bool]]:
    """The differences of two snapshots, as (aspect, what was seen, hard); `loosen` None asks for equal bits."""
    if one is None or other is None:
        if one is not other:
            yield "structure", "present on one side only", True
        return
    if one["kind"] != other["kind"] or (one["kind"] != "tensor" and one["type"] != other["type"]):
        yield "type", f"{one['type']} becomes {other['type']}", True
        return
    kind = one["kind"]
    if kind == "tensor":
        yield from diff_tensor(one, other, loosen)
    elif kind == "array":
        if one["data"].shape != other["data"].shape:
            yield "shape", "array shapes differ", True
        elif seen := differing_values(one["data"], other["data"], tolerance_of(one["data"], loosen)):
            yield "value", seen, True
    elif kind == "float":
        a, b = (torch.tensor(side["data"], dtype=torch.float64) for side in (one, other))
        # A Python float is often read from a float32 tensor: held to that precision once compiled.
        if seen := differing_values(a, b, None if loosen is None else TOLERANCE[torch.float32] * loosen):
            yield "value", seen, True
    elif kind == "plain":
        if one["data"] != other["data"]:
            yield "value", f"{one['data'][:40]} becomes {other['data'][:40]}", True
    elif kind == "parts":
        names = [[name for name, _ in side["items"]] for side in (one, other)]
        if names[0] != names[1]:
            yield "structure", f"{len(names[0])} parts become {len(names[1])}, or their names differ", True
            return
        for (_, a), (_, b) in zip(one["items"], other["items"], strict=True):
            yield from diff(a, b, loosen)


def differs(one: Any, other: Any) -> bool:
    """Whether two snapshots differ in anything that counts."""
    return any(hard for _, _, hard in diff(one, other, None))


SAYS = {
    "value": "outputs differ after the rewrite ({})",
    "dtype": "output dtype changes: {}",
    "shape": "output shape changes: {}",
    "alias": "an output no longer relates to the inputs as before: {}",
    "class": "output class changes: {}",
    "requires_grad": "requires_grad of an output changes: {}",
    "stride": "output strides change: {}",
    "type": "output type changes: {}",
    "structure": "output structure changes: {}",
}


def compare(one: Record, other: Record, loosen: float | None = None) -> list[Difference]:
    """What differs between two records of one case; `loosen` None for eager against eager, else times the tolerance."""
    found: list[Difference] = []
    compiled = loosen is not None

    def add(aspect: str, message: str, hard: bool) -> None:
        found.append({"case": one["case"], "aspect": aspect, "message": message, "hard": hard})

    if one["raises"] or other["raises"]:
        add_raises(one, other, compiled, add)
        if one["raises"] != other["raises"] or compiled:
            return found
    else:
        for aspect, seen, hard in diff(one["output"], other["output"], loosen):
            add(aspect, SAYS[aspect].format(seen), hard)
    for part, says in (("inputs", "inputs are changed differently"), ("observed", "observed state differs")):
        for aspect, seen, hard in diff(one[part], other[part], loosen):
            if hard and aspect != "alias":
                add(part, f"{says} ({seen})", True)
    diff_state(one["state"], other["state"], loosen, add)
    diff_gradients(one, other, add, loosen)
    if one["rng"] != other["rng"]:
        names = sorted(name for name in one["rng"] if one["rng"][name] != other["rng"].get(name))
        add("rng", f"random state differs after the call ({', '.join(names)})", not compiled)
    if one["stdout"] != other["stdout"]:
        add("stdout", f"printed text differs ({lines(one['stdout'])} before, {lines(other['stdout'])} after)", True)
    if one["log"] != other["log"]:
        add("log", f"log records differ ({len(one['log'])} before, {len(other['log'])} after)", True)
    if one["warnings"] != other["warnings"]:
        add(
            "warnings", f"warnings differ ({len(one['warnings'])} before, {len(other['warnings'])} after)", not compiled
        )
    return unique(found)


def lines(text: str) -> str:
    """The number of lines in printed text, in words."""
    number = len(text.splitlines())
    return "1 line" if number == 1 else f"{number} lines"


def add_raises(one: Record, other: Record, compiled: bool, add: Any) -> None:
    """Differences in what was raised; compiled code may turn an exception into a RuntimeError."""
    a, b = one["raises"], other["raises"]
    if not a or not b:
        text = (other["text"] if b else one["text"]).strip().splitlines() or [""]
        does = f"raises {b} where the original did not" if b else f"no longer raises {a}"
        add("raises", f"{does}: {text[0][:120]}" if text[0] else does, True)
    elif a != b:
        allowed = compiled and "RuntimeError" in other["kinds"] and not other["compiler"]
        add("exception", f"raises {b} instead of {a}", not allowed)
    elif one["text"] != other["text"] and not compiled:
        add("message", "the exception's message differs", False)


def diff_state(one: dict[str, Any], other: dict[str, Any], loosen: float | None, add: Any) -> None:
    """Differences in buffers, changed parameters and Python attributes of modules."""
    for name in sorted({*one, *other}):
        for aspect, seen, hard in diff(one.get(name), other.get(name), loosen):
            if hard and aspect != "alias":
                add("state", f"{name} differs after the call ({seen})", True)


def diff_gradients(one: Record, other: Record, add: Any, loosen: float | None) -> None:
    """Differences in gradients: summed in another order they differ in the last bits, so never bit for bit."""
    for name in sorted({*one["gradients"], *other["gradients"]}):
        a, b = one["gradients"].get(name), other["gradients"].get(name)
        if a is None and b is None:
            continue
        if a is None or b is None:
            given = b if a is None else a
            if bool((given != 0).any()):
                extreme = one["extreme"] and not bool(given.isfinite().all())
                does = "appears" if a is None else "is lost"
                add("gradient_extreme" if extreme else "gradient", f"the gradient of {name} {does}", not extreme)
            elif loosen is None:
                becomes = "None becomes zero" if a is None else "zero becomes None"
                add("gradient_none", f"the gradient of {name}: {becomes}", name.startswith("parameter"))
        elif a.dtype == b.dtype and a.shape == b.shape:
            if seen := differing_values(a, b, tolerance_of(a, loosen or 1.0)):
                extreme = one["extreme"] and not bool(a.isfinite().all() and b.isfinite().all())
                aspect = "gradient_extreme" if extreme else "gradient"
                add(aspect, f"the gradient of {name} differs ({seen})", not extreme)
        else:
            add("gradient", f"the gradient of {name} has another dtype or shape", True)


def unique(found: list[Difference]) -> list[Difference]:
    """The first difference of each aspect, hard ones first."""
    kept: dict[str, Difference] = {}
    for item in sorted(found, key=lambda item: not item["hard"]):
        kept.setdefault(item["aspect"], item)
    return list(kept.values())


def compare_all(one: list[Record], other: list[Record], loosen: float | None = None) -> list[Difference]:
    """What differs between two runs of the same cases (those in both)."""
    by_case = {record["case"]: record for record in other}
    pairs = [(record, by_case[record["case"]]) for record in one if record["case"] in by_case]
    return [item for pair in pairs for item in compare(*pair, loosen)]
