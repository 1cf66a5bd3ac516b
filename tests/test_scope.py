"""What users say about what is compiled: `assume-compiled` and `entry-points`."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from gbfix import cli, engine, runner
from gbfix.facts.compiled import compiled
from gbfix.facts.lattice import Scope
from gbfix.facts.project import ModuleFacts
from gbfix.registry import load

TEXT = """
import torch
from torch import Tensor


class Model:
    def step(self, x):
        return helper(x)

    def other(self, x):
        print(x)


def helper(x):
    def inner(y):
        return y

    return x


def plain(n):
    print(n)


def train(x: Tensor):
    print(x)


@torch.compiler.disable
def hidden(x: Tensor):
    print(x)


@torch.library.custom_op("a::b", mutates_args=())
def op(x: Tensor) -> Tensor:
    return x.cos()
"""


def reach(scope: Scope, path: str = "pkg/mod.py") -> dict[str, tuple[str, bool, bool]]:
    """Names of the compiled functions, with the reason, whether it is certain, and whether it is an entry."""
    facts = ModuleFacts(TEXT, path)
    found = compiled(facts, scope)
    return {
        flow.function.name: (
            found[id(flow.function)].why,
            found[id(flow.function)].certain,
            found[id(flow.function)].entry,
        )
        for flow in facts.flows.values()
        if isinstance(flow.function, ast.FunctionDef) and id(flow.function) in found
    }


def test_nothing_here_is_compiled() -> None:
    assert reach(Scope()) == {}


def test_assume_compiled_leaves_out_what_dynamo_never_enters() -> None:
    found = reach(Scope(assume_compiled=True))
    assert set(found) == {"step", "other", "helper", "inner", "plain", "train"}
    assert set(found.values()) == {("every function is assumed to be compiled", True, False)}
    assert set(reach(Scope(assume_compiled=True), "tests/test_mod.py")) == set(found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", {"plain"}),
        ("Model.step", {"step", "helper"}),
        ("helper.inner", {"inner"}),
        ("pkg.mod:plain", {"plain"}),
        ("mod:plain", {"plain"}),
        ("src.pkg.mod:plain", {"plain"}),
        ("pkg/mod.py:plain", {"plain"}),
        ("pkg.other:plain", set()),
        ("other.mod:plain", set()),
        ("step", set()),
        ("hidden", set()),
    ],
)
def test_entry_points(name: str, expected: set[str]) -> None:
    found = reach(Scope(entry_points=(name,)))
    assert set(found) == expected
    for function, (why, certain, entry) in found.items():
        called = function == "helper"
        assert (certain, entry) == (True, not called)
        assert why == ("called from `step`" if called else f"an entry point: `{name}`")


def test_a_package_is_named_without_its_init() -> None:
    assert set(reach(Scope(entry_points=("pkg.mod:plain",)), "src/pkg/mod/__init__.py")) == {"plain"}


def test_an_outcome_tells_its_scope() -> None:
    scope = Scope(entry_points=("plain",))
    rules = load().rules
    outcome = engine.run(TEXT.encode(), "mod.py", rules, scope=scope)
    assert outcome.scope == scope
    assert [finding.symbol for finding in (*outcome.fixed, *outcome.left)] == ["plain"]
    (again,) = runner.run([runner.Task("mod.py", TEXT.encode(), tuple(rules), scope=scope)])
    assert again == outcome
    assert engine.run(b"def f(:", "mod.py", rules, scope=scope).scope == scope


@pytest.mark.parametrize(
    ("config", "args", "symbols"),
    [
        ("", (), []),
        ("", ("--assume-compiled",), ["other", "plain", "train"]),
        ("assume-compiled = true", (), ["other", "plain", "train"]),
        ("assume-compiled = true", ("--no-assume-compiled",), []),
        ('entry-points = ["pkg.mod:train"]', (), ["train"]),
        ('entry-points = ["other:train", "Model.other"]', (), ["other"]),
        ("", ("--config", 'entry-points = ["plain"]'), ["plain"]),
    ],
)
def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    config: str, args: tuple[str, ...], symbols: list[str],
) -> None:  # fmt: skip
    (tmp_path / "gbfix.toml").write_text(config)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["--output-format", "json", "--select", "GBF301", *args, "."]) == int(bool(symbols))
    assert [finding["symbol"] for finding in json.loads(capsys.readouterr().out)["findings"]] == symbols
