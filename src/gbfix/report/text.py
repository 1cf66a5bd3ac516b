"""Findings for people: with an excerpt of the source, or one a line."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from gbfix.errors import Trouble
from gbfix.report import Report, advice, codes, plural

if TYPE_CHECKING:
    from gbfix.rule import Finding

Style = Callable[..., str]


def _plain(text: str, **_: object) -> str:
    return text


def findings(report: Report, color: bool, excerpt: bool) -> str:
    """Every finding and every syntax error, in order; with `excerpt`, the source and the advice below each."""
    style: Style = click.style if color else _plain
    shown: list[tuple[tuple[str, int, int, str], str]] = []
    for trouble in report.troubles:
        if trouble.kind == "syntax":
            text = syntax_line(trouble, style) + ("\n" if excerpt else "")
            shown.append(((trouble.path, trouble.line, trouble.column, ""), text))
    for finding in report.findings:
        text = head_line(report, finding, style)
        if excerpt:
            text = "\n".join([text, *_excerpt(report, finding, style), ""])
        shown.append((finding.key, text))
    return "".join(text + "\n" for _, text in sorted(shown, key=lambda pair: pair[0]))


def head_line(report: Report, finding: Finding, style: Style = _plain) -> str:
    """`path:line:column: CODE (GB id) [*] message`, line and column from 1."""
    mark = report.mark(finding)
    mark = style(f"[{mark}]", fg="cyan") + " " if mark else ""
    where = _where(finding.path, finding.line, finding.column, style)
    return f"{where} {style(codes(finding), fg='red', bold=True)} {mark}{finding.message}"


def syntax_line(trouble: Trouble, style: Style = _plain) -> str:
    """The line for a file that does not parse."""
    where = _where(trouble.path, trouble.line, trouble.column, style)
    return f"{where} {style('GB-SYNTAX', fg='red', bold=True)} {trouble.message}; file skipped"


def left_line(report: Report, finding: Finding) -> str:
    """The line for a finding that a diff does not fix, with the reason."""
    why = {"?": "no safe fix; one with --unsafe-fixes", "*": "not fixed"}.get(report.mark(finding), advice(finding))
    return f"{head_line(report, finding)} [{why}]"


def statistics(report: Report, color: bool) -> str:
    """How often each rule spoke, the most frequent first."""
    style: Style = click.style if color else _plain
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    marks: dict[str, set[str]] = {}
    for finding in report.findings:
        marks.setdefault(finding.code, set()).add(report.mark(finding))
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = max((len(str(count)) for _, count in rows), default=0)
    lines = []
    for (code, name), count in rows:
        mark = next((f"[{sign}]" for sign in "*?" if sign in marks[code]), "[ ]")
        lines.append(f"{count:>{width}}  {style(code, fg='red', bold=True)}  {style(mark, fg='cyan')}  {name}\n")
    return "".join(lines)


def summary(report: Report, mode: str) -> str:
    """The closing lines of a run. `mode` is report, diff or fix."""
    left = len(report.findings)
    files = plural(report.checked, "file")
    if mode != "report":
        done = f"{'Would fix' if mode == 'diff' else 'Fixed'} {plural(report.fixed, 'graph break')}"
        return f"{done} in {plural(report.fixed_files, 'file')}; {left} left."
    if not left:
        return f"No graph breaks found ({files} checked)."
    holders = plural(len({finding.path for finding in report.findings}), "file")
    lines = [f"Found {plural(left, 'graph break')} in {holders} ({files} checked)."]
    marks = Counter(report.mark(finding) for finding in report.findings)
    now, unsafe = marks["*"], marks["?"]
    if now or unsafe:
        parts = [f"[*] {now} fixable with --fix"] if now else []
        parts += [f"[?] {unsafe} {'more' if now else 'fixable'} with --unsafe-fixes"] if unsafe else []
        lines.append(", ".join(parts) + ".")
    return "\n".join(lines)


def _where(path: str, line: int, column: int, style: Style) -> str:
    return f"{style(path, bold=True)}:{line}:{column + 1}:" if line else f"{style(path, bold=True)}:"


def _excerpt(report: Report, finding: Finding, style: Style) -> Iterator[str]:
    line = report.line(finding.path, finding.line)
    if line:
        end = finding.end_column if finding.end_line == finding.line else len(line)
        number = str(finding.line)
        bar = style(" " * len(number) + " |", fg="blue")
        before, marked = _printable(line[: finding.column]), _printable(line[finding.column : end])
        carets = style("^" * max(_cells(marked), 1), fg="red", bold=True)
        yield bar
        yield f"{style(f'{number} |', fg='blue')} {_printable(line)}".rstrip()
        yield f"{bar} {' ' * _cells(before)}{carets} in `{finding.symbol}`"
        yield bar
    yield f"  = {advice(finding)}"


def _printable(text: str) -> str:
    """Text that a terminal shows as it is: tabs as four blanks, no control characters."""
    return "".join(c if c.isprintable() else "    " if c == "\t" else "\ufffd" for c in text)


def _cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
