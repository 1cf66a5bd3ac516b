"""The commands of gbfix, and the exit codes of what goes wrong."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from gbfix import __version__
from gbfix.errors import GbfixError
from gbfix.options import Options, check_options

_OWN = ("-h", "--help", "-V", "--version")


class DefaultGroup(click.Group):
    """A group whose `check` may be left out: `gbfix --diff src/` is `gbfix check --diff src/`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `check` in front, unless a command or an option of the group itself comes first."""
        completing_first_word = ctx.resilient_parsing and not args
        if not completing_first_word and (not args or (args[0] not in self.commands and args[0] not in _OWN)):
            args = ["check", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the options and paths of `check` as well as the commands."""
        from click.shell_completion import CompletionItem

        paths = [] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")]
        options = self.commands["check"].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *options, *paths]


@click.group(cls=DefaultGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Find torch.compile graph breaks, rewrite them, and prove each rewrite.

    Without a command, `check` is meant: `gbfix --diff src/`. Its options: `gbfix check --help`.
    """


@cli.command()
@check_options
@click.pass_context
def check(context: click.Context, /, **given: Any) -> None:
    """Report graph breaks; with --diff or --fix, rewrite them.

    PATHS defaults to the working directory; `-` is stdin.
    """
    from gbfix.check import Check

    context.exit(Check(Options(**given)).run())


@cli.command()
@check_options
@click.pass_context
def verify(context: click.Context, /, **given: Any) -> None:
    """Like check --verify: run the code to prove each fix."""
    from gbfix.check import Check

    context.exit(Check(Options(**{**given, "verify": True})).run())


@cli.command()
@click.argument("code", required=False)
@click.option("--all", "every", is_flag=True, help="All rules.")
@click.option("--output-format", type=click.Choice(("text", "json", "markdown")), default="text")
def rule(code: str | None, every: bool, output_format: str) -> None:
    """Explain a rule: what it matches, why that breaks the graph, how safe its fix is.

    CODE is the rule's code or name, or a torch GB id.
    """
    from gbfix import registry
    from gbfix.report import rules
    from gbfix.terminal import Terminal

    if every == (code is not None):
        raise click.UsageError("give one CODE, or --all")
    known = registry.load()
    terminal = Terminal()
    for trouble in known.troubles:
        terminal.say(f"error: {trouble}")
    try:
        chosen = known.rules if code is None else known.named(code)
    except registry.UnknownRule as error:
        raise click.BadParameter(str(error), param_hint="CODE") from None
    terminal.out(rules.render(chosen, output_format))
    if known.troubles:
        raise click.exceptions.Exit(2)


@cli.command()
@click.argument("path", default=".")
@click.option("--config", "texts", multiple=True, metavar="FILE|KEY=VALUE")
@click.option("--isolated", is_flag=True)
def config(path: str, texts: tuple[str, ...], isolated: bool) -> None:
    """Print the settings that hold for PATH and the file they come from."""
    import json
    import os

    from gbfix.config import Config, show
    from gbfix.terminal import Terminal

    folder = os.path.realpath(path)
    if not os.path.exists(folder):
        raise GbfixError(f"{path}: no such file or folder")
    settings = Config(texts, isolated=isolated).at(folder if os.path.isdir(folder) else os.path.dirname(folder))
    lines = [f"{key} = {json.dumps(value)}" for key, value in show(settings).items()]
    Terminal().out("\n".join([f"# from {settings.origin}", *lines, ""]))


@cli.command()
@click.argument("place", metavar="FILE:LINE[:COLUMN]")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text")
@click.option("--config", "texts", multiple=True, metavar="FILE|KEY=VALUE")
@click.option("--isolated", is_flag=True)
def facts(place: str, output_format: str, texts: tuple[str, ...], isolated: bool) -> None:
    """Tell what gbfix knows of a line, or of the expression at a column, and why.

    What each value is, whether the function is compiled, and what on the line could break the graph.
    """
    from gbfix.place import show
    from gbfix.terminal import Terminal

    Terminal().out(show(place, output_format, texts, isolated))


def main() -> NoReturn:
    """Run the command line and end the process: 2 for what failed, 130 for Ctrl-C."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """The exit code of a command line."""
    try:
        return int(cli.main(args, prog_name="gbfix", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except GbfixError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except Exception:
        import traceback

        click.echo(f"gbfix {__version__} crashed; nothing more was written.\n{traceback.format_exc()}", err=True)
        return 2
