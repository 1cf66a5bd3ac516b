"""Serve the requests of the driver: fork sides off, load user code, observe, compare, compile and time it."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import faulthandler
import functools
import io
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo

from . import measure
from .compare import compare_all
from .inputs import Arguments, Case, checked, duplicate, plan
from .overlay import LoadError, Overlay, find, told, where
from .record import Record, Target, record_case, tracing, unwrapped
from .snapshot import seed, tensors

Reply = dict[str, Any]
AOT_LOOSEN = 1.0
INDUCTOR_LOOSEN = 10.0
WARM_UP = 5


class Channel:
    """JSON lines over a socket."""

    def __init__(self, number: int) -> None:
        self.socket = socket.socket(fileno=number)

    def send(self, message: Reply) -> None:
        """Send one message."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def requests(self) -> Iterator[tuple[Reply, int | None]]:
        """The requests one by one, each with a file descriptor that came along or None; ends with the connection."""
        data = b""
        while True:
            part, numbers, _, _ = socket.recv_fds(self.socket, 1 << 20, 1)
            if not part:
                return
            data += part
            while b"\n" in data:
                line, _, data = data.partition(b"\n")
                yield json.loads(line), numbers[0] if numbers else None


def compiled_with(backend: str | measure.Counting, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled in default mode: `fullgraph=True` would turn on capture that users do not have."""
    result: Callable[..., Any] = torch.compile(function, backend=backend)
    return result


class Side:
    """One side of the comparison in its own process: the user's code, original or rewritten."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.cases: list[Case] = []
        self.eager: list[Record] = []
        self.step: Callable[[], object] | None = None

    def at(self, what: str) -> None:
        """Tell the driver what is about to run: the last word of a process that dies."""
        self.channel.send({"at": what})

    def load(self, files: dict[str, str], entry: str, inputs: str | None) -> Reply:
        """Import the user's code through the overlay, build it once and call it once."""
        self.overlay = Overlay({path: base64.b64decode(source) for path, source in files.items()})
        self.overlay.install()
        sys.argv = [entry]
        self.stance = b"compile" in b"".join(self.overlay.files.values())
        self.at(f"on import of {entry}")
        self.module, self.build = find(self.overlay, entry, "build", "_gbfix_entry")
        self.make_inputs = getattr(self.module, "make_inputs", None)
        self.inputs_name = "make_inputs()"
        if inputs:
            _, self.make_inputs = find(self.overlay, inputs, "make_inputs", "_gbfix_inputs")
            self.inputs_name = inputs
        if self.make_inputs is None:
            raise LoadError("there are no inputs: define make_inputs() beside the entry or name it with --inputs")
        self.at("in build()")
        target = self.built()
        self.at("in make_inputs()")
        self.inputs = self.made()
        # Two sides run at the same time.
        self.threads = torch.get_num_threads()
        torch.set_num_threads(max(1, self.threads // 2))
        self.at("on the first call")
        call_s = 0.0
        for _ in range(2):
            started = time.perf_counter()
            with contextlib.suppress(Exception, SystemExit), measure.quiet(), self.eagerly():
                args, kwargs = self.copy(0)
                target.function(*args, **kwargs)
            call_s = time.perf_counter() - started
        return {
            "inputs": len(self.inputs),
            "has_weights": bool(target.parameters),
            "floating": any(tensor.is_floating_point() for tensor in tensors(self.inputs)),
            "call_s": call_s,
            "device": measure.device_of(tensors([self.inputs, *target.parameters.values()])),
        }

    def called(self, function: Any, what: str) -> Any:
        """What a seeded function of the user's returns; whatever goes wrong is a LoadError."""
        if not callable(function):
            raise LoadError(f"{what} is not callable but {type(function).__name__}")
        seed()
        try:
            with measure.quiet():
                return function()
        except BaseException as error:
            raise LoadError(f"{what} {told(error)}", where(error)) from None

    def built(self) -> Target:
        """A fresh target."""
        function = unwrapped(self.called(self.build, "the entry"))
        if not callable(function):
            kind = type(function).__name__
            raise LoadError(f"the entry returned {kind}, which is not callable; return a module or function")
        return Target(function, getattr(self.module, "observe", None))

    def made(self) -> list[Arguments]:
        """Fresh inputs."""
        return checked(self.called(self.make_inputs, self.inputs_name), self.inputs_name)

    def made_at(self, index: int) -> Arguments:
        """One input made anew."""
        return self.made()[index]

    def copy(self, index: int) -> Arguments:
        """One input to be used up."""
        return duplicate(self.inputs[index], functools.partial(self.made_at, index))

    @contextlib.contextmanager
    def eagerly(self) -> Iterator[None]:
        """Run without compiling, also where the user's code applies `torch.compile` itself."""
        stance = getattr(torch.compiler, "set_stance", None) if self.stance else None
        with stance("force_eager") if stance else contextlib.nullcontext():
            yield

    def run(self, target: Target, cases: list[Case], via: Callable[..., Any], stage: str) -> list[Record]:
        """The records of some cases."""
        records: list[Record] = []
        for case in cases:
            self.at(f"on {case.label} ({stage})")
            records += record_case(target, via, case, self.inputs, functools.partial(self.made_at, case.index))
        return records

    def observe(self, mutated: int, out: str, trace: bool) -> Reply:
        """Run every case eagerly; the records go to a file."""
        target = self.built()
        self.cases = plan(self.inputs, mutated, bool(target.parameters))
        reached: dict[str, set[int]] = {}
        context = tracing(set(self.overlay.files), reached) if trace else contextlib.nullcontext()
        with self.eagerly(), context:
            self.eager = self.run(target, self.cases, target.function, "eager")
        torch.save(self.eager, out)
        return {
            "calls": len(self.eager),
            "made": len({(case.index, case.mutator) for case in self.cases if case.mutator}),
            "all_raise": all(record["raises"] for record in self.eager if not record["extreme"]),
            "raised": next((f"{r['raises']}: {r['text']}".splitlines()[0] for r in self.eager if r["raises"]), ""),
            "reached": {path: sorted(lines) for path, lines in reached.items()},
            "served": sorted(self.overlay.served),
        }

    def compare(self, other: str) -> Reply:
        """What differs from the other side's eager records."""
        return {"differences": compare_all(torch.load(other, weights_only=True), self.eager)}

    def breaks(self) -> Reply:
        """Graph breaks of the given inputs in default mode, and what differs there from eager."""
        target = self.built()
        given = [case for case in self.cases if not case.mutator and case.mode == "plain"]
        with measure.quiet(), contextlib.suppress(Exception, SystemExit):
            args, kwargs = self.copy(0)
            target.function(*args, **kwargs)
        torch._dynamo.reset()
        log = measure.attach()
        backend = measure.Counting("eager")
        records = self.run(target, given, compiled_with(backend, target.function), "compiled, backend eager")
        sites, recompiles = log.rows(), log.recompiles
        self.at("on the exact break check")
        target.restore()

        def once() -> None:
            function = compiled_with("eager", target.function)
            for index in range(len(self.inputs)):
                args, kwargs = self.copy(index)
                function(*args, **kwargs)

        with measure.quiet():
            exact = measure.has_break(once)
        torch._dynamo.reset()
        return {
            "sites": sites,
            "graphs": backend.graphs,
            "recompiles": recompiles,
            "clean": None if exact is None else not exact,
            "differences": compare_all(self.eager, records, AOT_LOOSEN),
        }

    def compiled(self, backend: str) -> Reply:
        """What differs from eager when compiled: given inputs with and without gradients, changed ones without."""
        target = self.built()
        cases = [case for case in self.cases if case.mode == "plain" or (case.mode == "grad" and not case.mutator)]
        torch._dynamo.reset()
        function = compiled_with(backend, target.function)
        records = self.run(target, cases, function, f"compiled, backend {backend}")
        torch._dynamo.reset()
        return {"differences": compare_all(self.eager, records, AOT_LOOSEN)}

    def prepare(self, backend: str) -> Reply:
        """Compile for timing, compare once, warm up; without a backend named, find a usable one."""
        note = ""
        torch.set_num_threads(self.threads)
        if not backend:
            self.at("on a trial of inductor")
            backend, note = measure.usable_backend()
        target = self.built()
        torch._dynamo.reset()
        function = compiled_with(backend, target.function)
        given = [case for case in self.cases if not case.mutator and case.mode == "no_grad"]
        records = self.run(target, given, function, f"compiled, backend {backend}")
        target.restore()
        copies = [self.copy(index) for index in range(len(self.inputs))]

        def step() -> None:
            with torch.no_grad():
                for args, kwargs in copies:
                    function(*args, **kwargs)

        self.step = step
        self.at("on warm-up")
        failed = ""
        try:
            with measure.quiet():
                warm = measure.timed(step, WARM_UP, 60.0)
        except (Exception, SystemExit) as error:
            failed, warm = told(error), [0.0]
        differences = compare_all(self.eager, records, INDUCTOR_LOOSEN)
        return {"backend": backend, "note": note, "failed": failed, "call_ms": warm[-1], "differences": differences}

    def time(self, count: int, budget_s: float) -> Reply:
        """Some timed passes over the given inputs."""
        assert self.step is not None
        with measure.quiet():
            return {"samples_ms": measure.timed(self.step, count, budget_s)}


def serve_side(channel: Channel) -> None:
    """Answer requests about one side until the driver hangs up."""
    side = Side(channel)
    for request, _ in channel.requests():
        operation = request.pop("do")
        try:
            reply = getattr(side, operation)(**request)
        except LoadError as error:
            reply = {"error": str(error), "where": error.where}
        except Exception as error:
            reply = {"error": f"internal error in {operation}: {told(error)}", "where": "", "internal": True}
            traceback.print_exc()
        channel.send({"reply": reply})


def fork(number: int, log: str, channel: Channel) -> int:
    """A new process that serves one side on the given descriptor; its id."""
    process = os.fork()
    if process:
        os.close(number)
        return process
    status = 1
    try:
        channel.socket.close()
        os.setsid()
        die_with_parent()
        redirect(log)
        serve_side(Channel(number))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def die_with_parent() -> None:
    """Ask Linux to kill this process when the one it was forked from ends; a hang must not outlive gbfix."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def redirect(log: str) -> None:
    """Send everything printed to a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    faulthandler.enable()


def reap(process: int) -> int:
    """The wait status of a forked process that is ending, killed if it will not."""
    for _ in range(100):
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def main(number: int) -> None:
    """Serve the driver: fork sides off on demand, or be one side where processes cannot be forked safely."""
    channel = Channel(number)
    faulthandler.enable()
    channel.send({"reply": {"torch": torch.__version__, "python": sys.version.split()[0]}})
    sys.stdin = io.StringIO()
    if len(sys.argv) > 2 and sys.argv[2] == "side":
        serve_side(channel)
        return
    measure.warm_up()
    for request, descriptor in channel.requests():
        if request["do"] == "fork":
            assert descriptor is not None
            channel.send({"reply": {"process": fork(descriptor, request["log"], channel)}})
        else:
            channel.send({"reply": {"status": reap(request["process"])}})
