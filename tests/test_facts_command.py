"""`gbfix facts FILE:LINE[:COLUMN]`: what is known of a place, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gbfix import cli
from gbfix.facts.lattice import Kind, Value
from gbfix.report.facts import words

TEXT = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        steps=3,
    ):
        y = self.norm(x)
        score = x.sum()
        if score > 0 and torch.isfinite(y).all():
            y = y * 2
        if mask is not None and mask.any().item():
            print(steps)

        if not torch.compiler.is_compiling():
            y = y + score
        for row in x:
            y = y + row
        return self.end(y)

    def end(self, y):
        return "été", y.max()


def unused(n):
    return n
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder with m.py; its exit code, stdout and stderr."""
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str, str]:
        code = cli.run(["facts", *args])
        return code, *capsys.readouterr()

    return run


def test_a_line(run: Run) -> None:
    assert run("m.py:18") == (
        0,
        """\
m.py:18: in `Model.forward`, compiled (entry: `Model.forward`)

  18:12: `score > 0 and torch.isfinite(y).all()`: 0-dim bool tensor; certain
      line 18: `score > 0 and torch.isfinite(y).all()`: a comparison with a tensor
      line 17: `score = x.sum()`: the result of `sum`
      line 12: parameter `x: torch.Tensor`: `x` is annotated torch.Tensor
  18:12: `score`: 0-dim tensor; dtype made at line 17; certain
  18:26: `torch.isfinite(y).all()`: 0-dim bool tensor; certain
      line 18: `torch.isfinite(y).all()`: the result of `all`
      line 18: `torch.isfinite(y)`: the result of `isfinite`
  18:26: `torch.isfinite(y)`: bool tensor; shape made at line 16; certain
  18:41: `y`: tensor; dtype made at line 16; shape made at line 16; certain
      line 16: `y = self.norm(x)`: the output of LayerNorm

  site: branch, certain
""",
        "",
    )


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("18:12", ["`score`: 0-dim tensor; dtype made at line 17; certain"]),
        ("18:18", ["`score > 0`: 0-dim bool tensor; certain"]),
        ("18:20", ["`0`: Python int; always 0; certain"]),
        ("18:26", ["`torch.isfinite(y)`: bool tensor; shape made at line 16; certain"]),  # what a call names is the call
        ("18:32", ["`torch.isfinite(y)`: bool tensor; shape made at line 16; certain"]),
        ("16:13", ["`self`: module `Model`; certain"]),
        ("16:18", ["`self.norm`: module `torch.nn.LayerNorm`; certain"]),
        ("16:9", ["`y`: tensor; dtype made at line 16; shape made at line 16; certain", "line 16: `self.norm(x)`: the output of"]),
        ("19:13", ["`y`: tensor"]),
        ("13", ["`mask: torch.Tensor | None`: tensor, or None; dtype that of `mask`; shape that of `mask`; certain", "line 13: parameter"]),
        ("20:45", ["`mask.any().item()`: plain Python value; read from a tensor's data; certain", "site: read `item`, certain"]),
        ("21", ["`print(steps)`", "`steps`: Python int; certain", "site: call `print`, certain"]),
        ("24", ["`score`: not looked at"]),
        ("26", ["line 25: `for row in x`"]),
        ("30", ["in `Model.end`, compiled (called from `forward`)", "30:23: `y.max()`: 0-dim tensor"]),
        ("30:21", ["`('été', y.max())`: tuple of 2; certain"]),
        ("33", ["in `unused`, not known to be compiled", "`n`: not known", "no sites: the function does not count as compiled"]),
    ],
)  # fmt: skip
def test_places(run: Run, place: str, expected: list[str]) -> None:
    code, out, err = run(f"m.py:{place}")
    assert (code, err) == (0, "")
    for text in expected:
        assert text in out


def test_code_that_dynamo_does_not_reach(run: Run) -> None:
    assert "`score`: not looked at: no path that Dynamo traces gets here" in run("m.py:24")[1]


def test_an_import(run: Run) -> None:
    _, out, _ = run("m.py:23:16")
    assert "23:16: `torch.compiler.is_compiling()`: Python bool; always True; certain" in out


def test_json(run: Run) -> None:
    code, out, err = run("m.py:20:33", "--output-format", "json")
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    assert (data["filename"], data["row"], data["column"], data["function"]) == ("m.py", 20, 33, "Model.forward")
    assert data["compiled"] == {"certain": True, "entry": True, "why": "`Model.forward`"}
    (found,) = data["expressions"]
    assert (found["text"], found["location"], found["end_location"]) == (
        "mask",
        {"row": 20, "column": 33},
        {"row": 20, "column": 37},
    )
    assert found["value"] == {
        "kind": "tensor", "tensor": "yes", "certain": True, "optional": False, "zero_dim": False, "bool": False,
        "dtype": "d:mask", "shape": "s:mask", "parameter": False, "read": False, "class": None,
    }  # fmt: skip
    assert found["reasons"] == ["line 13: parameter `mask: torch.Tensor | None`: `mask` is annotated torch.Tensor"]
    assert [site["kind"] for site in data["sites"]] == ["branch", "read"]
    assert json.loads(run("m.py:33", "--output-format", "json")[1])["compiled"] is None
    assert json.loads(run("m.py:24", "--output-format", "json")[1])["expressions"][-1]["value"] is None


def test_settings_count(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gbfix.toml").write_text('entry-points = ["unused"]\n')
    assert "in `unused`, compiled (entry: an entry point: `unused`)" in run("m.py:33")[1]
    assert "in `unused`, not known to be compiled" in run("m.py:33", "--isolated")[1]
    assert "every function is assumed" in run("m.py:33", "--isolated", "--config", "assume-compiled = true")[1]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("m.py", "Invalid value for PLACE: 'm.py' is not FILE:LINE or FILE:LINE:COLUMN"),
        ("m.py:0", "Invalid value for PLACE: 'm.py:0' is not FILE:LINE or FILE:LINE:COLUMN"),
        ("m.py:1", "Error: m.py:1: no function is here; what stands outside of functions runs once, on import"),
        ("m.py:22", "Error: m.py:22: no expression starts here"),
        ("m.py:18:3", "Error: m.py:18:3: no expression is here"),
        ("m.py:99", "Error: m.py: there is no line 99; the last one is 34"),
        ("no.py:1", "Error: no.py: cannot be read: No such file or directory"),
        (".:1", "Error: .: cannot be read: Is a directory"),
        ("bad.py:1", "Error: bad.py:2: not valid Python: '(' was never closed"),
    ],
)
def test_errors(run: Run, tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ny = (\n")
    code, out, err = run(place)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "not looked at: no path that Dynamo traces gets here"),
        (Value(), "not known"),
        (Value(read=True), "not known; read from a tensor's data"),
        (Value(Kind.NONE), "None; certain"),
        (Value(Kind.LIST, certain=False), "list; only likely"),
        (Value(Kind.OBJECT, cls="torch.Generator"), "object of torch.Generator; certain"),
        (Value(Kind.TENSOR, dtype="default_float", parameter=True), "default float tensor; a parameter of a module; certain"),
        (Value(Kind.TENSOR, dtype="num(d:x)", shape="s@3:4:x"), "tensor; dtype `num(d:x)`; shape that of `x` after line 3; certain"),
    ],
)  # fmt: skip
def test_words(value: Value | None, expected: str) -> None:
    assert words(value) == expected
