"""README's numbers are those of the result files, and the renderer says so when they are not."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load(path: str) -> ModuleType:
    """A file of benchmarks/ as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{Path(path).stem}", ROOT / "benchmarks" / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def render() -> ModuleType:
    """The renderer."""
    return load("render.py")


def result(**after: Any) -> dict[str, Any]:
    """A result file of one row."""
    site = {"path": "transformers/models/m/modeling_m.py", "gb_id": "GB0170", "line": 7}
    side = {"breaks": 2, "sites": [site], "recompiles": 0, "tensors": 3, "compiled_max_abs": 0.0}
    clean = {**side, "breaks": 0, "sites": [], "eager_equal": True, **after}
    row = {"row": "m", "stands_for": 4, "tolerance": 1e-5, "before": side, "after": clean}
    run = {"command": "gbfix --fix m", "seconds": 1.2, "files": 9, "changed": ["m.py"]}
    versions = {"torch": "2.13.0", "transformers": "4.52.4", "python": "3.11.7", "device": "d", "backend": "aot_eager"}
    return {"date": "2026-01-01", "commit": "0" * 40, "gbfix": "0.1.0", **versions, "run": run, "rows": [row]}


def test_readme_says_what_was_measured(render: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert render.rendered(readme) == readme


def test_the_result_file_has_every_row_and_no_failure() -> None:
    data = json.loads((ROOT / "benchmarks" / "results" / "models.json").read_text(encoding="utf-8"))
    rows = load("models/rows.py")
    assert [row["row"] for row in data["rows"]] == list(rows.ROWS)
    assert [row["before"]["breaks"] for row in data["rows"]] == [row.breaks for row in rows.ROWS.values()]


def test_what_is_missed_and_what_does_not_break_has_a_reason() -> None:
    data = json.loads((ROOT / "benchmarks" / "results" / "facts.json").read_text(encoding="utf-8"))
    assert data["models"] == len(
        json.loads((ROOT / "benchmarks" / "facts" / "recipes.json").read_text(encoding="utf-8"))
    )
    assert [row for row in (*data["misses"], *data["not_broken"]) if row["reason"] == "not looked at yet"] == []


def test_what_is_found(render: ModuleType) -> None:
    recall = {"sites": 8, "found": 6, "by_id": {"GB0170": [5, 6], "GB0124": [1, 2]}}
    way = {"recall": recall, "precision": {"broke": 6, "clean": 2, "read": 1, "unread": 3}}
    nothing = {"recall": {**recall, "found": 0}, "precision": {"broke": 0, "clean": 0, "read": 0, "unread": 0}}
    whole = {"seconds": 20.0, "peak_mb": 300}
    speed = {"files": 9, "lines": 12345, "parse_s": 2.0, "facts_s": 5.0, "peak_mb": 120, "whole": whole}
    counts = {"models": 3, "runs": 4, **dict.fromkeys(render.WAYS, way), "list": nothing}
    text = render.facts({**result(), **counts, "speed": speed})
    assert "| gbfix | 6 of 8 | 8 | 6 (75%) |" in text
    assert "| `if` tests that call one of 16 methods | 0 of 8 | 0 | 0 |" in text
    assert "GB0170 5 of 6, GB0124 1 of 2" in text
    assert "4 more findings lie in code that ran but that Dynamo had given up" in text
    assert "; 1 of them read tensor data." in text
    assert "5 s for 9 files (12,345 lines), 2.5 times `ast.parse` alone, at most 120 MB" in text


def test_a_row(render: ModuleType) -> None:
    text = render.models(result())
    assert "| m | 4 | 2 | 0 | - | equal (3 tensors) | equal | 0 → 0 |" in text
    assert "Over the 4 rows of GraphMend's table that these stand for: 8 graph breaks before, 0 after." in text


def test_what_went_wrong_is_marked(render: ModuleType) -> None:
    text = render.models(result(eager_equal=False, compiled_max_abs=0.5))
    assert "| **differ** | **5e-01** |" in text


def test_a_failed_row_is_not_rendered(render: ModuleType) -> None:
    with pytest.raises(ValueError, match="a row failed"):
        render.models(result(error="ImportError"))


def test_missing_markers_are_an_error(render: ModuleType) -> None:
    with pytest.raises(ValueError, match="markers"):
        render.fill("no markers here", "models", "text")
