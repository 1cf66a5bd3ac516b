"""What verification concluded: a table for people, JSON for machines."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gbfix.report import plural
from gbfix.verify.verdict import ACCEPTED, INCONCLUSIVE, REFUTED, Breaks, Timing, VerifyReport

COLORS = {ACCEPTED: "green", REFUTED: "red", INCONCLUSIVE: "yellow"}
SHOWN = 8


def render(report: VerifyReport, console: Console) -> None:
    """Print the verdict, what it rests on, the fixes that were dropped, and the warnings."""
    color = COLORS[report.verdict]
    head = f"verify: [bold {color}]{report.verdict}[/]" + (f" {escape(report.reason)}" if report.reason else "")
    console.print(head, highlight=False, soft_wrap=True)
    rows = list(_rows(report))
    if rows:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name, value in rows:
            table.add_row(name, escape(value))
        console.print(table, highlight=False)
    for fix in report.fixes:
        if fix.verdict != ACCEPTED:
            where = escape(f"{fix.path}:{fix.line}")
            line = f"{where} {fix.code} [{COLORS[fix.verdict]}]fix dropped[/]: {escape(fix.reason)}"
            console.print(line, highlight=False, soft_wrap=True)
    for warning in report.warnings:
        console.print(f"[yellow]warning[/]: {escape(warning)}", highlight=False, soft_wrap=True)


def _rows(report: VerifyReport) -> list[tuple[str, str]]:
    """What was checked, as pairs of a name and what was seen."""
    rows: list[tuple[str, str]] = []
    if report.calls:
        made = f" and {report.inputs_made} changes of them" if report.inputs_made else ""
        wrong = any(item.hard and item.stage == "eager" for item in report.differences)
        seen = "differ" if wrong else "equal bit for bit"
        rows.append(("eager", f"{seen} on {plural(report.inputs_given, 'input')}{made} ({report.calls} calls)"))
    before, after = report.before, report.after
    if before is not None and after is not None:
        if report.is_accepted:
            rows.append(("compiled", "equal within the tolerance of each dtype (eager, aot_eager)"))
        rows.append(("graph breaks", f"{len(before.sites)} before, {len(after.sites)} after"))
        rows += _sites(before, after)
        rows.append(("graphs", f"{before.graphs} before, {after.graphs} after"))
    if report.timing is not None:
        rows.append(("time", _time(report.timing)))
    soft = [item for item in report.differences if not item.hard]
    if soft:
        aspects = sorted({item.aspect for item in soft})
        rows.append(("also seen", f"differences that do not count: {', '.join(aspects)}"))
    return rows


def _sites(before: Breaks, after: Breaks) -> list[tuple[str, str]]:
    """The breaks before, and those after where any are left; a few of each."""
    rows = []
    for name, breaks in (("before", before), ("after", after)):
        for site in breaks.sites[:SHOWN]:
            skipped = " (the whole function stays eager)" if site.skipped else ""
            rows.append((f"  {name}", f"{site.path}:{site.line} {site.gb_id} {site.reason}{skipped}"))
        if len(breaks.sites) > SHOWN:
            rows.append((f"  {name}", f"and {len(breaks.sites) - SHOWN} more"))
    return rows


def _time(timing: Timing) -> str:
    """The times and the ratio; "faster" or "slower" only where the interval says so."""
    claim = "faster" if timing.is_faster else "slower" if timing.is_slower else "no difference shown"
    ratio = f"{timing.ratio:.2f}x ({timing.low:.2f} to {timing.high:.2f}), {claim}"
    where = f"{timing.backend} on {timing.device}, median of {timing.runs}"
    text = f"{timing.before_ms:.3g} ms before, {timing.after_ms:.3g} ms after: {ratio}; {where}"
    return text + (f"; {timing.note}" if timing.note else "")


def to_json(report: VerifyReport) -> dict[str, Any]:
    """The report as data for JSON."""
    return dataclasses.asdict(report)
