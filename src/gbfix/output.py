"""What a run prints, by mode and format: results on stdout, the rest on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gbfix import sources
from gbfix.config import Settings
from gbfix.errors import Trouble
from gbfix.options import Options
from gbfix.report import Report, diff, github, json, rdjson, text
from gbfix.terminal import Terminal

if TYPE_CHECKING:
    from gbfix.engine import Outcome
    from gbfix.verify.driver import Settled

_MACHINE = {"json": json.render, "rdjson": rdjson.render, "github": github.render}


@dataclass
class Results:
    """What came of a run: an outcome for each file that was run, troubles of every part, what verify settled."""

    checked: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    troubles: Sequence[Trouble] = ()
    unsafe: frozenset[str] = frozenset()
    settled: Settled | None = None


class Output:
    """Prints results as the options ask."""

    def __init__(self, options: Options, settings: Settings, terminal: Terminal) -> None:
        self._options = options
        self._form = settings.output_format
        self._terminal = terminal

    def show(self, results: Results, stdin: bytes | None) -> None:
        """Print everything. `stdin` is the text read from there, which fix mode gives back on stdout."""
        mode = self._options.mode
        report = self._report(results)
        if mode == "diff":
            self._show_diff(results)
            self._show_left(report)
        elif mode == "fix" and stdin is not None:
            self._terminal.out(results.outcomes[0].source if results.outcomes else stdin)
            self._show_left(report)
        elif not self._options.fix_only:
            self._show_findings(report)
        self._show_verdict(results)
        self._terminal.note(text.summary(report, mode))

    def _report(self, results: Results) -> Report:
        outcomes = results.outcomes
        findings = sorted(
            (finding for outcome in outcomes for finding in outcome.left), key=lambda finding: finding.key
        )
        changed = [o for o in outcomes if o.source != o.original] if self._options.mode != "report" else []
        verification = None
        if results.settled is not None:
            from gbfix.report.verdict import to_json

            verification = to_json(results.settled.report)
        return Report(
            findings=tuple(findings),
            troubles=tuple(sorted(results.troubles, key=lambda trouble: (trouble.path, trouble.line, trouble.column))),
            lines=self._lines(results),
            unsafe=results.unsafe,
            checked=results.checked,
            fixed=sum(len(outcome.fixed) for outcome in changed),
            fixed_files=len(changed),
            review_prefix=sources.review_prefix(),
            verification=verification,
        )

    def _lines(self, results: Results) -> Mapping[str, Sequence[str]]:
        """The lines of every file that an output may quote."""
        after = self._options.mode == "fix"
        return {
            outcome.path: sources.lines_of(outcome.source if after else outcome.original)
            for outcome in results.outcomes
            if outcome.left or outcome.troubles
        }

    def _show_findings(self, report: Report) -> None:
        color = self._terminal.out_color
        if self._form in _MACHINE:
            self._terminal.out(_MACHINE[self._form](report))
        elif self._options.statistics:
            self._terminal.out(text.statistics(report, color))
        else:
            self._terminal.out(text.findings(report, color, excerpt=self._form == "full"))

    def _show_diff(self, results: Results) -> None:
        for outcome in results.outcomes:
            change = diff.unified(
                outcome.original, outcome.source, outcome.path, self._options.unified, self._options.prefix
            )
            self._terminal.out(diff.colored(change) if self._terminal.out_color else change)

    def _show_left(self, report: Report) -> None:
        """On stderr, what is left where stdout holds a diff or a source."""
        if self._options.fix_only:
            return
        for trouble in report.troubles:
            if trouble.kind == "syntax":
                self._terminal.say(text.syntax_line(trouble))
        for finding in report.findings:
            self._terminal.say(text.left_line(report, finding))

    def _show_verdict(self, results: Results) -> None:
        if results.settled is None or self._terminal.silent or self._form in _MACHINE:
            return
        from rich.console import Console

        from gbfix.report.verdict import render

        color = self._terminal.err_color
        render(results.settled.report, Console(stderr=True, force_terminal=color, no_color=not color))
