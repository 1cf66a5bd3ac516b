"""Findings as annotations of a GitHub workflow; a step may show ten of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gbfix.report import Report, advice, plural
from gbfix.report.text import head_line

if TYPE_CHECKING:
    from gbfix.rule import Finding

_MOST = 10


def render(report: Report) -> str:
    """One workflow command a line."""
    troubles, findings = report.troubles, report.findings
    lines = []
    for trouble in troubles[:_MOST]:
        place = {"file": report.review_path(trouble.path)}
        if trouble.line:
            place |= {"line": str(trouble.line), "col": str(trouble.column + 1)}
        title = "gbfix (GB-SYNTAX)" if trouble.kind == "syntax" else f"gbfix ({trouble.kind})"
        lines.append(_command("error", {"title": title, **place}, str(trouble)))
    lines += [_annotation(report, finding) for finding in findings[:_MOST]]
    more = len(findings) - _MOST
    if more > 0:
        lines.append(
            _command("notice", {"title": "gbfix"}, f"{plural(more, 'graph break')} more; run gbfix to see all")
        )
    return "".join(line + "\n" for line in lines)


def _annotation(report: Report, finding: Finding) -> str:
    place = {
        "title": f"gbfix ({finding.code})",
        "file": report.review_path(finding.path),
        "line": str(finding.line),
        "col": str(finding.column + 1),
        "endLine": str(finding.end_line),
        "endColumn": str(finding.end_column + 1),
    }
    return _command("warning", place, f"{head_line(report, finding)}\n  {advice(finding)}")


def _command(name: str, properties: dict[str, str], message: str) -> str:
    stated = ",".join(f"{key}={_escaped(value, ',:')}" for key, value in properties.items())
    return f"::{name} {stated}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)
