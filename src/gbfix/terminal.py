"""What is printed where: streams, colour, quiet and silent, a reader that has gone away."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TextIO

import click

from gbfix.errors import GbfixError

# Below this a progress bar would only flicker.
_MANY_FILES = 50


def wants_color(choice: str, stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: by the option, else NO_COLOR, else FORCE_COLOR or CLICOLOR_FORCE, else a terminal not dumb."""
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


@dataclass
class Terminal:
    """Where a run speaks: results to stdout or a file, all else to stderr."""

    color: str = "auto"
    output_file: str | None = None
    quiet: bool = False
    silent: bool = False
    verbose: bool = False
    _began: bool = field(default=False, init=False)

    @property
    def out_color(self) -> bool:
        """Whether results are coloured; a file never is."""
        return self.output_file is None and wants_color(self.color, sys.stdout)

    @property
    def err_color(self) -> bool:
        """Whether stderr is coloured."""
        return wants_color(self.color, sys.stderr)

    def out(self, data: str | bytes) -> None:
        """Write a result. Silence does not hold for a file that was asked for."""
        if isinstance(data, str):
            encoding = "utf-8" if self.output_file else sys.stdout.encoding or "utf-8"
            data = data.encode(encoding, "backslashreplace")
        if self.output_file is not None:
            self._to_file(data)
        elif not self.silent:
            stream = sys.stdout.buffer
            try:
                stream.write(data)
                stream.flush()
            except BrokenPipeError:
                # The reader (`| head`) has what it wanted; the interpreter's last flush must not complain either.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _to_file(self, data: bytes) -> None:
        try:
            with open(self.output_file or os.devnull, "ab" if self._began else "wb") as stream:
                stream.write(data)
            self._began = True
        except OSError as error:
            raise GbfixError(f"{self.output_file}: cannot be written: {error.strerror}") from None

    def say(self, text: str) -> None:
        """A finding or an error, on stderr."""
        if not self.silent:
            click.echo(text, err=True, color=self.err_color)

    def note(self, text: str) -> None:
        """A summary or a warning, on stderr, not with --quiet."""
        if not self.quiet:
            self.say(text)

    def detail(self, text: str) -> None:
        """What only --verbose shows, on stderr."""
        if self.verbose:
            self.say(text)

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[Callable[[], None]]:
        """A bar on stderr for many files; gives back what to call after each."""
        if self.quiet or self.silent or total <= _MANY_FILES or os.environ.get("CI") or not sys.stderr.isatty():
            yield lambda: None
            return
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True, no_color=not self.err_color)
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("checking", total=total)
            yield lambda: bar.advance(task)
