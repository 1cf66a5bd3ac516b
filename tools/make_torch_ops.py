"""Write src/gbfix/facts/torch_ops.json from the installed torch's stubs and docstrings, and torch_ops_overlay.toml.

`python tools/make_torch_ops.py` rewrites the table (the same torch and overlay give the same bytes) and prints counts.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
OVERLAY = ROOT / "tools" / "torch_ops_overlay.toml"
TABLE = ROOT / "src" / "gbfix" / "facts" / "torch_ops.json"
STUBS = Path(torch.__file__).parent

KINDS = {
    "Tensor": "tensor",
    "Self": "tensor",
    "S": "tensor",
    "LongTensor": "tensor",
    "BoolTensor": "tensor",
    "Tensor | None": "tensor",
    "_bool": "bool",
    "bool": "bool",
    "_int": "int",
    "int": "int",
    "_float": "float",
    "float": "float",
    "None": "none",
    "Size": "size",
    "_dtype": "dtype",
    "torch.dtype": "dtype",
    "_dtype | None": "dtype",
    "_device": "device",
    "torch.device": "device",
}
# The first parameter that makes a reduction keep dimensions, or stop being one.
REDUCING = {"dim", "axis", "dims", "keepdim", "size_average", "reduction", "full", "unbiased", "dtype"}
PAIRED = {"max", "min"}  # `max(x, other)` is elementwise
INHERITED = {"nan_grad", "heavy", "raises", "rng", "dynamic", "untraced"}
IMPURE = {"rng", "inplace", "raises", "sync", "dynamic", "state", "untraced"}
IMPLY_PURE = {"pure", "pointwise", "reduction", "view", "heavy", "static"}
OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "eq": "eq",
    "ne": "ne",
    "neg": "neg",
    "pos": "positive",
    "abs": "abs",
    "invert": "bitwise_not",
}


def kind(text: str) -> str:
    """The return kind that a stub's annotation or a docstring's arrow means."""
    text = text.strip()
    if text in KINDS:
        return KINDS[text]
    if text.startswith("torch.return_types.") or re.fullmatch(
        r"\(\s*Tensor.*\)|.*[Tt]uple of Tensors?.*|[Ll]ist of Tensors?", text
    ):
        return "tensors"
    if re.fullmatch(r"(Sequence|list|tuple|List|Tuple)\[(Tensor(, )?|\.\.\.|LongTensor)+\]", text):
        return "tensors"
    return "other"


class Stub:
    """The functions of one stub file or class: their return kinds and where a reduction's dim may stand."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.kinds: dict[str, set[str]] = {}
        self.limits: dict[str, int] = {}
        self.attributes: dict[str, str] = {}
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self.attributes[node.target.id] = ast.unparse(node.annotation)
            elif isinstance(node, ast.FunctionDef):
                self.kinds.setdefault(node.name, set()).add(kind(ast.unparse(node.returns) if node.returns else ""))
                limit(self.limits, node.name, [a.arg for a in node.args.posonlyargs + node.args.args])


def limit(limits: dict[str, int], name: str, parameters: list[str]) -> None:
    """Note how many leading arguments a full reduction can have, the fewest of all overloads."""
    places = [
        i
        for i, parameter in enumerate(parameters)
        if i > 0 and (parameter in REDUCING or (parameter == "other" and name in PAIRED))
    ]
    found = min(places, default=len(parameters))
    limits[name] = min(found, limits.get(name, found))


def read_stub(path: str, cls: str | None = None) -> Stub:
    """The stub of a module, or of one class in it."""
    body = ast.parse((STUBS / path).read_text(encoding="utf-8")).body
    if cls is not None:
        body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == cls).body
    return Stub(body)


def read_docs(module: str) -> Stub:
    """What the docstrings of a module's public functions say: their first line is a signature with an arrow."""
    owner, stub = importlib.import_module(module), Stub([])
    for name in sorted(dir(owner)):
        value = getattr(owner, name)
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        found = re.search(rf"\b{name}\((.*?)\) *-> *(.+)", inspect.getdoc(value) or "")
        if found:
            stub.kinds[name] = {kind(found[2])}
            limit(
                stub.limits,
                name,
                [re.split(r"[=:]", p)[0].strip() for p in found[1].partition("*")[0].split(",") if p.strip()],
            )
        elif inspect.isfunction(value):
            returns = inspect.signature(value).return_annotation
            text = returns if isinstance(returns, str) else getattr(returns, "__name__", str(returns))
            if text != "_empty":
                stub.kinds[name] = {kind(text)}
    return stub


