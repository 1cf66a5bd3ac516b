"""What Dynamo does with every recipe: the lines that it traces, the lines at which it breaks; and what eager Python does there.

`python observe.py` runs each recipe in each of its modes, in a process of its own, and writes truth.json. Lines are those of
transformers' files. `traced` are lines that Dynamo traced, `executed` lines that eager Python ran in the same call, `skipped`
the columns on them where expressions stand that it did not get to (`b` in `a and b` where `a` was False), `reads` lines whose tensor
operators look at the data (`.item()`, a truth value, a data-dependent shape), by torch's own tags.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from recipes import build, load

HERE = Path(__file__).resolve().parent
TRUTH = HERE / "truth.json"
GB_ID = re.compile(r"/gb/(gb\d{4})", re.I)
PLACE = re.compile(r"in user code at (.+?):(\d+)")
TRACED = re.compile(r"TRACE starts_line (.+?):(\d+) ")
FRAME = re.compile(r'File "(.+?)", line (\d+), in ')
LIBRARY = f"{os.sep}transformers{os.sep}"
HOST_METHODS = {"tolist", "numpy", "__array__"}
Lines = dict[str, set[int]]
Columns = dict[str, dict[int, set[int]]]


def short(path: str) -> str:
    """A path of the library as `transformers/...`."""
    return "transformers/" + path.rpartition(LIBRARY)[2].replace(os.sep, "/")


class Log(logging.Handler):
    """Dynamo's messages as lines traced and places of breaks: (file, line, id), of the innermost frame outside torch."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = False
        self.traced: Lines = {}
        self.breaks: dict[tuple[str, int, str], None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one message."""
        text = record.getMessage()
        if traced := TRACED.match(text):
            if LIBRARY in traced[1]:
                self.traced.setdefault(short(traced[1]), set()).add(int(traced[2]))
        elif place := PLACE.search(text):
            self.heard = True
            frames = [found for found in FRAME.findall(text) if LIBRARY in found[0]]
            file, line = (place[1], place[2]) if LIBRARY in place[1] else frames[-1] if frames else ("", "0")
            if file:
                gb_id = GB_ID.search(text)
                self.breaks[short(file), int(line), gb_id[1].upper() if gb_id else ""] = None


def listen() -> Log:
    """A log that has proven, on a known break, that it hears Dynamo."""
    import torch
    import torch._dynamo  # its loggers exist from here on

    log = Log()
    torch._logging.set_logs(graph_breaks=True, trace_source=True)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch") and name.endswith(("__graph_breaks", "__trace_source")):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [log], False
    torch.compile(lambda x: (torch._dynamo.graph_break(), x + 1), backend="eager")(torch.ones(1))
    if not log.heard:
        raise RuntimeError("Dynamo's log is silent on a known break")
    torch._dynamo.reset()
    return log


def executed(call: Callable[[], object]) -> tuple[Lines, Columns]:
    """The library's lines that a call runs, and the columns on them at which expressions stand that it does not get to."""
    ran: dict[CodeType, set[int]] = {}
    found: Lines = {}

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        if LIBRARY not in frame.f_code.co_filename:
            return None
        lines = found.setdefault(short(frame.f_code.co_filename), set())
        offsets = ran.setdefault(frame.f_code, set())
        frame.f_trace_opcodes = True

        def inside(frame: FrameType, event: str, argument: object) -> Any:
            if frame.f_lineno is not None:
                lines.add(frame.f_lineno)
            offsets.add(frame.f_lasti // 2)
            return inside

        return inside

    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(None)
    met: dict[tuple[str, int], tuple[set[int], set[int]]] = {}
    for code, offsets in ran.items():
        for offset, (line, _, column, _) in enumerate(code.co_positions()):
            if line is not None and column is not None:
                met.setdefault((short(code.co_filename), line), (set(), set()))[offset in offsets].add(column)
    skipped: Columns = {}
    for (file, line), (missed, got) in met.items():
        if line in found[file] and missed - got:
            skipped.setdefault(file, {})[line] = missed - got
    return found, skipped


def reads(call: Callable[[], object]) -> Lines:
    """The library's lines from which a call looks at the data of a tensor."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    found: Lines = {}

    def note() -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and LIBRARY not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            found.setdefault(short(frame.f_code.co_filename), set()).add(frame.f_lineno)

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            data, shape = (
                tag in func.tags for tag in (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
            )
            if shape and func is torch.ops.aten.index.Tensor:  # only a mask makes its shape depend on data
                shape = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
            if data or shape:
                note()
            return func(*args, **(kwargs or {}))

    class Methods(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") in HOST_METHODS:
                note()
            return func(*args, **(kwargs or {}))

    with Operators(), Methods():
        call()
    return found


def observe(name: str, mode: str) -> dict[str, Any]:
    """One recipe in one mode: an eager call first, then what is asked."""
    import numpy
    import torch

    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    log = listen()
    model, inputs = build(load()[name])
    model.train(mode == "train")
    graphs: list[Any] = []

    def counting(module: Any, example: Any) -> Any:
        graphs.append(module)
        return module.forward

    def call(function: Any = model) -> Any:
        for seed in (torch.manual_seed, numpy.random.seed, random.seed):
            seed(0)
        with torch.set_grad_enabled(mode == "train"):
            return function(**inputs)

    call()
    (ran, skipped), read = executed(call), reads(call)
    call(torch.compile(model, backend=counting))
    return {
        "model": name, "mode": mode, "graphs": len(graphs), "breaks": sorted(log.breaks),
        "traced": packed(log.traced), "executed": packed(ran), "reads": packed(read),
        "skipped": {file: {line: sorted(columns) for line, columns in lines.items()} for file, lines in skipped.items()},
    }  # fmt: skip


def packed(lines: Lines) -> dict[str, str]:
    """Line numbers as ranges: `3-5,9`."""
    return {file: ",".join(_ranges(sorted(numbers))) for file, numbers in sorted(lines.items())}


def _ranges(numbers: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def unpacked(lines: dict[str, str]) -> Lines:
    """The line numbers of `packed`."""
    found: Lines = {}
    for file, ranges in lines.items():
        ends = [part.split("-") for part in ranges.split(",")]
        found[file] = {number for part in ends for number in range(int(part[0]), int(part[-1]) + 1)}
    return found


def united(runs: list[dict[str, Any]], key: str) -> dict[str, str]:
    """The lines of all runs together."""
    every: Lines = {}
    for run in runs:
        for file, numbers in unpacked(run[key]).items():
            every.setdefault(file, set()).update(numbers)
    return packed(every)


def always_skipped(runs: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """The columns that no run got to on lines that some run executed."""
    left: dict[str, dict[str, set[int]]] = {}
    for run in runs:
        for file, numbers in unpacked(run["executed"]).items():
            skipped, lines = run["skipped"].get(file, {}), left.setdefault(file, {})
            for line in map(str, numbers):
                columns = set(skipped.get(line, ()))
                lines[line] = lines[line] & columns if line in lines else columns
    return {
        file: {
            line: sorted(columns) for line, columns in sorted(lines.items(), key=lambda item: int(item[0])) if columns
        }
        for file, lines in sorted(left.items())
    }


def child(name: str, mode: str) -> dict[str, Any]:
    """One recipe in a process of its own."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, __file__, name, mode]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"{name} {mode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{name} {mode}: {found['graphs']} graphs, {len(found['breaks'])} places", file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Observe one recipe and print it, or observe all and write truth.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?")
    parser.add_argument("mode", nargs="?", choices=("eval", "train"), default="eval")
    options = parser.parse_args()
    if options.recipe:
        print(json.dumps(observe(options.recipe, options.mode)), flush=True)
        return
    import torch
    import transformers

    runs = [child(name, mode) for name, recipe in load().items() for mode in recipe["modes"]]
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        **{key: united(runs, key) for key in ("traced", "executed", "reads")},
        "skipped": always_skipped(runs),
        "runs": [{key: run[key] for key in ("model", "mode", "graphs", "breaks")} for run in runs],
    }
    TRUTH.write_text(json.dumps(result, separators=(",", ":")).replace("},", "},\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
