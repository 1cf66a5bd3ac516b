"""What a run found, as plain data for every output.

The rule module is imported for types only: it loads LibCST, which a run without findings need not pay for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gbfix.errors import Trouble

if TYPE_CHECKING:
    from gbfix.rule import Finding

REGISTRY_PAGE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"


@dataclass(frozen=True)
class Report:
    """Findings that are left and troubles, with the lines (ends kept) of the files they stand in.

    `unsafe` holds the paths whose unsafe fixes count too; `review_prefix` turns a path into one from the repository's
    root; `verification` is what verify measured, ready for JSON.
    """

    findings: tuple[Finding, ...]
    troubles: tuple[Trouble, ...] = ()
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unsafe: frozenset[str] = frozenset()
    checked: int = 0
    fixed: int = 0
    fixed_files: int = 0
    review_prefix: str = ""
    verification: object = None

    def mark(self, finding: Finding) -> str:
        """`*` where --fix would apply the fix as things are set, `?` where only --unsafe-fixes would, else nothing."""
        if finding.fix is None or finding.fix.applicability.value == "suggestion":
            return ""
        if finding.fix.applicability.value == "safe" or finding.path in self.unsafe:
            return "*"
        return "?"

    def line(self, path: str, number: int) -> str:
        """One line of a file without its end; empty where it is not known."""
        lines = self.lines.get(path, ())
        return lines[number - 1].rstrip("\r\n") if 0 < number <= len(lines) else ""

    def review_path(self, path: str) -> str:
        """The path from the repository's root."""
        return path if path.startswith("/") else self.review_prefix + path


def codes(finding: Finding) -> str:
    """The rule's code with torch's ids: `GBF101 (GB0170)`; of more than two ids only the first."""
    ids = finding.gb_ids if len(finding.gb_ids) <= 2 else (finding.gb_ids[0], "...")
    return f"{finding.code} ({', '.join(ids)})" if ids else finding.code


def url(finding: Finding) -> str | None:
    """The page of torch's registry for the first id."""
    return REGISTRY_PAGE.format(finding.gb_ids[0].lower()) if finding.gb_ids else None


def advice(finding: Finding) -> str:
    """The fix with its claim and reason, or why there is none: `fix (unsafe): message; reason`."""
    if finding.fix is None:
        return f"note: {finding.declined}"
    fix = finding.fix
    claim = "" if fix.applicability.value == "safe" else f" ({fix.applicability.value})"
    reason = f"; {fix.reason}" if fix.reason else ""
    return f"fix{claim}: {fix.message}{reason}"


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
