"""The rule warnings-warn."""

from __future__ import annotations

from typing import ClassVar

from gbfix_codemods._guard import WARNING_CALLS, OutputRule


class WarningsWarn(OutputRule):
    """Flag `warnings.warn`; rewrite to a call under `if not torch.compiler.is_compiling()`.

    Breaks because Dynamo does not trace the C function behind it.
    Unsafe because the compiled code does not warn.
    Source: GB0007 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF303"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0007",)
    calls: ClassVar[tuple[str, ...]] = WARNING_CALLS
    loses: ClassVar[str] = "nobody is warned while compiled"