def read_functional() -> Stub:
    """torch.nn.functional: its own stub and what it takes over from torch and torch._C._nn."""
    stub = read_stub("nn/functional.pyi")
    sources = {"torch": read_stub("_C/_VariableFunctions.pyi"), "torch._C._nn": read_stub("_C/_nn.pyi")}
    for node in ast.parse((STUBS / "nn/functional.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module in sources:
            for alias in node.names:
                if alias.name in sources[node.module].kinds:
                    stub.kinds.setdefault(alias.asname or alias.name, sources[node.module].kinds[alias.name])
    for name, kinds in read_docs("torch.nn.functional").kinds.items():
        stub.kinds.setdefault(name, kinds)
    return stub


def exists(dotted: str) -> bool:
    """Whether the installed torch has this name."""
    parts = dotted.split(".")
    value: Any = torch.Tensor if parts[0] == "Tensor" else torch
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        value = getattr(value, part)
    return True


class Overlay:
    """torch_ops_overlay.toml, asked by name."""

    def __init__(self) -> None:
        raw = tomllib.loads(OVERLAY.read_text(encoding="utf-8"))
        self.raw = raw
        self.used: set[str] = set()
        self.traits = {key: set(text.split()) for key, text in raw["traits"].items()}
        self.dtype = {key: set(text.split()) for key, text in raw["dtype"].items() if key != "none"}
        self.shape = {"same": set(raw["shape"]["same"].split()), "broadcast": set()}
        self.traits["pointwise"] = set()
        for family in raw["pointwise"]:
            names = set(family["names"].split())
            self.traits["pointwise"] |= names
            self.shape[family["shape"]] |= names
            if "dtype" in family:
                self.dtype.setdefault(family["dtype"], set()).update(names)
        self.shape["scalar"] = self.traits["reduction"] - set(raw["shape"]["unless_scalar"].split())
        self.reshapes = set(raw["shape"]["reshapes"].split())
        self.unclaimed = set(raw["dtype"]["none"].split())
        self.overloaded = set(raw["returns"].pop("overloaded").split())

    def holds(self, names: set[str], dotted: str) -> bool:
        """Whether a list speaks of this operator."""
        bare = dotted.rpartition(".")[2]
        if f"-{dotted}" in names:
            self.used.add(f"-{dotted}")
            return False
        hits = {dotted, bare} & names
        self.used |= hits
        return bool(hits)

    def pick(self, table: dict[str, set[str]], dotted: str) -> str | None:
        """The one entry of a table that lists this operator; a dotted name wins over a bare one."""
        found = [key for key, names in table.items() if dotted in names] or [
            key for key, names in table.items() if self.holds(names, dotted)
        ]
        self.used.update({dotted} & set().union(*table.values()))
        if len(found) > 1:
            raise ValueError(f"{dotted}: listed under {found}; keep one")
        return found[0] if found else None


def base_name(bare: str) -> tuple[str, bool]:
    """The operator whose facts a name shares, and whether the name writes in place."""
    dunder = re.fullmatch(r"__(i|r)?(\w+)__", bare)
    if dunder:
        prefix, name = dunder[1] or "", dunder[2]
        if f"{prefix}{name}" in OPERATORS:
            return OPERATORS[f"{prefix}{name}"], False
        return (OPERATORS[name], prefix == "i") if prefix and name in OPERATORS else (bare, bare == "__setitem__")
    return (bare[:-1], True) if bare.endswith("_") else (bare, False)


def record(dotted: str, kinds: set[str], limits: dict[str, int], overlay: Overlay) -> list[Any]:
    """One row: returns, traits, dtype, shape, and the number of leading arguments of a full reduction."""
    owner, _, bare = dotted.rpartition(".")
    base, inplace = base_name(bare)
    shared = f"{owner}.{base}"
    traits = {trait for trait, names in overlay.traits.items() if overlay.holds(names, dotted if inplace else shared)}
    traits |= {trait for trait, names in overlay.traits.items() if base != bare and overlay.holds(names, dotted)}
    if inplace:
        traits |= {trait for trait in INHERITED if overlay.holds(overlay.traits[trait], shared)} | {"inplace"}
    dtype, shape = overlay.pick(overlay.dtype, shared), overlay.pick(overlay.shape, shared)
    returns = kinds.pop() if len(kinds) == 1 else "tensor" if kinds == {"tensor", "tensors"} else "other"
    if bare in overlay.overloaded:
        traits.add("overloaded")
        overlay.used.add(bare)
    if dotted in overlay.raw["returns"]:
        returns = overlay.raw["returns"][dotted]
    elif not kinds <= {"tensor", "tensors"} or kinds:
        traits |= {"overloaded"} if kinds else set()
    if inplace:
        dtype, shape = ("same", "same") if returns == "tensor" and bare not in overlay.reshapes else (None, None)
    if re.match(r"_[^_]", bare) or bare in overlay.unclaimed:
        dtype = None
    if re.match(r"_[^_]", bare):
        shape = None
    if traits & IMPURE:
        traits.discard("pure")
    elif traits & IMPLY_PURE:
        traits.add("pure")
    if returns not in ("tensor", "other") and "overloaded" not in traits:
        traits.discard("pointwise")
        dtype = shape = None
    row: list[Any] = [returns, " ".join(sorted(traits)), dtype, shape]
    return [*row, limits.get(bare, 1)] if shape == "scalar" else row


def modules(overlay: Overlay) -> dict[str, list[Any]]:
    """Calls of an instance of each torch.nn module class; containers and wrappers are left out."""
    lists = {key: set(text.split()) for key, text in overlay.raw["modules"].items()}
    rows: dict[str, list[Any]] = {}
    for name in sorted(dir(torch.nn)):
        cls = getattr(torch.nn, name)
        if not (isinstance(cls, type) and issubclass(cls, torch.nn.Module)) or cls is torch.nn.Module:
            continue
        returns = inspect.signature(cls.forward).return_annotation
        text = returns if isinstance(returns, str) else getattr(returns, "__name__", "")
        known = any(name in names for names in lists.values())
        if not known and kind(text) != "tensor":
            continue
        overlay.used |= {name}
        traits = {
            key
            for key in (
                "heavy",
                "rng",
                "state",
                "raises",
                "sync",
                "untraced",
                "nan_grad",
                "pointwise",
                "reduction",
                "view",
                "pure",
            )
            if name in lists[key]
        }
        if traits & IMPURE:
            traits.discard("pure")
        elif traits & IMPLY_PURE:
            traits.add("pure")
        dtype = "same" if name in lists["same_dtype"] else "float" if name in lists["float_dtype"] else None
        shape = (
            "same" if name in lists["pointwise"] | lists["same_shape"] else "scalar" if "reduction" in traits else None
        )
        rows[f"torch.nn.{name}"] = [
            "tensors" if name in lists["tensors"] else "tensor",
            " ".join(sorted(traits)),
            dtype,
            shape,
        ]
    return rows


def attributes(stub: Stub, overlay: Overlay) -> dict[str, str]:
    """What kind of value each tensor attribute gives."""
    rows = {name: kind(text) for name, text in stub.attributes.items()}
    rows |= {
        name: "bool"
        for name in dir(torch.Tensor)
        if name.startswith("is_") and not callable(getattr(torch.Tensor, name))
    }
    rows |= overlay.raw["attributes"]
    return {name: rows[name] for name in sorted(rows) if hasattr(torch.Tensor, name)}


def build() -> dict[str, dict[str, Any]]:
    """The whole table."""
    overlay = Overlay()
    tensor = read_stub("_C/__init__.pyi", "TensorBase")
    spaces = {
        "torch": read_stub("_C/_VariableFunctions.pyi"),
        "Tensor": tensor,
        "torch.nn.functional": read_functional(),
    }
    for name, kinds in read_docs("torch.functional").kinds.items():
        spaces["torch"].kinds.setdefault(name, kinds)
    for module in ("torch.special", "torch.linalg", "torch.fft", "torch.nn.init"):
        spaces[module] = read_docs(module)
    # The names without an underscore are deprecated and write in place all the same.
    spaces["torch.nn.init"].kinds = {
        k: v for k, v in spaces["torch.nn.init"].kinds.items() if k.endswith("_") or k == "calculate_gain"
    }
    for dotted in overlay.raw["returns"]:
        owner, _, bare = dotted.rpartition(".")
        spaces.setdefault(owner, Stub([])).kinds.setdefault(bare, set())
    rows: dict[str, dict[str, Any]] = {
        "functions": {},
        "methods": {},
        "modules": modules(overlay),
        "attributes": attributes(tensor, overlay),
    }
    for owner, stub in spaces.items():
        for name, kinds in stub.kinds.items():
            dotted = f"{owner}.{name}"
            if exists(dotted) and name not in ("__init__", "__new__"):
                target = rows["methods"] if owner == "Tensor" else rows["functions"]
                target[name if owner == "Tensor" else dotted] = record(dotted, set(kinds), stub.limits, overlay)
    listed = set().union(*overlay.traits.values(), *overlay.dtype.values(), *overlay.shape.values(), overlay.overloaded)
    unused = {name for name in listed - overlay.used if not name.startswith("-")}
    if unused:
        raise ValueError(f"{OVERLAY.name}: no such operator in torch {torch.__version__}: {' '.join(sorted(unused))}")
    return {key: dict(sorted(value.items())) for key, value in rows.items()}


def text() -> str:
    """The file's text: one operator a line, sorted, so that a diff reads."""
    parts = [f'"torch": {json.dumps(torch.__version__.partition("+")[0])}']
    for key, rows in build().items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        parts.append(f'"{key}": {{\n{lines}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write the table and print how many names of each sort it has."""
    TABLE.write_text(text(), encoding="utf-8")
    for key, rows in json.loads(TABLE.read_text(encoding="utf-8")).items():
        if isinstance(rows, dict):
            returns = Counter(row if isinstance(row, str) else row[0] for row in rows.values())
            print(f"{key}: {len(rows)} ({', '.join(f'{n} {k}' for k, n in returns.most_common())})")


if __name__ == "__main__":
    main()
