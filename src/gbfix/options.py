"""The options of a check, declared once and handed on as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from gbfix.config import FORMATS

_Command = TypeVar("_Command", bound=Callable[..., object])


@dataclass(frozen=True)
class Options:
    """What the command line says of a check; None where it says nothing and the configuration decides."""

    paths: tuple[str, ...]
    diff: bool
    fix: bool
    fix_only: bool
    unsafe_fixes: bool | None
    select: tuple[str, ...] | None
    ignore: tuple[str, ...] | None
    extend_select: tuple[str, ...] | None
    assume_compiled: bool | None
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...] | None
    force_exclude: bool
    respect_gitignore: bool | None
    stdin_filename: str | None
    show_files: bool
    output_format: str | None
    output_file: str | None
    statistics: bool
    color: str
    unified: int
    prefix: bool
    quiet: bool
    silent: bool
    verbose: bool
    exit_zero: bool
    exit_non_zero_on_fix: bool
    config: tuple[str, ...]
    isolated: bool
    jobs: int | None
    verify: bool
    entry: str | None
    inputs: str | None
    verify_timeout_s: float | None

    @property
    def mode(self) -> str:
        """report, diff or fix; a diff never writes, whatever else is given."""
        return "diff" if self.diff else "fix" if self.fix or self.fix_only else "report"

    def overrides(self) -> dict[str, Any]:
        """The settings that the command line sets."""
        names = (
            "select", "ignore", "extend_select", "assume_compiled", "unsafe_fixes", "exclude", "extend_exclude",
            "respect_gitignore", "output_format", "entry", "inputs", "verify_timeout_s",
        )  # fmt: skip
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _words(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Values of an option that may be given many times, each a list with commas; None where it was not given."""
    words = tuple(word.strip() for value in values for word in value.split(",") if word.strip())
    return words if values else None


def _list(name: str, metavar: str, text: str) -> Callable[[_Command], _Command]:
    return click.option(name, multiple=True, metavar=metavar, callback=_words, help=text)


_FILE = click.Path(dir_okay=False)
_DECLARED: tuple[Callable[[Any], Any], ...] = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
    click.option("--diff", is_flag=True, help="Print one unified diff of the fixes to stdout; change nothing."),
    click.option("--fix", is_flag=True, help="Write fixes; report what is left."),
    click.option("--fix-only", is_flag=True, help="Write fixes; neither report nor fail on what is left."),
    click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="Also fixes that may change results."),
    _list("--select", "RULES", "Rules to run: codes, starts of codes, names, torch GB ids, ALL; comma separated."),
    _list("--ignore", "RULES", "Rules to leave out."),
    _list("--extend-select", "RULES", "Rules to run besides those selected."),
    click.option("--assume-compiled/--no-assume-compiled", default=None, help="Every function counts as compiled."),
    _list("--exclude", "PATTERNS", "Patterns to leave out of a walk, instead of the defaults."),
    _list("--extend-exclude", "PATTERNS", "Patterns to leave out besides the others."),
    click.option("--force-exclude", is_flag=True, help="Patterns and .gitignore hold for named paths too."),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Whether .gitignore files count."),
    click.option("--stdin-filename", metavar="PATH", help="The name of what `-` reads."),
    click.option("--show-files", is_flag=True, help="List the files that would be checked."),
    click.option(
        "--output-format", type=click.Choice(FORMATS), envvar="GBFIX_OUTPUT_FORMAT", show_envvar=True,
        help="How findings look."
    ),
    click.option("-o", "--output-file", type=_FILE, help="Write results there instead of to stdout."),
    click.option("--statistics", is_flag=True, help="Count findings by rule."),
    click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="When to colour."),
    click.option("-U", "--unified", type=click.IntRange(min=0), default=3, metavar="N", help="Lines of context."),
    click.option("--prefix/--no-prefix", default=True, help="Whether names in a diff start with a/ and b/."),
    click.option("-q", "--quiet", is_flag=True, help="Findings or the diff only."),
    click.option("-s", "--silent", is_flag=True, help="Print nothing."),
    click.option("-v", "--verbose", is_flag=True, help="Say what is done, and show the traceback of a crash."),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings."),
    click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if something was written."),
    click.option("--config", multiple=True, metavar="FILE|KEY=VALUE", help="A configuration file, or one setting."),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; default: one a CPU."),
    click.option("--verify", is_flag=True, help="Run the code to prove each fix, in a child process; drop what fails."),
    click.option("--entry", metavar="WHERE:CALLABLE", help="What verify runs: what builds the model."),
    click.option("--inputs", metavar="WHERE:CALLABLE", help="What gives verify the inputs."),
    click.option("--verify-timeout", "verify_timeout_s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                 help="How long verify may run."),
)  # fmt: skip


def check_options(command: _Command) -> _Command:
    """Declare every option of a check on a command."""
    for declare in reversed(_DECLARED):
        command = declare(command)
    return command
