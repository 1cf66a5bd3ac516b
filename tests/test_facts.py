"""Facts: what is a tensor, what is compiled, where the sites are."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gbfix.facts.compiled import compiled
from gbfix.facts.lattice import Kind, Tensor, Value
from gbfix.facts.liveness import Liveness
from gbfix.facts.project import ModuleFacts, split_lines
from gbfix.facts.sites import sites

HEAD = (
    "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\nfrom typing import Optional, Union\n"
)


def facts_of(text: str, path: str = "m.py") -> ModuleFacts:
    return ModuleFacts(HEAD + textwrap.dedent(text), path)


def value_of(text: str) -> Value:
    """The value of the last expression statement `MARK(...)`'s argument."""
    facts = facts_of(text)
    for flow in facts.flows.values():
        for node in ast.walk(flow.function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MARK":
                return flow.values[id(node.args[0])]
    raise AssertionError("no MARK")


@pytest.mark.parametrize(
    ("parameters", "expression", "expected"),
    [
        ("x: Tensor", "x", Tensor.YES),
        ("x: 'torch.Tensor'", "x", Tensor.YES),
        ("x: Optional[Tensor] = None", "x", Tensor.UNKNOWN),
        ("x: 'Tensor | None'", "x.sum()", Tensor.YES),
        ("x: Union[Tensor, float]", "x", Tensor.UNKNOWN),
        ("x: float", "x > 1", Tensor.NO),
        ("x: Tensor", "x.shape[0] > 1", Tensor.NO),
        ("x: Tensor", "x.dtype == torch.float16", Tensor.NO),
        ("x: Tensor", "x.size(0)", Tensor.NO),
        ("x: Tensor", "x.is_floating_point()", Tensor.NO),
        ("x: Tensor", "len(x)", Tensor.NO),
        ("x: Tensor", "x is None", Tensor.NO),
        ("x: Tensor", "isinstance(x, tuple)", Tensor.NO),
        ("x: Tensor", "x.device.type == 'cuda'", Tensor.NO),
        ("x: Tensor", "x.requires_grad", Tensor.NO),
        ("x: Tensor", "x.sum().item()", Tensor.NO),
        ("x: Tensor", "x > 0", Tensor.YES),
        ("x: Tensor", "x[0]", Tensor.YES),
        ("x: Tensor", "-x + 1", Tensor.YES),
        ("x: Tensor", "torch.isnan(x).any()", Tensor.YES),
        ("x: Tensor", "F.relu(x)", Tensor.YES),
        ("x: Tensor", "x.unbind(0)[0]", Tensor.YES),
        ("x: Tensor", "[x, x][1]", Tensor.YES),
        ("x: Tensor", "(x, 1)[1]", Tensor.NO),
        ("x: Tensor", "max(x, x)", Tensor.YES),
        ("x: Tensor", "torch.max(x, dim=1)", Tensor.NO),
        ("x: Tensor", "torch.max(x, x)", Tensor.YES),
        ("x: Tensor", "torch.max(x, 1)", Tensor.NO),
        ("x: Tensor, n", "torch.max(x, n)", Tensor.UNKNOWN),
        ("x: Tensor", "torch.where(x > 0)", Tensor.NO),
        ("x: Tensor", "x.topk(2)[1]", Tensor.YES),
        ("x: Tensor", "x.type()", Tensor.NO),
        ("x: Tensor", "x.size()", Tensor.NO),
        ("x: Tensor, y", "y", Tensor.UNKNOWN),
        ("n: int", "torch.zeros(n)", Tensor.YES),
        ("x: list[Tensor]", "x[0]", Tensor.YES),
        ("x: dict[str, Tensor]", "x['a'].sum()", Tensor.YES),
        ("x: Tensor", "x if x.dim() > 1 else None", Tensor.UNKNOWN),
        ("x: Tensor", "config.flag", Tensor.NO),
        ("x: 'jaxtyping.Float[Tensor, \"b c\"]'", "x", Tensor.YES),
    ],
)
def test_tensorness(parameters: str, expression: str, expected: Tensor) -> None:
    assert value_of(f"def f({parameters}):\n    MARK({expression})\n").tensor is expected


@pytest.mark.parametrize(
    ("expression", "zero_dim", "is_bool"),
    [
        ("x.sum()", True, False),
        ("x.sum(dim=0)", False, False),
        ("x.sum(0)", False, False),
        ("x.sum(dtype=torch.float64)", True, False),
        ("torch.sum(x)", True, False),
        ("torch.max(x)", True, False),
        ("x.max(keepdim=True)", False, False),
        ("(x > 0).any()", True, True),
        ("(x > 0).all(dim=1)", False, True),
        ("torch.max(x, dim=1)[0]", False, False),
        ("torch.where(x > 0, x, 1)", False, False),
        ("torch.where(x.sum() > 0, x.sum(), 1)", True, False),
        ("F.mse_loss(x, x)", True, False),
        ("x.mean() > 0", True, True),
        ("x > 0", False, True),
        ("x.norm() / x.numel()", True, False),
        ("~(x > 0).any()", True, True),
        ("torch.tensor(1.0)", True, False),
        ("torch.tensor([1.0])", False, False),
        ("x.sum() + x", False, False),
        ("torch.logical_or(x.isinf().any(), x.isnan().any())", True, True),
    ],
)
def test_zero_dim_and_bool(expression: str, zero_dim: bool, is_bool: bool) -> None:
    value = value_of(f"def f(x: Tensor):\n    MARK({expression})\n")
    assert (value.is_zero_dim, value.is_bool) == (zero_dim, is_bool)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("x * 2", "x + 1", True),
        ("x * 2", "x", False),
        ("x * 2.0", "x.sin()", True),
        ("x / 2", "x.cos()", True),
        ("x * 2", "x * 2.0", False),
        ("x.abs()", "x * 2", False),
        ("x.float()", "x.to(torch.float32)", True),
        ("x.float() * 2", "x.float().exp()", True),
        ("x.half()", "x.float()", False),
        ("x > 0", "x.isnan()", True),
        ("x + y", "y + x", True),
        ("x + y", "x", False),
        ("torch.zeros_like(x)", "x", True),
        ("x.to(y.dtype)", "y", True),
        ("torch.where(x > 0, y, y)", "y", True),
        ("x.max()", "x.sort()[0]", True),
        ("x.argmax()", "x.to(torch.int64)", True),
    ],
)
def test_dtype_terms(left: str, right: str, same: bool) -> None:
    a, b = (value_of(f"def f(x: Tensor, y: Tensor):\n    MARK({e})\n").dtype for e in (left, right))
    assert a is not None
    assert (a == b) is same


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x is None:\n        return 1\n    MARK(x)", Tensor.YES),
        ("if x is not None and x.sum() > 0:\n        MARK(x)", Tensor.YES),
        ("y = 1\n    for i in range(3):\n        y = x\n    MARK(y)", Tensor.UNKNOWN),
        ("y = z[0]\n    for i in range(3):\n        y = y * 2\n    MARK(y)", Tensor.YES),
        ("y = x if x is not None else torch.zeros(2)\n    MARK(y)", Tensor.YES),
        ("if not isinstance(y, Tensor):\n        y = torch.tensor(y)\n    MARK(y)", Tensor.YES),
        ("if torch.is_tensor(y):\n        MARK(y)", Tensor.YES),
        ("for a, b in zip(z, z):\n        MARK(a)", Tensor.YES),
        ("for i, a in enumerate(z):\n        MARK(i)", Tensor.NO),
        ("def g(t: Tensor):\n        return t * 2\n    MARK(g(x))", Tensor.YES),
        ("a, *b = z\n    MARK(a)", Tensor.YES),
        ("if (s := z[0].sum()) > 0:\n        MARK(s)", Tensor.YES),
        ("try:\n        y = z[0]\n    except ValueError:\n        y = 1\n    MARK(y)", Tensor.UNKNOWN),
        ("with torch.no_grad():\n        y = z[0]\n    MARK(y)", Tensor.YES),
        ("y += z[0]\n    y = [t for t in z][0]\n    MARK(y)", Tensor.YES),
    ],
)
def test_flow(body: str, expected: Tensor) -> None:
    assert value_of(f"def f(x: Optional[Tensor], y, z: list[Tensor]):\n    {body}\n").tensor is expected


