"""Rules from packs, and what selectors name."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from fake_engine import REGISTRY, GraphBreakCall, ItemRead, PrintCall

from gbfix.errors import GbfixError
from gbfix.registry import GROUP, Registry, UnknownRule, load, pascal
from gbfix.rule import Rule

RULE = """
from gbfix.rule import Rule

class {name}(Rule):
    "A rule."
    code = {code!r}
    gb_ids = ("GB0059",)
"""


def pack(root: Path, name: str, **modules: str) -> EntryPoint:
    """Write a pack and give back the entry point that a distribution would have."""
    folder = root / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return EntryPoint(name, name, GROUP)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_rules_are_found_by_being_there_and_sorted_by_code(root: Path) -> None:
    one = pack(
        root,
        "acme_one",
        noisy=RULE.format(name="Noisy", code="ACM200"),
        data_dependent=RULE.format(name="DataDependent", code="ACM100"),
        _helper="class Anything: pass",
    )
    registry = load([one, one])
    assert [rule.__name__ for rule in registry.rules] == ["DataDependent", "Noisy"]
    assert registry.troubles == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "acme_bad.noisy must define one Rule, not 0"),
        (
            RULE.format(name="Noisy", code="ACM100") + RULE.format(name="Other", code="ACM101"),
            "acme_bad.noisy must define one Rule, not 2",
        ),
        (RULE.format(name="Quiet", code="ACM100"), "acme_bad.noisy must name its Rule Noisy, not Quiet"),
        (
            RULE.format(name="Noisy", code="GB0100"),
            "acme_bad.noisy.Noisy.code must be letters and three digits, such as GBF101, not 'GB0100'",
        ),
        (
            RULE.format(name="Noisy", code="ACM100").replace('("GB0059",)', '"GB0059"'),
            "acme_bad.noisy.Noisy.gb_ids must be a tuple of torch ids, not 'GB0059'",
        ),
        ("raise KeyError('lost')", "KeyError on import: 'lost'"),
        ("import sys; sys.exit(3)", "SystemExit on import: 3"),
    ],
)
def test_a_wrong_pack_costs_that_pack_only(root: Path, text: str, message: str) -> None:
    good = pack(root, "acme_good", noisy=RULE.format(name="Noisy", code="ACM500"))
    bad = pack(root, "acme_bad", fine=RULE.format(name="Fine", code="ACM900"), noisy=text)
    registry = load([bad, good])
    assert [rule.code for rule in registry.rules] == ["ACM500"]
    (trouble,) = registry.troubles
    assert (trouble.path, trouble.kind, trouble.exit_code) == ("acme_bad", "crash", 2)
    assert trouble.message == f"rule pack left out: {message}"


def test_a_pack_that_is_not_there_or_not_a_package(root: Path) -> None:
    (root / "acme_module.py").write_text("")
    registry = load([EntryPoint("x", "acme_missing", GROUP), EntryPoint("y", "acme_module", GROUP)])
    assert [trouble.message for trouble in registry.troubles] == [
        "rule pack left out: ModuleNotFoundError on import: No module named 'acme_missing'",
        "rule pack left out: acme_module must be a package, not a module",
    ]


def test_duplicate_code_is_the_later_packs_trouble(root: Path) -> None:
    one = pack(root, "acme_one", noisy=RULE.format(name="Noisy", code="ACM100"))
    two = pack(root, "acme_two", quiet=RULE.format(name="Quiet", code="ACM100"))
    registry = load([two, one])
    assert [rule.__name__ for rule in registry.rules] == ["Noisy"]
    assert [trouble.message for trouble in registry.troubles] == [
        "rule pack left out: acme_two.quiet takes code ACM100 of acme_one.noisy; choose another"
    ]


@pytest.mark.parametrize(
    ("select", "ignore", "chosen"),
    [
        (["ALL"], [], [GraphBreakCall, ItemRead, PrintCall]),
        (["GBF"], [], [GraphBreakCall, ItemRead, PrintCall]),
        (["GBF101"], [], [GraphBreakCall]),
        (["GBF2", "gbf3"], [], [ItemRead, PrintCall]),
        (["print-call"], [], [PrintCall]),
        (["GB0124"], [], [ItemRead]),
        (["gb0124", "GBF201"], [], [ItemRead]),
        (["ALL"], ["GBF1", "GB0059"], [ItemRead]),
        ([], [], []),
    ],
)
def test_selectors(select: list[str], ignore: list[str], chosen: list[type[Rule]]) -> None:
    assert list(REGISTRY.select(select, ignore)) == chosen


@pytest.mark.parametrize(
    ("selector", "suggestion"),
    [("GBF102", "GBF101"), ("print-cal", "print-call"), ("GB0125", "GB0124"), ("ZZZZZZ", None)],
)
def test_unknown_selector_suggests(selector: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownRule) as caught:
        REGISTRY.select([selector])
    assert isinstance(caught.value, GbfixError)
    assert (caught.value.selector, caught.value.suggestion) == (selector, suggestion)
    hint = f" Did you mean {suggestion!r}?" if suggestion else ""
    assert str(caught.value) == f"unknown rule {selector!r}.{hint} See `gbfix rule --all`."


def test_all_of_nothing_is_nothing() -> None:
    assert Registry(()).select(["ALL"]) == ()


def test_pascal() -> None:
    assert pascal("data_dependent_branch") == "DataDependentBranch"


def test_our_own_packs_stand() -> None:
    registry = load()
    assert registry.troubles == ()
