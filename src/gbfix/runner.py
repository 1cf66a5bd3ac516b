"""Many files through the engine: in processes where it pays, in stable order, one file's crash that file's trouble."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from gbfix import engine
from gbfix.engine import Outcome
from gbfix.errors import Trouble
from gbfix.facts.lattice import DEFAULT_SCOPE, Scope
from gbfix.rule import Rule

# Starting processes costs more than this many files.
_WORTH_IT = 8


@dataclass(frozen=True)
class Task:
    """One text to run, under the name that outputs show, with the rules that hold for it."""

    path: str
    source: bytes
    rules: tuple[type[Rule], ...]
    unsafe: bool = False
    fix: bool = True
    scope: Scope = DEFAULT_SCOPE


def run(
    tasks: Sequence[Task],
    jobs: int | None = None,
    advance: Callable[[], None] = lambda: None,
    start_method: str | None = None,
) -> list[Outcome]:
    """The outcomes of all tasks, in their order. `advance` is called after each file; `jobs` None means one a CPU."""
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    outcomes = []
    for outcome in (
        _in_processes(tasks, jobs, start_method) if jobs > 1 and len(tasks) > _WORTH_IT else map(_one, tasks)
    ):
        outcomes.append(outcome)
        advance()
    return outcomes


def _one(task: Task) -> Outcome:
    try:
        return engine.run(task.source, task.path, task.rules, unsafe=task.unsafe, fix=task.fix, scope=task.scope)
    except Exception as error:
        return _failed(task, f"gbfix crashed here: {type(error).__name__}: {error}", traceback.format_exc())


def _failed(task: Task, message: str, detail: str = "") -> Outcome:
    trouble = Trouble(task.path, "crash", message, detail=detail)
    return Outcome(task.path, task.source, task.source, (), (), (trouble,))


def _quiet() -> None:
    """Let Ctrl-C end a worker without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _in_processes(tasks: Sequence[Task], jobs: int, start_method: str | None) -> Iterator[Outcome]:
    """Outcomes in order. After a process died, one process goes on, so that the next death tells the file at fault."""
    context = multiprocessing.get_context(start_method)
    done = 0
    while done < len(tasks):
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=_quiet) as pool:
            futures: list[Future[Outcome]] = []
            try:
                for task in tasks[done:]:
                    futures.append(pool.submit(_one, task))
                for future in futures:
                    yield future.result()
                    done += 1
            except BrokenProcessPool:
                if jobs == 1:
                    yield _failed(tasks[done], "the process that checked this file died")
                    done += 1
                jobs = 1
            except BaseException:
                for child in multiprocessing.active_children():
                    child.terminate()
                raise