def test_classes() -> None:
    text = """
    class Base(nn.Module):
        def __init__(self, dim: int, flag=True):
            super().__init__()
            self.fc = nn.Linear(dim, dim)
            self.layers = nn.ModuleList([nn.Linear(dim, dim)])
            self.weight = nn.Parameter(torch.zeros(dim))
            self.register_buffer("mean", torch.zeros(dim))
            self.dim, self.flag = dim, flag

        def scale(self, x):
            return x * self.weight

    class Net(Base):
        def forward(self, x):
            a = self.fc(x)
            for layer in self.layers:
                b = layer(a)
            return MARKED
    """
    tensors = ("self.fc(x)", "self.weight", "self.mean", "self.scale(x)", "self.layers[0](x)")
    scalars = ("self.dim", "self.flag", "self.training")
    expected = {**dict.fromkeys(tensors, Kind.TENSOR), **dict.fromkeys(scalars, Kind.SCALAR)}
    for expression, kind in {
        **expected,
        "b": Kind.UNKNOWN,
        "self.other": Kind.UNKNOWN,
        "self.layers": Kind.MODULE,
    }.items():
        assert value_of(text.replace("MARKED", f"MARK({expression})")).kind is kind, expression
    assert value_of(text.replace("MARKED", "MARK(self.weight)")).parameter


