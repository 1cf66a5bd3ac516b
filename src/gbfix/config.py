"""The settings of a file: the nearest configuration, the command line on top of it."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gbfix.errors import GbfixError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMATS = ("full", "concise", "json", "rdjson", "github")
_FUNCTION = re.compile(r"([^:]+:)?[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAMES = (".gbfix.toml", "gbfix.toml", "pyproject.toml")


@dataclass(frozen=True)
class Settings:
    """What holds for one file. Patterns and paths are relative to `root`; `origin` says where the settings came from.

    `exclude` None means the defaults.
    """

    root: str
    origin: str = "defaults"
    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    assume_compiled: bool = False
    entry_points: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    output_format: str = "full"
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    entry: str | None = None
    inputs: str | None = None
    verify_timeout_s: float = 300.0

    def ignored_for(self, path: str) -> tuple[str, ...]:
        """What is ignored for a file: `ignore`, and `per-file-ignores` whose pattern names it."""
        if not self.per_file_ignores:
            return self.ignore
        import pathspec

        inside = os.path.relpath(path, self.root).replace(os.sep, "/")
        more = [
            code
            for pattern, codes in self.per_file_ignores
            if pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(inside)
            for code in codes
        ]
        return (*self.ignore, *more)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings")
    return tuple(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise TypeError("a number of seconds above 0")
    return float(value)


def _format(value: object) -> str:
    if not isinstance(value, str) or value not in FORMATS:
        raise TypeError(f"one of {', '.join(FORMATS)}")
    return value


def _functions(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and _FUNCTION.fullmatch(item) for item in value):
        raise TypeError('a list of functions, such as "pkg.mod:func" or "Class.method"')
    return tuple(value)


def _table(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError("a table of pattern = [codes]")
    return tuple((pattern, _strings(codes)) for pattern, codes in value.items())


_READERS: dict[str, Callable[[object], object]] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "unsafe-fixes": _flag,
    "assume-compiled": _flag,
    "entry-points": _functions,
    "exclude": _strings,
    "extend-exclude": _strings,
    "respect-gitignore": _flag,
    "output-format": _format,
    "per-file-ignores": _table,
    "entry": _string,
    "inputs": _string,
    "verify-timeout-s": _seconds,
}


def did_you_mean(word: str, known: list[str]) -> str:
    """`; did you mean X?` where a known word is close, else nothing."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _read(table: Mapping[str, Any], where: str, prefix: str) -> dict[str, Any]:
    """The fields that a table sets."""
    read: dict[str, Any] = {}
    for key, value in table.items():
        reader = _READERS.get(key)
        if reader is None:
            raise GbfixError(f"{where}: unknown key {prefix}{key}{did_you_mean(key, list(_READERS))}")
        try:
            read[key.replace("-", "_")] = reader(value)
        except TypeError as error:
            raise GbfixError(f"{where}: {prefix}{key} must be {error}, not {value!r}") from None
    return read


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        raise GbfixError(f"{where}: not valid TOML: {reason[:1].lower()}{reason[1:]}") from None


def _load(path: Path, shown: str) -> dict[str, Any] | None:
    """The fields that a file sets; None for a pyproject.toml that does not speak of gbfix."""
    try:
        data = _parse(path.read_text(encoding="utf-8"), shown)
    except (OSError, UnicodeDecodeError) as error:
        raise GbfixError(f"{shown}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if path.name != "pyproject.toml":
        return _read(data, shown, "")
    tool = data.get("tool")
    table = tool.get("gbfix") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise GbfixError(f"{shown}: tool.gbfix must be a table, not {table!r}")
    return _read(table, shown, "tool.gbfix.")


def inline(texts: tuple[str, ...]) -> tuple[str | None, dict[str, Any]]:
    """What `--config` values say: a file to use, and fields that `key = value` texts set."""
    file: str | None = None
    read: dict[str, Any] = {}
    for text in texts:
        if os.path.isfile(text):
            if file is not None:
                raise GbfixError(f"--config: two files were given, {file} and {text}; give one")
            file = text
        elif "=" in text:
            read |= _read(_parse(text, "--config"), "--config", "")
        else:
            raise GbfixError(f"--config: {text!r} is neither a file nor `key = value`")
    return file, read


class Config:
    """Gives the settings of a folder: the nearest configuration, never merged with those above it.

    `texts` are `--config` values, `overrides` fields that options set; both go on top.
    """

    def __init__(
        self, texts: tuple[str, ...] = (), overrides: Mapping[str, Any] | None = None, isolated: bool = False
    ) -> None:
        self._file, read = inline(texts)
        self._overrides = {**read, **(overrides or {})}
        self._isolated = isolated
        self._known: dict[str, Settings] = {}

    def at(self, folder: str) -> Settings:
        """The settings for files in a folder (an absolute path)."""
        if folder not in self._known:
            self._known[folder] = self._find(folder)
        return self._known[folder]

    def _find(self, folder: str) -> Settings:
        here = os.path.realpath(os.curdir)
        if self._isolated:
            return self._top(here, "defaults", {})
        if self._file is not None:
            return self._top(here, self._file, _load(Path(self._file), self._file) or {})
        for path in (Path(folder, name) for name in _NAMES):
            if path.is_file():
                shown = os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
                read = _load(path, shown)
                if read is not None:
                    return self._top(folder, shown, read)
        parent = os.path.dirname(folder)
        return self._top(here, "defaults", {}) if parent == folder else self.at(parent)

    def _top(self, root: str, origin: str, read: dict[str, Any]) -> Settings:
        """What a file sets, with what the command line sets on top of it."""
        fields = {**read, **self._overrides}
        for name in ("extend_select", "extend_exclude"):
            fields[name] = (*read.get(name, ()), *self._overrides.get(name, ()))
        return Settings(root=root, origin=origin, **fields)


def show(settings: Settings) -> dict[str, object]:
    """Settings by the names that a configuration file uses."""
    return {key.replace("_", "-"): value for key, value in asdict(settings).items() if key not in ("root", "origin")}
