"""Findings with suggestions in reviewdog's format (rdjson): columns are 1-based UTF-8 bytes, ends exclusive."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gbfix.report import Report, advice, url

if TYPE_CHECKING:
    from gbfix.rule import Edit, Finding

# A suggestion that replaces more lines than this hides its point, and rarely lies in one hunk of a review.
_MOST_LINES = 30
Json = dict[str, Any]


def render(report: Report) -> str:
    """The whole report as one DiagnosticResult."""
    diagnostics = [_diagnostic(report, finding) for finding in report.findings]
    for trouble in report.troubles:
        location: Json = {"path": report.review_path(trouble.path)}
        if trouble.line:
            column = _bytes(report.line(trouble.path, trouble.line), trouble.column)
            location["range"] = {"start": {"line": trouble.line, "column": column}}
        code = "GB-SYNTAX" if trouble.kind == "syntax" else trouble.kind
        diagnostics.append(
            {"message": trouble.message, "location": location, "severity": "ERROR", "code": {"value": code}}
        )
    data = {"source": {"name": "gbfix"}, "severity": "WARNING", "diagnostics": diagnostics}
    return json.dumps(data, indent=2) + "\n"


def _diagnostic(report: Report, finding: Finding) -> Json:
    lines = report.lines.get(finding.path, ())
    span: Json = {
        "start": {"line": finding.line, "column": _bytes(report.line(finding.path, finding.line), finding.column)},
        "end": {
            "line": finding.end_line,
            "column": _bytes(report.line(finding.path, finding.end_line), finding.end_column),
        },
    }
    suggestion = suggest(finding, tuple(lines))
    # A comment must stand on the same lines as its suggestion.
    if suggestion is not None:
        start, end, _ = suggestion
        if (start, end) != (finding.line, finding.end_line):
            span = {"start": {"line": start}, "end": {"line": end}}
    code: Json = {"value": finding.code}
    page = url(finding)
    if page is not None:
        code["url"] = page
    diagnostic: Json = {
        "message": f"{finding.message}\n\n{advice(finding)}",
        "location": {"path": report.review_path(finding.path), "range": span},
        "severity": "WARNING",
        "code": code,
    }
    if suggestion is not None:
        start, end, text = suggestion
        diagnostic["suggestions"] = [{"range": {"start": {"line": start}, "end": {"line": end}}, "text": text}]
    return diagnostic


def suggest(finding: Finding, lines: tuple[str, ...]) -> tuple[int, int, str] | None:
    """A fix as first line, last line and the text that replaces them whole; None where it is not one short range.

    A fix that adds imports reaches another part of the file, and so cannot be one suggestion.
    """
    fix = finding.fix
    if fix is None or fix.imports or not fix.edits:
        return None
    edits = sorted(fix.edits, key=lambda edit: (edit.line, edit.column))
    start, end = edits[0].line, max(_last_line(edit) for edit in edits)
    if end > len(lines) or end - start >= _MOST_LINES:
        return None
    text = "".join(lines[start - 1 : end])

    def offset(line: int, column: int) -> int:
        return sum(len(part) for part in lines[start - 1 : line - 1]) + column

    for edit in reversed(edits):
        text = text[: offset(edit.line, edit.column)] + edit.text + text[offset(edit.end_line, edit.end_column) :]
    return start, end, re.sub(r"(?:\r\n|\n|\r)\Z", "", text)


def _last_line(edit: Edit) -> int:
    """The last line that an edit changes: an edit that ends before a line's first character leaves that line whole."""
    ends_whole = edit.text.endswith("\n") or (not edit.text and edit.column == 0)
    return edit.end_line - 1 if edit.end_column == 0 and edit.end_line > edit.line and ends_whole else edit.end_line


def _bytes(line: str, column: int) -> int:
    return len(line[:column].encode("utf-8", "surrogatepass")) + 1
