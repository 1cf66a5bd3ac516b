"""Child processes that run user code, and their ends: an answer, a death, or a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from gbfix.errors import GbfixError

WORKER = Path(__file__).with_name("worker.py")
START_S = 120.0
Reply = dict[str, Any]
# These change what is compiled or where the break log goes: the report would not be about default mode.
DROPPED = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
ADVICE = "set GBFIX_PYTHON to the interpreter of your project"


class SideLost(Exception):
    """A side that gives no answer: it died or it ran past the limit. The message ends a sentence about it."""


class SideError(Exception):
    """A side that says why the user's code cannot be used. `where` is `path:line` or empty."""

    def __init__(self, message: str, where: str = "", is_internal: bool = False) -> None:
        super().__init__(message)
        self.where, self.is_internal = where, is_internal


class Link:
    """JSON lines to and from one process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.data = b""
        self.last = ""

    def send(self, request: Reply, descriptor: int | None = None) -> None:
        """Send one request, with a file descriptor where one is given."""
        line = json.dumps(request).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # receive() will tell
            if descriptor is None:
                self.connection.sendall(line)
            else:
                socket.send_fds(self.connection, [line], [descriptor])

    def receive(self, deadline: float) -> Reply | None:
        """The next reply; None when the process has hung up. Raises TimeoutError at the deadline."""
        while True:
            while b"\n" in self.data:
                line, _, self.data = self.data.partition(b"\n")
                message = json.loads(line)
                if "reply" in message:
                    reply: Reply = message["reply"]
                    return reply
                self.last = message["at"]
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.connection], [], [], left)[0]:
                raise TimeoutError
            try:
                part = self.connection.recv(1 << 16)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self.data += part


class Side:
    """One side, original or rewritten, in a process of its own."""

    def __init__(self, session: Session, link: Link, process: int, log: Path) -> None:
        self.session, self.link, self.process, self.log = session, link, process, log
        self.lost = ""

    def send(self, operation: str, **arguments: Any) -> None:
        """Ask for something; `receive` gives the answer."""
        self.link.send({"do": operation, **arguments})

    def receive(self, deadline: float) -> Reply:
        """The answer to the last request."""
        if self.lost:
            raise SideLost(self.lost)
        try:
            reply = self.link.receive(deadline)
        except TimeoutError:
            self.lost = f"did not return in time {self.link.last}".strip()
            self.close()
            raise SideLost(self.lost) from None
        if reply is None:
            self.lost = f"{self.death()} {self.link.last}".strip()
            raise SideLost(self.lost)
        if "error" in reply:
            raise SideError(reply["error"], reply["where"], reply.get("internal", False))
        return reply

    def ask(self, operation: str, deadline: float, **arguments: Any) -> Reply:
        """Ask and wait for the answer."""
        self.send(operation, **arguments)
        return self.receive(deadline)

    def death(self) -> str:
        """How the process ended, as the end of a sentence."""
        status = self.session.reap(self.process)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            place = re.search(r'^\s*File "([^"]+)", line (\d+)', self.tail(), re.M)
            at = f" at {place[1]}:{place[2]}" if place else ""
            return f"crashed with {signal.Signals(-code).name}{at}"
        return f"ended the process with exit code {code}"

    def tail(self) -> str:
        """The end of what the process printed."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def close(self) -> None:
        """End the process with everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)
        self.link.connection.close()


class Session:
    """The child processes of one verification and their private folder. Use as a context manager."""

    def __init__(self) -> None:
        self.python = os.environ.get("GBFIX_PYTHON") or sys.executable
        self.sides: list[Side] = []
        self.host: Link | None = None
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.versions: Reply = {}
        # A process that has loaded macOS frameworks must not be forked.
        self.forks = sys.platform.startswith("linux")

    def __enter__(self) -> Session:
        self.folder = Path(tempfile.mkdtemp(prefix="gbfix-"))
        try:
            if self.forks:
                self.host, _ = self.start(self.folder / "host.log")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for side in self.sides:
            side.close()
        if self.host is not None:
            self.host.connection.close()
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """The children's environment: repeatable, and quiet on the disk."""
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        kept |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        kept.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking for a GPU must not spoil a later fork
        kept.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.folder / "inductor"))
        kept.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        return kept

    def start(self, log: Path, *arguments: str) -> tuple[Link, subprocess.Popen[bytes]]:
        """A worker process that has imported torch."""
        mine, theirs = socket.socketpair()
        command = [self.python, str(WORKER), str(theirs.fileno()), *arguments]
        try:
            with theirs, log.open("ab") as out:
                process = subprocess.Popen(
                    command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True, env=self.environment(),
                )  # fmt: skip
        except OSError as error:
            mine.close()
            raise GbfixError(f"{self.python}: {error.strerror}; {ADVICE}") from None
        self.processes[process.pid] = process
        link = Link(mine)
        try:
            ready = link.receive(time.monotonic() + START_S)
        except TimeoutError:
            ready = None
        if ready is None:
            mine.close()
            raise GbfixError(self.no_start(log.read_text(errors="replace")))
        self.versions = ready
        return link, process

    def no_start(self, printed: str) -> str:
        """Why a worker did not start."""
        if "No module named 'torch'" in printed:
            return f"{self.python} has no torch; install gbfix[verify] or {ADVICE}"
        last = (printed.strip().splitlines() or ["no message"])[-1]
        return f"{self.python} could not start the verifier: {last}"

    def open_side(self) -> Side:
        """A new process for one side."""
        log = self.folder / f"side-{len(self.sides)}.log"
        if self.host is None:
            link, started = self.start(log, "side")
            process = started.pid
        else:
            mine, theirs = socket.socketpair()
            self.host.send({"do": "fork", "log": str(log)}, theirs.fileno())
            theirs.close()
            reply = self.host.receive(time.monotonic() + START_S)
            if reply is None:
                raise GbfixError("the verifier's process ended unexpectedly")
            link, process = Link(mine), int(reply["process"])
        side = Side(self, link, process, log)
        self.sides.append(side)
        return side

    def reap(self, process: int) -> int:
        """The wait status of a side that has hung up."""
        if process in self.processes:
            code = self.processes[process].wait()
            return -code if code < 0 else code << 8
        assert self.host is not None
        self.host.send({"do": "reap", "process": process})
        reply = self.host.receive(time.monotonic() + START_S)
        return int(reply["status"]) if reply else 0
