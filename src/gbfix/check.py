"""One check from the command line's options to the exit code: files in, fixes run and proved, results out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from gbfix import sources
from gbfix.config import Config, Settings
from gbfix.errors import GbfixError, Trouble
from gbfix.options import Options
from gbfix.output import Output, Results
from gbfix.terminal import Terminal

# The engine, rules and verify are imported where they are used: files that do not speak of torch need none of them.
if TYPE_CHECKING:
    from gbfix.engine import Outcome
    from gbfix.registry import Registry
    from gbfix.rule import Rule
    from gbfix.runner import Task

NEEDS_ENTRY = """--verify needs --entry: it runs your code, so it must know what to run and on which inputs; for example

    gbfix --verify --entry model.py:build --inputs model.py:make_inputs src/

where model.py has

    def build(): return Model().eval()
    def make_inputs(): return [((torch.randn(8, 16),), {})]  # a list of (args, kwargs)"""


@dataclass(frozen=True)
class Source:
    """One text to check: its real path, the path that outputs show, its bytes and what holds for it."""

    path: str
    shown: str
    data: bytes
    settings: Settings


class Check:
    """A run of gbfix. Troubles of all parts come together here; none of them stops the rest."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.terminal = Terminal(options.color, options.output_file, options.quiet, options.silent, options.verbose)
        self.config = Config(options.config, options.overrides(), options.isolated)
        self.settings = self.config.at(self._common_folder())
        self.troubles: list[Trouble] = []
        self.stdin = options.paths == ("-",)
        if "-" in options.paths and not self.stdin:
            raise GbfixError("`-` cannot be mixed with other paths")
        if options.verify and not self.settings.entry:
            raise GbfixError(NEEDS_ENTRY)

    def _common_folder(self) -> str:
        """The folder whose settings hold for the run as a whole: the one that holds all paths given."""
        given = [os.path.realpath(path) for path in self.options.paths or (".",) if path != "-"]
        folder = os.path.commonpath(given or [os.path.realpath(self.options.stdin_filename or "stdin")])
        return folder if os.path.isdir(folder) else os.path.dirname(folder)

    def run(self) -> int:
        """Do it all; the exit code."""
        began = time.monotonic()
        if self.options.show_files:
            paths = (
                [self.options.stdin_filename or "-"] if self.stdin else [sources.display(path) for path in self._find()]
            )
            self.terminal.out("".join(path + "\n" for path in paths))
            return 0
        texts = [self._stdin()] if self.stdin else self._read()
        results = self._results(texts)
        results.troubles = self.troubles
        Output(self.options, self.settings, self.terminal).show(results, stdin=texts[0].data if self.stdin else None)
        self.terminal.detail(f"took {time.monotonic() - began:.2f} s")
        return exit_code(self.options, results)

    def _filter(self, folder: str) -> sources.Filter:
        settings = self.config.at(folder)
        exclude = sources.DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude
        return sources.Filter(settings.root, (*exclude, *settings.extend_exclude), settings.respect_gitignore)

    def _find(self) -> tuple[str, ...]:
        selection = sources.find(self.options.paths or (".",), self._filter, self.options.force_exclude)
        for warning in selection.warnings:
            self.terminal.note(f"warning: {warning}")
        if not selection.files:
            self.terminal.note("warning: no Python files found under the given paths")
        return selection.files

    def _stdin(self) -> Source:
        name = self.options.stdin_filename
        path = os.path.realpath(name or "stdin")
        data = sys.stdin.buffer.read()
        return Source(path, sources.display(path) if name else "-", data, self.config.at(os.path.dirname(path)))

    def _read(self) -> list[Source]:
        texts = []
        for path in self._find():
            try:
                with open(path, "rb") as stream:
                    data = stream.read()
            except OSError as error:
                self._trouble(Trouble(sources.display(path), "unreadable", f"cannot be read: {error.strerror}"))
            else:
                texts.append(Source(path, sources.display(path), data, self.config.at(os.path.dirname(path))))
        return texts

    def _trouble(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)
        if trouble.kind != "syntax":
            self.terminal.say(f"error: {trouble}")
            if trouble.detail:
                self.terminal.detail(trouble.detail)

    def _results(self, texts: Sequence[Source]) -> Results:
        """Run the rules, let verify drop what it refutes, write, and list what is left."""
        candidates = [text for text in texts if sources.is_candidate(text.data)]
        self.terminal.detail(
            f"{len(texts)} files, {len(candidates)} that speak of torch; settings: {self.settings.origin}"
        )
        results = Results(checked=len(texts))
        named = any((self.options.select, self.options.ignore, self.options.extend_select))
        if not candidates and not named:
            return results
        from gbfix import registry, runner

        known = registry.load()
        for trouble in known.troubles:
            self._trouble(trouble)
        self._select(known, self.settings, self.settings.ignore)
        changes = self.options.mode != "report" or self.options.verify
        tasks = [self._task(known, text, changes) for text in candidates]
        results.unsafe = frozenset(task.path for task in tasks if task.unsafe)
        with self.terminal.progress(len(tasks)) as advance:
            results.outcomes = runner.run(tasks, self.options.jobs, advance)
        if self.options.verify and any(outcome.source != outcome.original for outcome in results.outcomes):
            self._settle(results)
        for trouble in (trouble for outcome in results.outcomes for trouble in outcome.troubles):
            self._trouble(trouble)
        if self.options.mode == "fix" and not self.stdin:
            results.outcomes = [self._write(*pair) for pair in zip(candidates, results.outcomes, strict=True)]
        if changes and self.options.mode != "diff":
            self._relist(tasks, results)
        return results

    def _task(self, known: Registry, text: Source, fix: bool) -> Task:
        from gbfix.facts.lattice import Scope
        from gbfix.runner import Task

        rules = self._select(known, text.settings, text.settings.ignored_for(text.path))
        scope = Scope(text.settings.assume_compiled, text.settings.entry_points)
        return Task(text.shown, text.data, rules, text.settings.unsafe_fixes, fix, scope)

    def _select(self, known: Registry, settings: Settings, ignored: tuple[str, ...]) -> tuple[type[Rule], ...]:
        from gbfix.registry import UnknownRule

        try:
            return known.select((*settings.select, *settings.extend_select), ignored)
        except UnknownRule as error:
            for name in ("select", "ignore", "extend_select"):
                if error.selector in (getattr(self.options, name) or ()):
                    raise click.BadParameter(str(error), param_hint=f"'--{name.replace('_', '-')}'") from None
            raise GbfixError(f"{settings.origin}: {error}") from None

    def _settle(self, results: Results) -> None:
        """Let verify drop the fixes that it refutes."""
        from gbfix.verify import driver

        settings = self.settings
        entry = self.options.entry or anchored(settings.entry, settings.root)
        inputs = self.options.inputs or anchored(settings.inputs, settings.root)
        assert entry is not None
        self.terminal.note(f"verify: running {entry} in a child process")
        results.settled = driver.settle(
            results.outcomes,
            entry=entry,
            inputs=inputs,
            timeout_s=settings.verify_timeout_s,
            progress=lambda text: self.terminal.note(f"verify: {text}"),
        )
        results.outcomes = list(results.settled.outcomes)

    def _write(self, text: Source, outcome: Outcome) -> Outcome:
        """Write a changed text; where that fails the file counts as unchanged."""
        if outcome.source == outcome.original:
            return outcome
        try:
            with open(text.path, "rb") as stream:
                unchanged = stream.read() == text.data
            if unchanged:
                sources.write(text.path, outcome.source)
                return outcome
            self._trouble(Trouble(text.shown, "unwritable", "changed while gbfix ran; left as it is"))
        except OSError as error:
            self._trouble(Trouble(text.shown, "unwritable", f"cannot be written: {error.strerror}"))
        return replace(outcome, source=outcome.original)

    def _relist(self, tasks: Sequence[Task], results: Results) -> None:
        """Find again what is left, in the text that the user has now: positions in changed files have moved."""
        from gbfix import runner

        moved = [index for index, outcome in enumerate(results.outcomes) if outcome.fixed]
        texts = [o.source if self.options.mode == "fix" else o.original for o in results.outcomes]
        again = [replace(tasks[index], source=texts[index], fix=False) for index in moved]
        for index, listed in zip(moved, runner.run(again, self.options.jobs), strict=True):
            outcome = results.outcomes[index]
            known = {finding.fingerprint: finding for finding in outcome.left}
            left = [
                replace(found, fix=known[found.fingerprint].fix, declined=known[found.fingerprint].declined)
                if found.fingerprint in known
                else found
                for found in listed.left
            ]
            kept = outcome.fixed if outcome.source != outcome.original else ()
            results.outcomes[index] = replace(outcome, left=tuple(left), fixed=kept)


def exit_code(options: Options, results: Results) -> int:
    """2 for what failed; 1 for what was found, in every mode alike; 0 else."""
    codes = [trouble.exit_code for trouble in results.troubles]
    if results.settled is not None:
        codes.append(results.settled.exit_code)
    if 2 in codes:
        return 2
    changed = any(outcome.source != outcome.original for outcome in results.outcomes)
    if options.exit_zero:
        return 0
    if options.mode == "fix" and changed and options.exit_non_zero_on_fix:
        return 1
    if options.mode == "fix" and options.fix_only:
        return 0
    left = any(outcome.left for outcome in results.outcomes)
    return int(left or 1 in codes or (changed and options.mode == "diff"))


def anchored(where: str | None, root: str) -> str | None:
    """`FILE:CALLABLE` of a configuration, with the file relative to that configuration; a module stays as it is."""
    file, _, name = (where or "").rpartition(":")
    return f"{os.path.join(root, file)}:{name}" if file.endswith(".py") else where
