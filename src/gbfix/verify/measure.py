"""Count graph breaks with Dynamo's own log, run compiled code, and time it."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo

AT = re.compile(r"^Graph break (?:\([^)]*\) )?in user code at (?P<path>.+):(?P<line>\d+)$", re.M)
SKIPPED = re.compile(r"^Graph break: torch\.compile cannot properly resume")
FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)', re.M)
FRAME_SKIPPED = re.compile(r"frame skipped: \S+ \((?P<path>.+) line (?P<line>\d+)\)")
GB_ID = re.compile(r"/gb/(gb\d{4})\.html", re.I)
REASON = re.compile(r"^Graph Break Reason: (.*)$", re.M)
PREAMBLE = ("Encountered graph break when attempting to trace", "Failed to handle graph break gracefully")
NOT_A_REASON = (*PREAMBLE, "Explanation", "Hint", "File", "for ", "with ", "^")


class BreakLog(logging.Handler):
    """Dynamo's own messages about graph breaks and recompiles, as sites."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.sites: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.recompiles = 0

    def clear(self) -> None:
        """Forget what was seen."""
        self.sites, self.recompiles = {}, 0

    def emit(self, record: logging.LogRecord) -> None:
        """Note one message."""
        text = record.getMessage()
        if record.name.endswith("__recompiles"):
            self.recompiles += "torch_dynamo_resume_in_" not in text.partition("\n")[0]
            return
        head = AT.search(text)
        whole = SKIPPED.match(text)
        frames = FRAME.findall(text)
        if head:
            path, line = head["path"], int(head["line"])
        elif whole and frames:
            path, line = frames[-1][0], int(frames[-1][1])
        else:
            return
        # The first id is the cause; a loop or block that cannot resume after it comes second.
        found = GB_ID.search(text)
        gb_id = found[1].upper() if found else ""
        known = self.sites.setdefault((gb_id, path, line), {"reason": reason(text), "skipped": []})
        if whole or "Skipping the function" in text:
            stack = FRAME.findall(text.partition("User code traceback:")[2]) + FRAME_SKIPPED.findall(text)
            known["skipped"] += [[file, int(number)] for file, number in (*stack, (path, line))]

    def rows(self) -> list[dict[str, Any]]:
        """The distinct sites as plain data."""
        return [{"gb_id": key[0], "path": key[1], "line": key[2], **rest} for key, rest in self.sites.items()]


def reason(text: str) -> str:
    """The first line of a break message that says what was met."""
    found = REASON.search(text)
    if found is None:
        return ""
    first = found[1].strip()
    if first.startswith(PREAMBLE):
        rest = [line.strip() for line in text[found.end() :].splitlines() if line.strip()]
        first = next((line for line in rest if not line.startswith(NOT_A_REASON)), first)
    return first[:120]


def attach() -> BreakLog:
    """A log that hears Dynamo from now on, proven by a function with one known break."""
    logging.disable(logging.NOTSET)  # user code may have silenced everything
    torch._logging.set_logs(graph_breaks=True, recompiles=True, dynamo=logging.CRITICAL)  # type: ignore[attr-defined]
    log = BreakLog()
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch") and name.endswith(("__graph_breaks", "__recompiles")):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [log], False
    torch._dynamo.reset()
    torch.compile(canary, backend="eager")(torch.ones(1))
    if not log.sites:
        raise RuntimeError("the graph-break log is silent on a known break")
    torch._dynamo.reset()
    log.clear()
    return log


def canary(value: torch.Tensor) -> torch.Tensor:
    """A function with one graph break."""
    value = value + 1
    torch._dynamo.graph_break()
    return value * 2


def warm_up() -> None:
    """Load what compiling loads late, so that forks find it; not with an accelerator, whose start would forbid forks."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or accelerator.current_accelerator() is not None:
        return
    torch.compile(canary, backend="aot_eager")(torch.ones(1, requires_grad=True))
    torch._dynamo.reset()


class Counting:
    """A backend that counts the graphs it is given."""

    def __init__(self, name: str) -> None:
        self.inner = torch._dynamo.lookup_backend(name)
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        self.graphs += 1
        return self.inner(module, inputs)


def has_break(compile_and_call: Callable[[], object]) -> bool | None:
    """Dynamo's exact answer to "does it break"; None where this torch cannot say."""
    guard = getattr(torch._dynamo, "error_on_graph_break", None)
    if guard is None:
        return None
    torch._dynamo.reset()
    try:
        with guard(True):
            compile_and_call()
    except torch._dynamo.exc.Unsupported:
        return True
    except (Exception, SystemExit):
        # The user's own exception, or one that the compiled comparison reports.
        return None
    return False


def device_of(found: Iterator[torch.Tensor]) -> str:
    """The device of the first tensor, by name."""
    tensor = next(found, None)
    kind = "cpu" if tensor is None else tensor.device.type
    if kind == "cuda":
        return torch.cuda.get_device_name(tensor.device if tensor is not None else None)
    return "CPU" if kind == "cpu" else kind


def synchronize() -> None:
    """Wait for the accelerator, where there is one in use."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        accelerator.synchronize()


def timed(step: Callable[[], object], count: int, budget_s: float) -> list[float]:
    """Milliseconds of up to `count` calls, at least one."""
    samples: list[float] = []
    started = time.perf_counter()
    while len(samples) < count and (not samples or time.perf_counter() - started < budget_s):
        synchronize()
        before = time.perf_counter()
        step()
        synchronize()
        samples.append((time.perf_counter() - before) * 1e3)
    return samples


def usable_backend() -> tuple[str, str]:
    """inductor, or aot_eager and the reason why inductor cannot be used here."""
    device = "cpu"
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        device = accelerator.current_accelerator().type
    torch._dynamo.reset()
    try:
        torch.compile(lambda value: value.sin() + 1)(torch.ones(8, device=device))
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0][:100]
        return "aot_eager", f"inductor cannot be used here ({type(error).__name__}: {text})"
    finally:
        torch._dynamo.reset()
    return "inductor", ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what timed calls print."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
