"""How benchmarks/facts compares findings with what Dynamo did."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "facts"
NAMES = ("recipes", "observe", "places", "run")
TEXT = """\
def f(x, flag):
    if flag and (
        x.isnan().any()
        or x.max() > 3
    ):
        x = (
            x
            + 1
        )
        return x
    y = x.sum()
    return x if y > 0 else y
"""
FILE = "transformers/m.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module run.py."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("run")
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def library(bench: ModuleType, tmp_path: Path) -> Any:
    """A library of one file."""
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(TEXT)
    library = bench.Library.__new__(bench.Library)
    library.root, library._files = tmp_path / "transformers", {}
    return library


def test_statements(library: Any) -> None:
    statements = library.file(FILE)
    assert [statements.at(line) for line in range(1, 13)] == [1, 2, 2, 2, 2, 6, 6, 6, 6, 10, 11, 12]
    assert statements.lines(4) == {2, 3, 4, 5}
    assert statements.source(4) == "or x.max() > 3"
    assert statements.listed() == {(3, 8)}


def finding(line: int, column: int, certain: bool = True) -> dict[str, Any]:
    """A finding as the command reports it, in the file of the library."""
    place = {"row": line, "column": column + 1}
    return {"filename": FILE, "location": place, "certain": certain, "code": "GBF101"}


def test_findings_and_recall(bench: ModuleType, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = {"findings": [finding(3, 8), finding(12, 16, certain=False)]}
    found = bench.findings(report, library, certain=False)
    assert found.starts == {(FILE, 2): {(3, 8)}, (FILE, 12): {(12, 16)}}
    assert set(bench.findings(report, library, certain=True).starts) == {(FILE, 2)}
    sites = [{"file": FILE, "line": 4, "gb_id": "GB0170"}, {"file": FILE, "line": 11, "gb_id": "GB0124"}]
    assert bench.recall(found, sites) == {"sites": 2, "found": 1, "by_id": {"GB0124": [0, 1], "GB0170": [1, 1]}}
    assert [(miss["line"], miss["reason"]) for miss in bench.misses(found, sites)] == [(11, "not looked at yet")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"runs": [{"breaks": [[FILE, 4, "GB0170"]]}]}, "broke"),
        ({"traced": {FILE: "2-4"}}, "clean"),
        ({"traced": {FILE: "2-4"}, "skipped": {FILE: {"3": [8]}}}, "not run"),
        ({"traced": {FILE: "2-4"}, "executed": {}}, "not run"),
        ({"reads": {FILE: "4"}}, "read"),
        ({}, "unread"),
    ],
)
def test_what_came_of_a_finding(bench: ModuleType, library: Any, data: dict[str, Any], expected: str) -> None:
    nothing = {"runs": [], "traced": {}, "executed": {FILE: "1-4"}, "reads": {}, "skipped": {}}
    assert bench.Truth({**nothing, **data}, library).of((FILE, 2), {(3, 8)}) == expected


def test_lines_are_packed(bench: ModuleType) -> None:
    observe = sys.modules["observe"]
    assert observe.packed({"b": {3, 1, 2, 9}, "a": {4}}) == {"a": "4", "b": "1-3,9"}
    assert observe.unpacked({"a": "4", "b": "1-3,9"}) == {"a": {4}, "b": {1, 2, 3, 9}}


def test_skipped_is_what_no_run_got_to(bench: ModuleType) -> None:
    runs = [
        {"executed": {"a": "1-2"}, "skipped": {"a": {"1": [4, 8], "2": [3]}}},
        {"executed": {"a": "1"}, "skipped": {"a": {"1": [8]}}},
        {"executed": {"b": "1"}, "skipped": {}},
    ]
    assert sys.modules["observe"].always_skipped(runs) == {"a": {"1": [8], "2": [3]}, "b": {}}


def test_every_recipe_names_a_mode(bench: ModuleType) -> None:
    recipes = sys.modules["recipes"].load()
    assert len(recipes) == 48
    assert sum(recipe.get("control", False) for recipe in recipes.values()) == 12
    assert all(set(recipe["modes"]) <= {"eval", "train"} and recipe["modes"] for recipe in recipes.values())
