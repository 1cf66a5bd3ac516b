"""What a call hands to the lambdas among its arguments, so that their bodies are evaluated with it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gbfix.facts.lattice import Kind, Value
from gbfix.facts.values import Env, new_tensor

if TYPE_CHECKING:
    from gbfix.facts.infer import Evaluator

KEYED = {"sorted", "max", "min", "list.sort"}
# Their function gets tensors. Source: torch/func/__init__.py, torch 2.13.
TRANSFORMS = {f"torch.func.{name}" for name in ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian")} | {
    "torch.vmap"
}


def hand_over(
    self: Evaluator, node: ast.Call, dotted: str | None, args: list[Value], receiver: Value | None, env: Env
) -> None:
    """Evaluate lambdas again where the call shows what they get: an element, or a tensor."""
    name = dotted or (node.func.id if isinstance(node.func, ast.Name) and node.func.id not in env else "")
    if receiver is not None and receiver.kind is Kind.LIST and isinstance(node.func, ast.Attribute):
        name, args = f"list.{node.func.attr}", [receiver]
    if name in KEYED and args:
        element = self.element(args[0], node)
        for keyword in node.keywords:
            _bind(self, keyword.value, element, env)
    elif name in ("filter", "map") and len(args) == 2:
        _bind(self, node.args[0], self.element(args[1], node), env)
    elif name in TRANSFORMS and args:
        _bind(self, node.args[0], new_tensor(node, f"what `{name}` passes on"), env)


def _bind(self: Evaluator, node: ast.expr, value: Value, env: Env) -> None:
    """Evaluate a lambda's body with a value for each of its plain parameters."""
    if isinstance(node, ast.Lambda) and value.kind is not Kind.UNKNOWN:
        self.eval(node.body, {**env, **{a.arg: value for a in node.args.args}})
