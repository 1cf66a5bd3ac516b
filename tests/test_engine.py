"""The engine: fixed points, overlaps, encodings, imports, crashes, and what it leaves alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from gbfix import engine
from gbfix.facts.lattice import Site
from gbfix.registry import load
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule

RULES = load().rules
BRANCH = """import torch

def forward(x: torch.Tensor):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x * 3
    return y
"""


class Crashing(Rule):
    """Raises at every site."""

    code = "GBF998"
    gb_ids = ()
    kinds = ("branch",)

    def check(self, site: Site) -> Iterator[Finding]:
        raise LookupError("no such thing")


class Restless(Rule):
    """Never comes to rest: every rewrite makes a new site."""

    code = "GBF997"
    gb_ids = ()
    kinds = ("branch",)

    def check(self, site: Site) -> Iterator[Finding]:
        assert isinstance(site.node, ast.If)
        text = self.context.text(site.node.test)
        edit = self.context.replace(site.node.test, f"({text}) + 0")
        yield self.report(site, "again", Fix("again", (edit,), Applicability.SAFE, "again"))


class Broken(Rule):
    """Writes text that does not parse."""

    code = "GBF996"
    gb_ids = ()
    kinds = ("branch",)

    def check(self, site: Site) -> Iterator[Finding]:
        yield self.report(
            site, "broken", Fix("break it", (self.context.replace(site.node, "if :"),), Applicability.SAFE, "x")
        )


def fixed(text: str, **options: bool) -> str:
    outcome = engine.run(text.encode(), "m.py", RULES, **options)  # type: ignore[arg-type]
    assert not outcome.troubles
    return outcome.source.decode()


def test_safe_fix_and_second_run() -> None:
    once = fixed(BRANCH)
    assert "y = torch.where(x.sum() > 0, x * 2, x * 3)" in once
    assert fixed(once) == once


def test_listing_changes_nothing() -> None:
    outcome = engine.run(BRANCH.encode(), "m.py", RULES, fix=False)
    assert outcome.source == BRANCH.encode()
    assert [(f.line, f.column, f.code) for f in outcome.left] == [(4, 7, "GBF101")]


def test_unsafe_fix_waits_for_the_flag() -> None:
    text = BRANCH.replace("x * 3", "x - 3")
    assert fixed(text) == text
    assert "torch.where" in fixed(text, unsafe=True)


def test_skipped_fix_stays_and_equal_lines_keep_their_identity() -> None:
    head, block = BRANCH[: BRANCH.index("    if")], BRANCH[BRANCH.index("    if") : BRANCH.index("    return")]
    text = head + block + block.replace("y =", "z =") + "    return y + z\n"
    first = engine.run(text.encode(), "m.py", RULES)
    assert len(first.fixed) == 2
    for skipped, kept in (first.fixed, first.fixed[::-1]):
        outcome = engine.run(text.encode(), "m.py", RULES, skip=frozenset({skipped.fingerprint}))
        assert [f.fingerprint for f in outcome.fixed] == [kept.fingerprint]
        assert [f.fingerprint for f in outcome.left] == [skipped.fingerprint]


def test_crash_costs_one_rule_on_one_file() -> None:
    outcome = engine.run(BRANCH.encode(), "m.py", [Crashing, *RULES])
    assert "torch.where" in outcome.source.decode()
    (trouble,) = outcome.troubles
    assert trouble.kind == "crash"
    assert trouble.exit_code == 2
    assert "GBF998 crashed (LookupError: no such thing)" in str(trouble)
    assert "Traceback" in trouble.detail


def test_restless_rule_is_bounded_and_leaves_the_file() -> None:
    outcome = engine.run(BRANCH.encode(), "m.py", [Restless])
    assert outcome.source == outcome.original
    assert "still change the file after 10 passes (GBF997)" in outcome.troubles[0].message


def test_fix_that_does_not_parse_leaves_the_file() -> None:
    outcome = engine.run(BRANCH.encode(), "m.py", [Broken])
    assert outcome.source == outcome.original
    assert outcome.troubles[0].exit_code == 2


@pytest.mark.parametrize(
    "source",
    [
        BRANCH.encode("utf-8-sig"),
        BRANCH.replace("\n", "\r\n").encode(),
        b"# -*- coding: latin-1 -*-\n"
        + BRANCH.replace("import torch", 'import torch\nNAME = "\xe9"').encode("latin-1"),
        BRANCH.rstrip("\n").encode(),
        BRANCH.replace("def forward", "\f\ndef forward").encode(),
        BRANCH.replace("import torch", 'import torch\nS = "\u2028 é𐐀"').encode(),
        ("# a\r\n" + BRANCH).encode(),
    ],
    ids=["bom", "crlf", "latin-1", "no final newline", "form feed", "line separator", "mixed ends"],
)
def test_bytes_outside_the_edit_stay(source: bytes) -> None:
    new = engine.run(source, "m.py", RULES).source
    start = source.index(b"    if x.sum()")
    end = source.index(b"    return y")
    assert new.startswith(source[:start])
    assert new.endswith(source[end:])
    assert b"torch.where" in new[start:]


@pytest.mark.parametrize(
    "source",
    [
        b"def f(:\n",
        b"import torch\nx = '\n",
        b"import torch\x00\n",
        b"# coding: nonsense\nimport torch\n",
        b"import torch\n\xff\n",
        b"(",
    ],
)
def test_bad_source_is_a_trouble(source: bytes) -> None:
    outcome = engine.run(source, "bad.py", RULES)
    assert outcome.source == source
    assert [t.kind for t in outcome.troubles] == ["syntax"]
    assert outcome.troubles[0].exit_code == 1


def test_deep_nesting_is_a_trouble() -> None:
    outcome = engine.run(b"import torch\nx = " + b"(" * 1000 + b"1" + b")" * 1000 + b"\n", "deep.py", RULES)
    assert [t.kind for t in outcome.troubles] == ["syntax"]


def test_long_chain_of_operators() -> None:
    text = "import torch\n\ndef forward(x: torch.Tensor):\n    return x" + " + 1" * 3000 + "\n"
    outcome = engine.run(text.encode(), "deep.py", RULES)
    assert outcome.source == text.encode()


def test_import_is_added_where_torch_has_no_name() -> None:
    text = BRANCH.replace(
        "import torch\n", '"""Doc."""\n\nfrom __future__ import annotations\n\nfrom torch import Tensor\n'
    ).replace("torch.Tensor", "Tensor")
    new = fixed(text)
    assert "from torch import Tensor\nimport torch\n" in new
    assert fixed(new) == new


@pytest.mark.parametrize(
    ("header", "call"),
    [
        ("import torch as th", "th.where("),
        ("from torch import where, Tensor\nimport torch", "torch.where("),
        ("import torch.nn\nimport torch", "torch.where("),
    ],
)
def test_the_file_s_own_name_for_torch(header: str, call: str) -> None:
    text = BRANCH.replace("import torch", header)
    if "as th" in header:
        text = text.replace("torch.Tensor", "th.Tensor")
    assert f"y = {call}" in fixed(text)


@pytest.mark.parametrize(
    "comment",
    [
        "# gbfix: ignore",
        "# gbfix: ignore[GBF101] on purpose",
        "# gbfix: ignore[GB0170]",
        "# gbfix: ignore[x, data-dependent-branch]",
    ],
)
def test_suppressed(comment: str) -> None:
    text = BRANCH.replace("> 0:", f"> 0:  {comment}")
    outcome = engine.run(text.encode(), "m.py", RULES)
    assert outcome.source == outcome.original
    assert not outcome.left


def test_comment_for_another_rule_suppresses_nothing() -> None:
    assert "torch.where" in fixed(BRANCH.replace("> 0:", "> 0:  # gbfix: ignore[GBF301]"))


def test_positions_of_what_is_left() -> None:
    text = BRANCH.replace("    return y", "    print(y)\n    return y")
    outcome = engine.run(text.encode(), "m.py", RULES)
    assert [(f.line, f.code) for f in outcome.left] == [(8, "GBF301")]
    assert [(f.line, f.code) for f in outcome.remaining] == [(5, "GBF301")]


def test_a_fix_that_covers_another_finding_counts_both() -> None:
    text = BRANCH.replace("    else:", "    elif (x > 1).any():\n        y = x * 5\n    else:")
    outcome = engine.run(text.encode(), "m.py", RULES, unsafe=True)
    assert [f.line for f in outcome.fixed] == [4, 6]
    assert not outcome.left


def test_overlapping_edits() -> None:
    whole, inner, after = Edit(1, 0, 3, 0, ""), Edit(2, 1, 2, 5, ""), Edit(3, 0, 3, 4, "")
    assert whole.overlaps(inner)
    assert inner.overlaps(whole)
    assert not whole.overlaps(after)
    assert Edit(1, 4, 1, 4, "a").overlaps(Edit(1, 4, 1, 4, "b"))
