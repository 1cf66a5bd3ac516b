"""What facts know of one place, for a reader or as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from gbfix.facts.explain import Expression, Place
from gbfix.facts.lattice import Kind, Site, Value

Json = dict[str, Any]
_KINDS = {
    Kind.TENSOR: "tensor",
    Kind.TUPLE: "tuple",
    Kind.LIST: "list",
    Kind.DICT: "dict",
    Kind.MODULE: "module",
    Kind.NONE: "None",
    Kind.NDARRAY: "NumPy array or number",
    Kind.LOGGER: "logger",
    Kind.UNKNOWN: "not known",
}


def text(path: str, line: int, place: Place) -> str:
    """The place in words. A reason that two expressions share is said once."""
    lines = [f"{path}:{line}: in `{place.function}`, {_reached(place)}", ""]
    said: set[str] = set()
    for found in place.expressions:
        lines.append(f"  {found.span[0]}:{found.span[1] + 1}: `{found.text}`: {words(found.value)}")
        lines += [f"      {reason}" for reason in found.reasons if reason not in said]
        said.update(found.reasons)
    if place.sites:
        lines += ["", *(f"  site: {_site_words(site)}" for site in place.sites)]
    else:
        lines += [
            "",
            "  no site on this line" if place.reach else "  no sites: the function does not count as compiled",
        ]
    return "\n".join(lines) + "\n"


def as_json(path: str, line: int, column: int | None, place: Place) -> str:
    """The place as one JSON object; positions are 1-based characters, ends exclusive."""
    reach = place.reach
    data = {
        "filename": path,
        "row": line,
        "column": None if column is None else column + 1,
        "function": place.function,
        "compiled": reach and {"certain": reach.certain, "entry": reach.entry, "why": reach.why},
        "expressions": [_expression(found) for found in place.expressions],
        "sites": [_site(site) for site in place.sites],
    }
    return json.dumps(data, indent=2) + "\n"


def words(value: Value | None) -> str:
    """A value in words: `0-dim bool tensor, or None; only likely`."""
    if value is None:
        return "not looked at: no path that Dynamo traces gets here"
    name = _name(value)
    if value.optional:
        name += ", or None"
    more = [name]
    if value.kind is Kind.TENSOR:
        more += _terms(value)
        more += ["a parameter of a module"] * value.parameter
    more += ["read from a tensor's data"] * value.read
    more += [f"always {value.constant!r}"] * (value.constant is not None)
    if value.kind is not Kind.UNKNOWN:
        more.append("certain" if value.certain else "only likely")
    return "; ".join(more)


def _name(value: Value) -> str:
    if value.kind is Kind.TENSOR:
        dtype = value.dtype if value.dtype and re.fullmatch(r"\w+", value.dtype) else ""
        return " ".join(filter(None, ("0-dim" if value.is_zero_dim else "", dtype.replace("_", " "), "tensor")))
    if value.kind is Kind.SCALAR:
        return f"Python {value.cls}" if value.cls else "plain Python value"
    if value.kind is Kind.OBJECT:
        return f"object of {value.cls}" if value.cls else "object"
    known = f" `{value.cls}`" if value.cls else f" of {len(value.items)}" if value.items is not None else ""
    return _KINDS[value.kind] + known


def _terms(value: Value) -> list[str]:
    """Dtype and shape where they are known by what they equal only."""
    found = []
    if value.dtype and not re.fullmatch(r"\w+", value.dtype):
        found.append(f"dtype {_term(value.dtype)}")
    if value.shape and not value.is_zero_dim:
        found.append(f"shape {_term(value.shape)}")
    return found


def _term(term: str) -> str:
    """A transfer term: `that of x`, `made at line 3`, or as it stands."""
    if named := re.fullmatch(r"[ds]:([\w.]+)", term):
        return f"that of `{named[1]}`"
    if made := re.fullmatch(r"[ds]@(\d+):\d+(?::([\w.]+))?", term):
        return f"that of `{made[2]}` after line {made[1]}" if made[2] else f"made at line {made[1]}"
    return f"`{term}`"


def _reached(place: Place) -> str:
    if place.reach is None:
        return "not known to be compiled: nothing hands it to torch.compile, and nothing compiled calls it"
    how = "compiled" if place.reach.certain else "perhaps compiled"
    return f"{how} ({'entry: ' if place.reach.entry else ''}{place.reach.why})"


def _site_words(site: Site) -> str:
    name = f" `{site.name}`" if site.name else ""
    return f"{site.kind}{name}, {'certain' if site.certain else 'only likely'}{site.why and f': {site.why}'}"


def _expression(found: Expression) -> Json:
    row, column, end_row, end_column = found.span
    return {
        "text": found.text,
        "location": {"row": row, "column": column + 1},
        "end_location": {"row": end_row, "column": end_column + 1},
        "words": words(found.value),
        "value": found.value and _value(found.value),
        "reasons": list(found.reasons),
    }


def _value(value: Value) -> Json:
    return {
        "kind": value.kind.value,
        "tensor": value.tensor.value,
        "certain": value.certain,
        "optional": value.optional,
        "zero_dim": value.is_zero_dim,
        "bool": value.is_bool,
        "dtype": value.dtype,
        "shape": value.shape,
        "parameter": value.parameter,
        "read": value.read,
        "class": value.cls,
    }


def _site(site: Site) -> Json:
    place = site.place
    return {
        "kind": site.kind,
        "name": site.name or None,
        "certain": site.certain,
        "why": site.why or None,
        "location": {"row": place.lineno, "column": place.col_offset + 1},
    }
