"""Findings as JSON: positions are 1-based characters, ends exclusive. `json.schema.json` describes the form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gbfix import __version__
from gbfix.errors import Trouble
from gbfix.report import Report, url

if TYPE_CHECKING:
    from gbfix.rule import Finding, Fix

Json = dict[str, Any]


def render(report: Report) -> str:
    """The whole report as one JSON object."""
    data: Json = {
        "version": 1,
        "tool": {"name": "gbfix", "version": __version__},
        "findings": [_finding(report, finding) for finding in report.findings],
        "errors": [_error(trouble) for trouble in report.troubles],
        "summary": {
            "checked": report.checked,
            "found": len(report.findings),
            "fixable": sum(report.mark(finding) == "*" for finding in report.findings),
            "fixable_unsafe": sum(report.mark(finding) == "?" for finding in report.findings),
            "fixed": report.fixed,
        },
    }
    if report.verification is not None:
        data["verification"] = report.verification
    return json.dumps(data, indent=2) + "\n"


def _location(line: int, column: int) -> Json:
    return {"row": line, "column": column + 1}


def _finding(report: Report, finding: Finding) -> Json:
    return {
        "code": finding.code,
        "name": finding.name,
        "gb_ids": list(finding.gb_ids),
        "url": url(finding),
        "message": finding.message,
        "severity": "warning",
        "certain": finding.certain,
        "filename": finding.path,
        "location": _location(finding.line, finding.column),
        "end_location": _location(finding.end_line, finding.end_column),
        "symbol": finding.symbol,
        "fingerprint": finding.fingerprint,
        "fix": _fix(report, finding, finding.fix) if finding.fix else None,
        "declined": finding.declined or None,
    }


def _fix(report: Report, finding: Finding, fix: Fix) -> Json:
    return {
        "applicability": fix.applicability.value,
        "applied_by_fix": report.mark(finding) == "*",
        "form": fix.form,
        "message": fix.message,
        "reason": fix.reason or None,
        "imports": list(fix.imports),
        "edits": [
            {
                "content": edit.text,
                "location": _location(edit.line, edit.column),
                "end_location": _location(edit.end_line, edit.end_column),
            }
            for edit in fix.edits
        ],
    }


def _error(trouble: Trouble) -> Json:
    return {
        "kind": trouble.kind,
        "filename": trouble.path,
        "location": _location(trouble.line, trouble.column) if trouble.line else None,
        "message": trouble.message,
        "detail": trouble.detail or None,
    }
