"""Sites: which spans of compiled code the rules are shown, by kind."""

from __future__ import annotations

import textwrap

import pytest

from gbfix.facts.compiled import compiled
from gbfix.facts.project import ModuleFacts
from gbfix.facts.sites import sites

HEAD = "import numpy as np\nimport torch\nfrom torch import Tensor\n"


def kinds(text: str) -> list[str]:
    facts = ModuleFacts(HEAD + textwrap.dedent(text), "m.py")
    return [site.kind for site in sites(facts, compiled(facts), [])]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.sum() > 0 and y.sum() > 0", ["truth"]),
        ("n > 0 and y.sum() > 0", []),
        ("y.sum() > 0 and n > 0", ["truth"]),
        ("not x.any()", ["truth"]),
        ("not (x.any() or y.any())", ["truth"]),
        ("x.any() or not y.any()", ["truth", "truth"]),
        ("2.0 in x", ["truth"]),
        ("x.shape[0] in (1, 2)", []),
        ("1 if not x.any() else 2", ["ternary"]),
        ("1 if 2.0 in x else 2", ["ternary"]),
        ("[t for t in x if t > 0]", ["filter"]),
        ("[t for t in x if t.dim()]", []),
        ("list(filter(lambda t: 1 if t > 0 else 0, x))", ["ternary"]),
        ("torch.vmap(lambda t: t.item())(x)", ["read"]),
        ("x[: y.max()]", ["index"]),
        ("x[0, 1:2]", []),
        ("x.nonzero()", ["dynamic"]),
        ("'%s' % x", ["text"]),
        ("n % x", []),
        ("f'{x!r}'", ["text"]),
        ("f'{x}'", []),
        ("1 if np.prod(x.shape) > 1 else 2", ["ternary"]),
        ("np.cumsum(x.shape)[0].item()", ["array"]),
    ],
)
def test_expression(expression: str, expected: list[str]) -> None:
    assert kinds(f"def forward(x: Tensor, y: Tensor, n: int):\n    return {expression}\n") == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("for row in x:", ["for"]),
        ("for i in range(n):", []),
        ("for i in range(x.sum()):", ["for"]),
        ("while x.sum() < 3:", ["while"]),
        ("while n < 3:", []),
    ],
)
def test_loop(head: str, expected: list[str]) -> None:
    assert kinds(f"def forward(x: Tensor, n: int):\n    {head}\n        x = x + 1\n    return x\n") == expected
