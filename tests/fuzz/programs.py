"""Random programs around a branch on a tensor, and what running one gives."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch

NAMES = ("x", "y", "t")
UNARY = (
    "{}.sin()", "{}.abs()", "torch.tanh({})", "-{}", "{} * 1", "{}.square()", "{}.relu()", "torch.exp({})",
    "{}.clamp(min=-1, max=1)", "{}.float()", "{}.log()", "{}.sqrt()", "{}.clone()", "{}.detach()", "{}.t()",
    "{}.half()", "{}.sum()", "{}.sigmoid()", "{}[:1]", "{}.mean()", "{}.mul_(2)", "torch.rand_like({})",
    "torch.nn.functional.dropout({})", "{}.max()",
)  # fmt: skip
BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "torch.maximum({}, {})",
    "{} / {}",
    "{} // {}",
    "torch.where({} > 0, {}, 1)",
    "{} @ {}",
)
SCALAR = ("{} * 2", "{} + 1", "{} * 0.5", "{} - 3", "{} / 2", "2 - {}", "1 / {}", "{} ** 2", "{} > 0", "{} % 3")
PURE_TESTS = (
    "{}.sum() > 0",
    "({} > 0).any()",
    "({} > 1).all()",
    "{}.mean() < 0.2",
    "not {}.sum() > 1",
    "0 < {}.mean() < 2",
    "{}.sum()",
    "{}",
)
TESTS = (
    "{}.sum() > 0", "({} > 0).any()", "({} > 1).all()", "{}.mean() < {}.sum()", "not {}.sum() > 1",
    "{}.sum() > 0 and {}.mean() < 2", "{}.sum() > 3 or ({} < 0).any()", "0 < {}.mean() < 2", "{}.max() >= 1",
    "{}.sum()", "torch.isnan({}).any()", "{}.sum().item() > 0.1", "float({}.sum()) == 0", "flag and {}.sum() > 0",
    "{}.dtype == torch.float32 and ({} > 0).any()", "{}.numel() > 1 and {}.min() < 0", "(s := {}.sum()) > 1", "{}",
)  # fmt: skip
PURE_UNARY = ("{}.sin()", "torch.tanh({})", "{}.square()", "{}.sigmoid()", "{}.cos()", "{}.clone()")
PURE_BINARY = ("{} + {}", "{} * {}")
PURE_SCALAR = ("{} * 2", "{} + 1", "{} * 0.5", "3 * {}", "{} - 1.5")
EFFECTS = ("{}.add_(1)", "{} += 1", "{}[0] = 1", "torch.rand(1)", "print('here')", "self_.append({})", "pass")


class Writer:
    """Writes one program; the same seed gives the same program. With `pure`, most arms meet the conditions of a safe fix."""

    def __init__(self, seed: int, *, pure: bool = False) -> None:
        self.random = random.Random(seed)
        self.pure = pure
        self.names = list(NAMES)

    def name(self) -> str:
        return self.random.choice(self.names)

    def fill(self, template: str) -> str:
        return template.format(*(self.name() for _ in range(template.count("{}"))))

    def expression(self, depth: int = 0) -> str:
        roll = self.random.random()
        if depth > 2 or roll < (0.05 if self.pure and depth == 0 else 0.15):
            return self.name()
        unary, scalar, binary = (PURE_UNARY, PURE_SCALAR, PURE_BINARY) if self.pure else (UNARY, SCALAR, BINARY)
        template = self.random.choice(unary if roll < 0.45 else scalar if roll < 0.8 else binary)
        return template.format(*(f"({self.expression(depth + 1)})" for _ in range(template.count("{}"))))

    def assign(self) -> str:
        target = self.random.choice(("a", "a", "b") if self.pure else (*self.names, "a", "b"))
        roll = self.random.random() * (1 if not self.pure else 0.5) + (0.12 if self.pure else 0)
        if self.pure and roll < 0.18:
            return f"c = {self.random.choice(('1.0', '0.5', '2.0', '-3.0'))}"
        if roll < 0.08:
            return f"{target} = {self.random.choice(('1.0', '2', '0.5', 'None', '(x, y)'))}"
        if roll < 0.16:
            return self.fill(self.random.choice(EFFECTS))
        text = f"{target} = {self.expression()}"
        if roll < 0.22:
            test = self.fill(self.random.choice(PURE_TESTS if self.pure else TESTS))
            text += f" if {test} else {self.expression()}"
        return text

    def arm(self, returns: bool, depth: int) -> list[str]:
        lines = [self.assign() for _ in range(self.random.choice((1, 1, 1, 2) if self.pure else (1, 1, 2, 3)))]
        if depth < 1 and self.random.random() < 0.2:
            lines += self.branch(depth + 1)
        if returns:
            lines.append(
                f"return {self.expression()}"
                if self.random.random() < 0.8
                else f"return {self.expression()}, {self.name()}"
            )
        return lines

    def branch(self, depth: int = 0) -> list[str]:
        shape = self.random.choice(("if-else", "if-else", "elif", "both") + (() if self.pure else ("if", "early")))
        returns = shape in ("early", "both")
        lines = [
            f"if {self.fill(self.random.choice(PURE_TESTS if self.pure else TESTS))}:",
            *self.indented(self.arm(returns, depth)),
        ]
        if shape == "elif":
            lines += [
                f"elif {self.fill(self.random.choice(PURE_TESTS if self.pure else TESTS))}:",
                *self.indented(self.arm(False, depth)),
            ]
        if shape in ("if-else", "elif", "both"):
            lines += ["else:", *self.indented(self.arm(returns, depth))]
        return lines

    def indented(self, lines: list[str]) -> list[str]:
        return ["    " + line for line in lines]

    def program(self) -> str:
        body = ["a = x * 2", "b = y + 1", "c = 1.0"]
        self.names += ["a", "b"]
        body += [self.assign() for _ in range(self.random.choice((0, 0, 1)))]
        inner = self.branch()
        if self.random.random() < 0.15:
            inner = ["for i in range(2):", *self.indented([line.replace("return", "a =") for line in inner])]
        body += inner
        body += [self.assign() for _ in range(self.random.choice((0, 1, 1, 2)))]
        if self.random.random() < 0.3:
            body.append(self.fill(self.random.choice(("{}.add_(1)", "{} += 1", "{}.mul_(0.5)"))))
        body.append(self.random.choice(("return a", "return a, b", "return x", "return x * c, a", "return y, a, b")))
        text = "\n".join("    " + line for line in body)
        return f"import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, flag=True, self_=[]):\n{text}\n"


def inputs(seed: int, *, wild: bool) -> list[tuple[Any, ...]]:
    """Arguments for one program: floats of one shape; with `wild` also other dtypes, 0-dim, empty, NaN, aliases."""
    torch.manual_seed(seed)
    x, y, t = torch.randn(3), torch.randn(3), torch.randn(3)
    made: list[tuple[Any, ...]] = [
        (x, y, t),
        (-x, y, -t),
        (x * 3, -y, t),
        (torch.zeros(3), y, t),
        (x.double(), y.double(), t.double()),
    ]
    if wild:
        nan = x.clone()
        nan[1] = float("nan")
        inf = y.clone()
        inf[0] = float("inf")
        made += [
            (nan, y, t),
            (x, inf, t),
            (x, y, nan),
            (x[0], y[0], t[0]),
            (x[:1], y[:1], t[:1]),
            (x.int(), y.int(), t.int()),
            (x > 0, y > 0, t > 0),
        ]
        made += [
            (x.half(), y, t),
            (x, y.double(), t),
            (x.int(), y, t),
            (x[:0], y[:0], t[:0]),
            (x, x, t),
            (x, y[0], t),
            (x[None], y, t),
            (x + 0j, y, t),
        ]
    return made


def observe(text: str, arguments: tuple[Any, ...], *, grad: bool) -> tuple[Any, ...]:
    """Everything one eager call shows: result or exception type, gradients, changed arguments, RNG, printed lines."""
    printed: list[str] = []
    scope: dict[str, Any] = {"print": lambda *a: printed.append(" ".join(map(str, a)))}
    exec(compile(text.replace("@torch.compile\n", ""), "program", "exec"), scope)
    arguments = copy.deepcopy(arguments)
    leaves = [a for a in arguments if a.is_floating_point()] if grad else []
    for leaf in leaves:
        leaf.requires_grad_(True)
    torch.manual_seed(0)
    kept: list[Any] = []
    try:
        result = scope["f"](*arguments, True, kept)
    except Exception as error:
        return ("raises", type(error).__name__)
    gradients: list[Any] = []
    flat = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, torch.Tensor)]
    if grad:
        total = [r.float().sum() for r in flat if r.requires_grad and r.is_floating_point()]
        if total:
            try:
                torch.stack(total).sum().backward()
            except RuntimeError as error:
                return ("raises", type(error).__name__)
        gradients = [None if leaf.grad is None else leaf.grad for leaf in leaves]
    shared = [
        [r.untyped_storage().data_ptr() == a.untyped_storage().data_ptr() for a in arguments if a.numel()]
        for r in flat
        if r.numel()
    ]
    return ("gives", result, gradients, arguments, torch.get_rng_state(), printed, len(kept), shared)


def same(a: Any, b: Any) -> bool:
    """Bitwise equality, NaN equal to NaN, minus zero apart from zero."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        a, b = a.detach(), b.detach()
        if a.is_complex():
            a, b = torch.view_as_real(a), torch.view_as_real(b)
        if a.is_floating_point() and not torch.equal(torch.signbit(a) & ~a.isnan(), torch.signbit(b) & ~b.isnan()):
            return False
        return torch.equal(torch.nan_to_num(a, nan=123.25), torch.nan_to_num(b, nan=123.25)) and torch.equal(
            a.isnan(), b.isnan()
        )
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)
