"""What a test's outcome says of the names in it: None, types, dtypes."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gbfix.facts import terms
from gbfix.facts.lattice import UNKNOWN, Kind, Value
from gbfix.facts.values import NONE, SCALAR, Env, at

if TYPE_CHECKING:
    from gbfix.facts.infer import Evaluator


def narrow(self: Evaluator, test: ast.expr, env: Env, outcome: bool) -> None:
    """What a test's outcome says of the names in it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return narrow(self, test.operand, env, not outcome)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is outcome:
            for operand in test.values:
                narrow(self, operand, env, outcome)
        return None
    if (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
    ):
        if isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None:
            _narrow_none(self, test.left, env, isinstance(test.ops[0], (ast.Is, ast.Eq)) is outcome)
        elif (
            isinstance(test.ops[0], ast.Eq)
            and outcome
            and isinstance(test.left, ast.Attribute)
            and test.left.attr == "dtype"
        ):
            _narrow_dtype(self, test.left.value, test.comparators[0], env)
        return None
    if isinstance(test, ast.Call) and test.args and isinstance(test.args[0], ast.Name):
        _narrow_type(self, test, test.args[0].id, env, outcome)
    elif isinstance(test, (ast.Name, ast.Attribute)) and outcome:
        _narrow_none(self, test, env, False)
    return None


def _narrow_none(self: Evaluator, target: ast.expr, env: Env, is_none: bool) -> None:
    key = (
        target.id if isinstance(target, ast.Name) else ast.unparse(target) if isinstance(target, ast.Attribute) else ""
    )
    value = env.get(key) or (self.values.get(id(target)) if key else None)
    if value is None:
        return
    if is_none:
        env[key] = NONE
    elif value.optional:
        env[key] = replace(value, optional=False)


def _narrow_dtype(self: Evaluator, target: ast.expr, dtype: ast.expr, env: Env) -> None:
    """`x.dtype == torch.float16` holds."""
    term = terms.concrete((self.module.names.dotted(dtype) or "").removeprefix("torch."))
    if term is not None and isinstance(target, ast.Name) and target.id in env and env[target.id].kind is Kind.TENSOR:
        env[target.id] = replace(env[target.id], dtype=term)


def _narrow_type(self: Evaluator, test: ast.Call, name: str, env: Env, outcome: bool) -> None:
    dotted = self.module.names.dotted(test.func)
    is_tensor = dotted == "torch.is_tensor"
    if isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2:
        is_tensor = self.module.names.dotted(test.args[1]) in ("torch.Tensor", "torch.nn.Parameter")
        if not is_tensor and outcome and name in env:
            env[name] = self.module.annotation(test.args[1], name) or UNKNOWN
            return
    if is_tensor and name in env:
        old = env[name]
        if outcome:
            env[name] = (
                replace(old, optional=False)
                if old.kind is Kind.TENSOR
                else Value(
                    Kind.TENSOR,
                    dtype=f"d@{at(test)}:{name}",
                    shape=f"s@{at(test)}:{name}",
                    evidence=(f"line {test.lineno}: `{name}` is tested to be a tensor",),
                )
            )
        elif old.kind is Kind.TENSOR or old.kind is Kind.UNKNOWN:
            env[name] = NONE if old.optional else SCALAR