def reach(text: str, path: str = "m.py") -> dict[str, bool]:
    """Names of the compiled functions, and whether that is certain."""
    facts = facts_of(text, path)
    found = compiled(facts)
    return {
        flow.function.name: found[id(flow.function)].certain
        for flow in facts.flows.values()
        if isinstance(flow.function, ast.FunctionDef) and id(flow.function) in found
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@torch.compile\ndef f(x): return g(x)\ndef g(x): return x\n", {"f": True, "g": True}),
        ("@torch.compile(dynamic=True)\ndef f(x): return x\n", {"f": True}),
        ("def f(x): return x\nh = torch.compile(f)\n", {"f": True}),
        (
            "class M(nn.Module):\n  def forward(self, x): return self.a(x)\n  def a(self, x): return x\n  def b(self): print(1)\n",
            {"forward": True, "a": True},
        ),
        ("class M:\n  def __call__(self, x): return x\nm = M()\nc = torch.compile(m)\n", {"__call__": True}),
        ("class M:\n  def step(self, x): return x\nc = torch.compile(M().step)\n", {"step": True}),
        ("def f(x): return x\ndef build(): return f\ndef make_inputs(): return []\n", {"f": True}),
        ("def f(x: Tensor): return x.cos()\n", {"f": False}),
        ("def f(x: int): return x + 1\n", {}),
        ("def train(x: Tensor): return x.cos()\n", {}),
        ("def f(x: Tensor):\n  x.sum().backward()\n", {}),
        ("@torch.compiler.disable\ndef f(x: Tensor): return x.cos()\n", {}),
        ("@torch.library.custom_op('a::b', mutates_args=())\ndef f(x: Tensor) -> Tensor: return x.cos()\n", {}),
        ("class D(torch.utils.data.Dataset):\n  def get(self, x: Tensor): return x.cos()\n", {}),
        (
            "@torch.compile\ndef f(x):\n  if not torch.compiler.is_compiling():\n    g(x)\n  return x\ndef g(x): print(x)\n",
            {"f": True},
        ),
    ],
)
def test_compiled(text: str, expected: dict[str, bool]) -> None:
    assert reach(text) == expected


def test_tests_are_host_code() -> None:
    assert reach("def f(x: Tensor): return x.cos()\n", "tests/test_model.py") == {}


