"""What objects are by the one call that makes them, and the sites that follow from it."""

from __future__ import annotations

import pytest

from gbfix.facts.compiled import compiled
from gbfix.facts.lattice import Wanted
from gbfix.facts.project import ModuleFacts
from gbfix.facts.sites import sites

HEAD = "import os, threading, torch\nfrom torch import nn\nLOCK = threading.Lock()\nMODE = torch.no_grad()\n"


def named(text: str, *wanted: str) -> list[tuple[str, str]]:
    facts = ModuleFacts(HEAD + text)
    return [(site.kind, site.name) for site in sites(facts, compiled(facts), wanted) if site.name]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("LOCK.acquire()", [("call", "threading.Lock.acquire")]),
        ("lock = threading.Lock(); lock.acquire()", [("call", "threading.Lock.acquire")]),
        ("lock = threading.Lock() if x is None else None; lock.acquire()", []),
        ("lock = threading.Lock(); lock = None; lock.acquire()", []),
        ("for lock in x: lock.acquire()", []),
        ("with LOCK, MODE: pass", [("with", "threading.Lock"), ("with", "torch.no_grad")]),
        ("with threading.Lock() as lock: lock.acquire()", [("with", "threading.Lock"), ("call", "threading.Lock.acquire")]),
        ("y = x.sin(); return y.grad_fn", [("attribute", "torch.Tensor.grad_fn")]),
        ("y = x.sin(); y.requires_grad = True", [("store", "torch.Tensor.requires_grad")]),
        ("os.environ['A'] = '1'", [("store", "os.environ")]),
        ("class Local: pass", [("class", "Local")]),
        ("return nn.LSTM(2, 2)(x)", [("call", "torch.nn.LSTM.__call__")]),
    ],
)  # fmt: skip
def test_names(body: str, expected: list[tuple[str, str]]) -> None:
    wanted = (
        "threading.Lock.*", "torch.Tensor.grad_fn", "torch.Tensor.requires_grad", "os.environ", "torch.nn.LSTM.__call__",
        "torch.no_grad", "threading.Lock",
    )  # fmt: skip
    found = named(f"def forward(x: torch.Tensor):\n    {body}\n", *wanted)
    assert [(kind, name) for kind, name in found if (kind, name) != ("call", "threading.Lock")] == expected


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("@torch.compiler.disable\ndef host(x): return x\n", True),
        ("@torch._dynamo.disable(recursive=False)\ndef host(x): return x\n", True),
        ("def inner(x): return x\nhost = torch.compiler.disable(inner)\n", True),
        ("def host(x): return x\n", False),
    ],
)
def test_disabled(made: str, called: bool) -> None:
    name = "torch.compiler.disable.__call__"
    assert named(f"{made}def forward(x):\n    return host(x)\n", name) == ([("call", name)] if called else [])


def test_attributes_of_a_module() -> None:
    text = (
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        self.lock = threading.Lock()\n        self.act = nn.ReLU()\n"
        "        self.act.register_full_backward_hook(print)\n"
        "    def forward(self, x):\n        self.lock.acquire()\n        return self.act(x)\n"
    )
    hooked = "torch.nn.Module.register_full_backward_hook.__call__"
    assert named(text, "threading.Lock.acquire", hooked) == [("call", "threading.Lock.acquire"), ("call", hooked)]


def test_wanted() -> None:
    wanted = Wanted(["a.b", "c.*"])
    assert [name in wanted for name in ("a.b", "a.b.c", "c.d.e", "c", "")] == [True, False, True, False, False]
