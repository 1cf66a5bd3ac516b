"""Errors that a user sees: where, what was seen, what would do."""

from __future__ import annotations

from dataclasses import dataclass


class GbfixError(Exception):
    """A usage, configuration or input error: one lower-case sentence, exit code 2."""


@dataclass(frozen=True)
class Trouble:
    """One file's or one rule's trouble, as a value: it never stops the other files.

    `kind` is syntax (exit code 1), or unreadable, unwritable, crash, unstable, internal (exit code 2). `detail` may hold a
    traceback as text.
    Columns are 0-based characters.
    """

    path: str
    kind: str
    message: str
    line: int = 0
    column: int = 0
    detail: str = ""

    @property
    def exit_code(self) -> int:
        """1 for what the user's file says, 2 for what failed."""
        return 1 if self.kind == "syntax" else 2

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column + 1}" if self.line else self.path
        return f"{where}: {self.message}"