def kinds(body: str) -> list[tuple[str, int]]:
    facts = facts_of(
        "@torch.compile\ndef f(x: Tensor, m: Optional[Tensor] = None, flag=False):\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
    )
    found = sites(facts, compiled(facts), ["print", "warnings.warn"])
    return [(site.kind, site.node.lineno - 6) for site in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x.sum() > 0:\n    x = x * 2\nreturn x", [("branch", 1)]),
        ("if flag and x.shape[0] > 2: x = x * 2\nreturn x", []),
        ("if m is not None and m.any(): x = x * 2\nreturn x", [("branch", 1)]),
        ("if torch.compiler.is_compiling(): return x\nif x.sum() > 0: print(x)\nreturn x", []),
        (
            "busy = torch.jit.is_tracing() or torch.compiler.is_compiling()\nif not busy and x.any(): x = x * 2\nreturn x",
            [],
        ),
        ("if False: print(x)\nreturn x", []),
        ("return x * 2 if x.sum() > 0 else x", [("ternary", 1)]),
        ("while x.sum() > 0: x = x - 1\nreturn x", [("while", 1)]),
        ("return x * x.sum().item()", [("read", 1)]),
        ("return x * float(x.sum())", [("read", 1)]),
        ("return float(flag)", []),
        ("print(x)\nreturn x", [("call", 1)]),
        ("def print(*a): pass\nprint(x)\nreturn x", []),
        ("if torch.equal(x, x): return x\nreturn x * 2", [("branch", 1), ("read", 1)]),
        ("return 1\nprint(x)", []),
        ("return [y for y in x if y > 0]", [("filter", 1)]),
    ],
)
def test_sites(body: str, expected: list[tuple[str, int]]) -> None:
    assert kinds(body) == expected


@pytest.mark.parametrize(
    ("body", "live"),
    [
        ("if t: a = 1\nreturn a", {"a"}),
        ("if t: a = 1\na = 2\nreturn a", set()),
        ("if t: a = 1\nif u: a = 3\nelse: a = 4\nreturn a", {"u"}),
        ("for i in u:\n    if t: a = 1\n    b = a", {"a", "t"}),
        ("while u:\n    if t: a = 1\n    a = 2", {"t", "u"}),
        ("if t: a = 1\nreturn lambda: a", {"a"}),
        ("if t: a = 1\na += 1", {"a"}),
        ("try:\n    if t: a = 1\n    u()\nexcept E:\n    print(a)", {"a", "u", "print", "E"}),
        ("for i in u:\n    if t: a = 1\n    break\nelse:\n    b = a\nreturn c", {"c"}),
        ("if t: a = 1\ndel a", {"a"}),
    ],
)
def test_liveness(body: str, live: set[str]) -> None:
    function = ast.parse("def f(t, u):\n" + textwrap.indent(body, "    ")).body[0]
    assert isinstance(function, ast.FunctionDef)
    node = next(n for n in ast.walk(function) if isinstance(n, ast.If) and ast.unparse(n.test) == "t")
    assert live <= Liveness(function).after(node)
    assert "a" not in Liveness(function).after(node) or "a" in live


def test_lines_and_columns() -> None:
    assert split_lines("a\r\nb\rc\x0c\u2028d\ne") == ["a\r\n", "b\r", "c\x0c\u2028d\n", "e"]
    facts = ModuleFacts("import torch\n@torch.compile\ndef f(é𐐀: torch.Tensor): return 'é𐐀' if é𐐀.sum() > 0 else ''\n")
    (site,) = sites(facts, compiled(facts), [])
    assert facts.lines[2][site.place.col_offset :].startswith("é𐐀.sum() > 0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        "def f(): pass\n",
        "class A(A): pass\n",
        "def f(x):\n return f(x)\n",
        "from x import *\nimport torch\ntorch = 3\n",
    ],
)
def test_odd_modules(text: str) -> None:
    facts = ModuleFacts(text)
    assert sites(facts, compiled(facts), ["*"]) is not None
