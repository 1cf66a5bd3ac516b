"""The rule print-call."""

from __future__ import annotations

from typing import ClassVar

from gbfix_codemods._guard import PRINT_CALLS, OutputRule


class PrintCall(OutputRule):
    """Flag `print` and other writes to the terminal; rewrite to a call under `if not torch.compiler.is_compiling()`.

    Breaks because Dynamo does not trace output.
    Unsafe because the compiled code prints nothing.
    Source: GB0059 (builtins), GB0156 (streams, `pprint.pp`), GB0207 (`pprint.pprint`), GB0007 (`traceback`)
    in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code: ClassVar[str] = "GBF301"
    gb_ids: ClassVar[tuple[str, ...]] = ("GB0059", "GB0156", "GB0207", "GB0007")
    calls: ClassVar[tuple[str, ...]] = PRINT_CALLS
    loses: ClassVar[str] = "nothing is printed while compiled"
