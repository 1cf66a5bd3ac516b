"""Hand-made rewrites with the verdict each must get: wrong ones say what must be blamed, right ones are accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent

from gbfix.verify.verdict import VerifyReport

Judge = Callable[..., VerifyReport]

HEAD = """\
import logging
import math

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("model")


"""
FUNCTION_TAIL = """

def build():
    return step


def make_inputs():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, generator=generator)
    return [((x,), {}), ((-x.abs(),), {})]
"""
MODULE_TAIL = FUNCTION_TAIL.replace("return step", "torch.manual_seed(3)\n    return Model()")


@dataclass(frozen=True)
class Pair:
    """Two versions of `step` (a function) or `Model` (a module); `blames` is in the reason, empty for a right one."""

    name: str
    before: str
    after: str
    blames: str = ""
    inputs: str = ""

    def source(self, text: str) -> bytes:
        """A whole file."""
        body = dedent(text).strip()
        tail = MODULE_TAIL if "class Model" in body else FUNCTION_TAIL
        if self.inputs:
            tail = tail.replace("return [((x,), {}), ((-x.abs(),), {})]", f"return {self.inputs}")
        return (HEAD + body + "\n" + tail).encode()


WRONG = (
    Pair(
        "where_without_reshape",
        """
        def step(x):
            if x.sum(dim=(0, 1), keepdim=True) > 0:
                y = x[0, 0] * 2
            else:
                y = x[0, 0] * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum(dim=(0, 1), keepdim=True) > 0, x[0, 0] * 2, x[0, 0] * 3)
        """,
        "output shape changes",
    ),
    Pair(
        "masked_arithmetic",
        """
        def step(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            return y
        """,
        """
        def step(x):
            m = (x.sum() > 0).float()
            return m * (x * 2) + (1 - m) * (x * 3)
        """,
        "outputs differ",
    ),
    Pair(
        "dropped_print",
        """
        def step(x):
            y = x + 1
            print("mean", x.shape)
            return y * 2
        """,
        """
        def step(x):
            y = x + 1
            return y * 2
        """,
        "printed text differs",
    ),
    Pair(
        "print_dropped_once_compiled",
        """
        def step(x):
            y = x + 1
            print("shape", x.shape)
            return y * 2
        """,
        """
        def step(x):
            y = x + 1
            if not torch.compiler.is_compiling():
                print("shape", x.shape)
            return y * 2
        """,
        "printed text differs",
    ),
    Pair(
        "dropped_log",
        """
        def step(x):
            y = x + 1
            log.warning("shape %s", x.shape)
            return y * 2
        """,
        """
        def step(x):
            y = x + 1
            return y * 2
        """,
        "log records differ",
    ),
    Pair(
        "random_numbers_in_arm",
        """
        def step(x):
            if x.sum() > 0:
                y = F.dropout(x, 0.5)
            else:
                y = x * 1
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum() > 0, F.dropout(x, 0.5), x * 1)
        """,
        "random state differs",
    ),
    Pair(
        "dtype_promotion",
        """
        def step(x):
            if x.sum() > 0:
                y = x.to(torch.float64)
            else:
                y = x * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum() > 0, x.to(torch.float64), x * 3)
        """,
        "output dtype changes",
    ),
    Pair(
        "in_place_lost",
        """
        def step(x):
            if x.sum() > 0:
                x += 1
            return x * 2
        """,
        """
        def step(x):
            x = torch.where(x.sum() > 0, x + 1, x)
            return x * 2
        """,
        "inputs are changed differently",
    ),
    Pair(
        "comparison_in_float32",
        """
        def step(x):
            if x[0, 0].item() > 0.1:
                y = x * 2
            else:
                y = x * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x[0, 0] > 0.1, x * 2, x * 3)
        """,
        "outputs differ",
        "[((torch.full((2, 2), 0.1),), {})]",
    ),
    Pair(
        "batch_norm_in_arm",
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(3)

            def forward(self, x):
                if x.sum() > 0:
                    y = self.norm(x)
                else:
                    y = x * 1
                return y
        """,
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(3)

            def forward(self, x):
                return torch.where(x.sum() > 0, self.norm(x), x * 1)
        """,
        "differs after the call",
    ),
    Pair(
        "parameter_gradient_none",
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(3))

            def forward(self, x):
                if x.sum() > 0:
                    y = x * self.scale
                else:
                    y = x * 2
                return y
        """,
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(3))

            def forward(self, x):
                return torch.where(x.sum() > 0, x * self.scale, x * 2)
        """,
        "None becomes zero",
    ),
    Pair(
        "nan_gradient",
        """
        def step(x):
            if x.min() > 0:
                y = x.sqrt()
            else:
                y = x * 1
            return y
        """,
        """
        def step(x):
            return torch.where(x.min() > 0, x.sqrt(), x * 1)
        """,
        "the gradient of input tensor 1 differs",
    ),
    Pair(
        "flipped_comparison",
        """
        def step(x):
            if x.sum() > 0:
                y = x.nan_to_num() * 2
            else:
                y = x.nan_to_num() * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum() <= 0, x.nan_to_num() * 3, x.nan_to_num() * 2)
        """,
        "outputs differ",
    ),
    Pair(
        "assertion_without_message",
        """
        def step(x):
            if x.sum() < 0:
                raise RuntimeError("negative")
            return x * 2
        """,
        """
        def step(x):
            torch._assert_async(torch.logical_not(x.sum() < 0))
            return x * 2
        """,
        "no longer raises RuntimeError",
        "[((torch.ones(3),), {}), ((-torch.ones(3),), {})]",
    ),
    Pair(
        "breaks_as_before",
        """
        def step(x):
            if x.sum() > 0:
                x = x * 2
            return x.sin()
        """,
        """
        def step(x):
            positive = x.sum() > 0
            if positive:
                x = x * 2
            return x.sin()
        """,
        "no fewer graph breaks (1 before, 1 after)",
    ),
    Pair(
        "returned_type",
        """
        def step(x):
            y = x * 2
            return y, y.sum().item()
        """,
        """
        def step(x):
            y = x * 2
            return y, y.sum()
        """,
        "output type changes",
    ),
    Pair(
        "alias_lost",
        """
        def step(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum() > 0, x * 2, x)
        """,
        "no longer relates to the inputs",
    ),
    Pair(
        "raises_in_untaken_arm",
        """
        def step(x):
            if x.size(0) > 5 and x.sum() > 0:
                y = x[5] * 2
            elif x.sum() > 0:
                y = x[0] * 2
            else:
                y = x[0] * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x.sum() > 0, x[5] * 2, x[0] * 3)
        """,
        "raises IndexError where the original did not",
    ),
)
RIGHT = (
    Pair(
        "where_both_arms",
        """
        def step(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            return y
        """,
        """
        def step(x):
            positive = x.sum() > 0
            y = torch.where(positive, x * 2, x * 3)
            return y
        """,
    ),
    Pair(
        "overflow_guard",
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                h = self.linear(x)
                if torch.isinf(h).any() or torch.isnan(h).any():
                    h = torch.clamp(h, min=-100.0, max=100.0)
                return h
        """,
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                h = self.linear(x)
                bad = torch.logical_or(torch.isinf(h).any(), torch.isnan(h).any())
                h = torch.where(bad, torch.clamp(h, min=-100.0, max=100.0), h)
                return h
        """,
    ),
    Pair(
        "in_place_kept",
        """
        def step(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            x += 1
            return y
        """,
        """
        def step(x):
            y = torch.where(x.sum() > 0, x * 2, x * 3)
            x += 1
            return y
        """,
    ),
    Pair(
        "exact_comparison",
        """
        def step(x):
            if x[0, 0].item() > 0.1:
                y = x * 2
            else:
                y = x * 3
            return y
        """,
        """
        def step(x):
            return torch.where(x[0, 0].double() > 0.1, x * 2, x * 3)
        """,
        inputs="[((torch.full((2, 2), 0.1),), {}), ((torch.ones(2, 2),), {})]",
    ),
    Pair(
        "assertion_with_message",
        """
        def step(x):
            bad = x.sum() < 0
            if bad:
                raise ValueError("negative")
            return x * 2
        """,
        """
        def step(x):
            bad = x.sum() < 0
            if torch.compiler.is_compiling():
                torch._assert_async(torch.logical_not(bad), "negative")
            elif bad:
                raise ValueError("negative")
            return x * 2
        """,
    ),
    Pair(
        "printed_from_the_graph",
        """
        def step(x):
            y = x * 2
            print(f"sum {y.sum().item():.3f}")
            return y + 1
        """,
        """
        def step(x):
            y = x * 2
            torch._higher_order_ops.print("sum {:.3f}", y.sum())
            return y + 1
        """,
    ),
    Pair(
        "break_in_loop",
        """
        def step(x):
            total = x * 0
            for row in range(3):
                if x[row].sum() > 0:
                    total = total + x[row]
                else:
                    total = total - x[row]
            print("rows", x.size(0))
            return total
        """,
        """
        def step(x):
            total = x * 0
            for row in range(3):
                total = torch.where(x[row].sum() > 0, total + x[row], total - x[row])
            print("rows", x.size(0))
            return total
        """,
    ),
    Pair(
        "gated_square_root",
        """
        def step(x):
            if x.min() > 0:
                y = x.sqrt()
            else:
                y = x * 1
            return y
        """,
        """
        def step(x):
            positive = x.min() > 0
            return torch.where(positive, torch.where(positive, x, torch.ones_like(x)).sqrt(), x * 1)
        """,
        inputs="[((x,), {}), ((x.abs() + 1,), {})]",
    ),
)
