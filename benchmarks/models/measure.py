"""One row in one process: graphs, break sites, recompiles and outputs, as one line of JSON on stdout.

`python measure.py ROW DUMP [--reference DUMP] [--backend NAME]` writes its eager outputs to DUMP and compares them, bit
for bit, with those of the reference. PYTHONPATH decides which transformers it sees.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from rows import ROWS, build

GB_ID = re.compile(r"/gb/(gb\d{4})", re.I)
PLACE = re.compile(r"in user code at (.+?):(\d+)")


class Log(logging.Handler):
    """Dynamo's messages about breaks, as distinct sites, and how often it recompiled."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[tuple[str, str, int], None] = {}
        self.recompiles = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one message."""
        text = record.getMessage()
        if record.name.endswith("__recompiles"):
            self.recompiles += 1
            return
        place, gb_id = PLACE.search(text), GB_ID.search(text)
        if place:
            path = re.sub(r".*/(?=transformers/|torch/)|.*/(?=[^/]+$)", "", place[1], count=1)
            self.sites[(path, gb_id[1].upper() if gb_id else "", int(place[2]))] = None


def listen() -> Log:
    """A log that has proven, on a known break, that it hears Dynamo."""
    log = Log()
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch") and name.endswith(("__graph_breaks", "__recompiles")):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [log], False
    torch.compile(_canary, backend="eager")(torch.ones(1))
    if not log.sites:
        raise RuntimeError("Dynamo's log is silent on a known break")
    torch._dynamo.reset()
    log.sites, log.recompiles = {}, 0
    return log


def _canary(x: Any) -> Any:
    torch._dynamo.graph_break()
    return x + 1


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor and plain value of an output structure, with its place; caches are looked into."""
    if isinstance(value, torch.Tensor):
        yield path, value.detach().clone()
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    elif type(value).__module__.startswith("transformers.cache_utils"):
        for key, inner in sorted(vars(value).items()):
            yield from leaves(inner, f"{path}.{key}")
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield path, value


def same(a: Any, b: Any) -> bool:
    """Whether two leaves agree bit for bit."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)))


def same_call(a: list[Any], b: list[Any]) -> bool:
    """Whether two outputs have the same structure and agree bit for bit."""
    return [path for path, _ in a] == [path for path, _ in b] and all(
        same(x[1], y[1]) for x, y in zip(a, b, strict=True)
    )


def distance(expected: list[Any], found: list[Any]) -> float:
    """The largest absolute difference over all tensors; infinite when structure, dtype or non-finite places differ."""
    if [(path, type(leaf)) for path, leaf in expected] != [(path, type(leaf)) for path, leaf in found]:
        return float("inf")
    worst = 0.0
    for (_, a), (_, b) in zip(expected, found, strict=True):
        if same(a, b):
            continue
        if not isinstance(a, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        a, b = a.double(), b.double()
        if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
            return float("inf")
        gap = (a - b).abs()[torch.isfinite(a)]
        worst = max(worst, gap.max().item() if gap.numel() else 0.0)
    return worst


def calls(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The inputs of three calls (the same twice, then other values of the same shapes), and one for the other arm."""
    first = build(name)[1]
    other = ROWS[name].other
    return [first, first, build(name, seed=1)[1]], [{**first, **other()}] if other else []


def run(model: Any, inputs: list[dict[str, Any]]) -> list[list[Any]]:
    """The leaves of each call's output."""
    with torch.no_grad():
        return [list(leaves(model(**each))) for each in inputs]


def compiled(name: str, backend: str, log: Log) -> tuple[list[list[Any]], dict[str, Any]]:
    """Outputs under torch.compile, and what was counted: in the first call, and over three."""
    graphs: list[Any] = []

    def counting(module: Any, example: Any) -> Any:
        graphs.append(module)
        return torch._dynamo.lookup_backend(backend)(module, example)

    model = torch.compile(build(name)[0], backend=counting, dynamic=False)
    (first, *repeated), other = calls(name)
    outputs = run(model, [first])
    counted: dict[str, Any] = {"graphs": len(graphs), "breaks": max(0, len(graphs) - 1)}
    counted["sites"] = [{"path": path, "gb_id": gb_id, "line": line} for path, gb_id, line in sorted(log.sites)]
    outputs += run(model, repeated)
    counted |= {"recompiles": log.recompiles, "graphs_after_three_calls": len(graphs)}
    return outputs + run(model, other), counted


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All that is asked of one row."""
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    eager = run(build(options.row)[0], [call for part in calls(options.row) for call in part])
    torch.save(eager, options.dump)
    outputs, found = compiled(options.row, options.backend, listen())
    found["tensors"] = sum(isinstance(leaf, torch.Tensor) for call in eager for _, leaf in call)
    found["compiled_max_abs"] = max(distance(a, b) for a, b in zip(eager, outputs, strict=True))
    if options.reference:
        before = torch.load(options.reference, weights_only=False)
        found["eager_equal"] = len(before) == len(eager) and all(map(same_call, before, eager))
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    return {**found, "versions": versions, "library": transformers.__file__}


def main() -> None:
    """Read the command line and print the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=sorted(ROWS))
    parser.add_argument("dump")
    parser.add_argument("--reference")
    parser.add_argument("--backend", default="aot_eager")
    print(json.dumps(measure(parser.parse_args())), file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
