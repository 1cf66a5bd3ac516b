"""Many files: order, processes, and what a crash costs."""

from __future__ import annotations

import multiprocessing

import fake_engine
import pytest

from gbfix import engine, runner
from gbfix.runner import Task

forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork to carry a fake")


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "run", fake_engine.run)


def tasks(*texts: str) -> list[Task]:
    return [Task(f"f{index}.py", text.encode(), fake_engine.RULES) for index, text in enumerate(texts)]


@forks
@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_keep_the_order_of_tasks(jobs: int) -> None:
    given = tasks(*(f"graph_break()\nx = {index}\n" for index in range(20)))
    seen: list[int] = []
    outcomes = runner.run(given, jobs, lambda: seen.append(1), "fork")
    assert [outcome.path for outcome in outcomes] == [task.path for task in given]
    assert [outcome.source for outcome in outcomes] == [f"x = {index}\n".encode() for index in range(20)]
    assert len(seen) == 20


@forks
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_raise_costs_one_file(jobs: int) -> None:
    outcomes = runner.run(tasks(*["x = 1\n"] * 5, "crash!\n", *["x = 1\n"] * 5), jobs, start_method="fork")
    (trouble,) = [trouble for outcome in outcomes for trouble in outcome.troubles]
    assert (trouble.path, trouble.kind, trouble.message) == (
        "f5.py",
        "crash",
        "gbfix crashed here: ValueError: told to crash",
    )
    assert "fake_engine.py" in trouble.detail
    assert outcomes[5].source == b"crash!\n"


@forks
def test_a_dead_process_costs_one_file() -> None:
    texts = ["x = 1\n"] * 12
    texts[3] = texts[9] = "die!\n"
    outcomes = runner.run(tasks(*texts), 2, start_method="fork")
    assert [outcome.path for outcome in outcomes if outcome.troubles] == ["f3.py", "f9.py"]
    assert {trouble.message for outcome in outcomes for trouble in outcome.troubles} == {
        "the process that checked this file died"
    }


def test_processes_may_be_spawned() -> None:
    given = [Task(f"f{index}.py", b"x = 1\n", ()) for index in range(9)]
    outcomes = runner.run(given, 2, start_method="spawn")
    assert [outcome.path for outcome in outcomes] == [task.path for task in given]
    assert not [trouble for outcome in outcomes for trouble in outcome.troubles if "died" in trouble.message]


def test_few_files_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "ProcessPoolExecutor", None)
    assert len(runner.run(tasks(*["x = 1\n"] * 8), 8)) == 8
