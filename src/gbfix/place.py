"""The `facts` command: from `FILE:LINE[:COLUMN]` to what is printed."""

from __future__ import annotations

import os
import re

import click

from gbfix import registry, sources
from gbfix.config import Config
from gbfix.engine import decode
from gbfix.errors import GbfixError
from gbfix.facts.explain import NothingThere, explain
from gbfix.facts.lattice import Scope
from gbfix.facts.project import ModuleFacts
from gbfix.report import facts as report


def show(place: str, output_format: str, texts: tuple[str, ...] = (), isolated: bool = False) -> str:
    """What facts know of a place, as text or JSON. `texts` are `--config` values."""
    parts = re.fullmatch(r"(.+?):([1-9]\d*)(?::([1-9]\d*))?", place)
    if parts is None:
        raise click.BadParameter(f"{place!r} is not FILE:LINE or FILE:LINE:COLUMN", param_hint="PLACE")
    path, line, column = parts[1], int(parts[2]), int(parts[3]) - 1 if parts[3] else None
    facts = _facts(path)
    if line > len(facts.lines):
        raise GbfixError(f"{path}: there is no line {line}; the last one is {len(facts.lines)}")
    settings = Config(texts, isolated=isolated).at(os.path.dirname(os.path.realpath(path)))
    calls = sorted({pattern for rule in registry.load().rules for pattern in rule.calls})
    try:
        found = explain(facts, line, column, calls, Scope(settings.assume_compiled, settings.entry_points))
    except NothingThere as error:
        raise GbfixError(f"{place}: {error}") from None
    if output_format == "json":
        return report.as_json(path, line, column, found)
    return report.text(path, line, found)


def _facts(path: str) -> ModuleFacts:
    """The facts of a file."""
    try:
        with open(path, "rb") as stream:
            text, _ = decode(stream.read())
        return ModuleFacts(text, sources.display(os.path.realpath(path)))
    except OSError as error:
        raise GbfixError(f"{path}: cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise GbfixError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise GbfixError(f"{path}: not valid Python: {error}") from None
