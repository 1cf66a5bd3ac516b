"""Which files are checked, what their bytes are, and how new bytes are written."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import shutil
import tempfile
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pathspec

from gbfix.errors import GbfixError

# What ruff and black skip by default, together.
DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox", ".pants.d",
    ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode", "__pypackages__", "_build",
    "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip


@cache
def patterns(lines: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    """Patterns in gitignore's own form."""
    return pathspec.GitIgnoreSpec.from_lines(lines)


@dataclass(frozen=True)
class Filter:
    """What is left out of a walk: patterns relative to `root`, and whether .gitignore files count."""

    root: str
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    gitignore: bool = True

    def excludes(self, path: str, is_dir: bool) -> bool:
        """Whether a pattern names the path or a folder that holds it."""
        inside = _inside(path, self.root)
        # Outside the root (a path named elsewhere) only the name itself can be judged.
        name = inside if inside is not None else os.path.basename(path)
        return patterns(self.exclude).match_file(name.replace(os.sep, "/") + ("/" if is_dir else ""))

    def drops(self, path: str, is_dir: bool) -> bool:
        """Whether a walk leaves the path out."""
        return self.excludes(path, is_dir) or (self.gitignore and gitignored(path, is_dir))


@dataclass(frozen=True)
class Selection:
    """The files of a run in stable order, and what a user should hear about the paths given."""

    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass
class _Found:
    files: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def find(paths: Iterable[str], filter_at: Callable[[str], Filter], force_exclude: bool = False) -> Selection:
    """The real paths of all files to check. A file that is named is taken as it is; a folder is walked.

    `filter_at` gives the filter of a folder. With `force_exclude`, filters hold for named paths too.
    """
    found = _Found()
    for given in paths:
        path = os.path.realpath(given)
        if not os.path.exists(path):
            raise GbfixError(f"{given}: no such file or folder")
        is_dir = os.path.isdir(path)
        if force_exclude and _dropped_on_the_way(path, is_dir, filter_at):
            continue
        if is_dir:
            _walk(path, filter_at, found)
        elif path.endswith(".ipynb"):
            found.warnings.append(f"{given}: notebooks are not supported; skipped")
        else:
            found.files.add(path)
    # Sorted by parts, so that a folder's files stay together.
    return Selection(tuple(sorted(found.files, key=lambda path: path.split(os.sep))), tuple(found.warnings))


def _dropped_on_the_way(path: str, is_dir: bool, filter_at: Callable[[str], Filter]) -> bool:
    """Whether a walk from the filter's root would not have come to the path."""
    chosen = filter_at(path if is_dir else os.path.dirname(path))
    return chosen.drops(path, is_dir) or (
        chosen.gitignore and any(gitignored(str(parent), True) for parent in Path(path).parents)
    )


def _walk(top: str, filter_at: Callable[[str], Filter], found: _Found) -> None:
    at_top = filter_at(top)
    # A folder named by the user is entered even if a filter names it: then that filter says nothing of what is inside.
    named_anyway = at_top.excludes(top, True)
    ignored_anyway = gitignored(top, True)

    def dropped(entry: os.DirEntry[str], is_dir: bool, chosen: Filter) -> bool:
        if not named_anyway and chosen.excludes(entry.path, is_dir):
            return True
        return chosen.gitignore and not ignored_anyway and gitignored(entry.path, is_dir)

    pending = [top]
    while pending:
        folder = pending.pop()
        chosen = filter_at(folder)
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            found.warnings.append(f"{folder}: {error.strerror}; skipped")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not dropped(entry, True, chosen):
                    pending.append(entry.path)
            elif entry.name.endswith(".py") and entry.is_file() and not dropped(entry, False, chosen):
                found.files.add(os.path.realpath(entry.path))


def gitignored(path: str, is_dir: bool) -> bool:
    """Whether a .gitignore from the path's folder up to the repository's root leaves it out; the nearest decides."""
    folder = os.path.dirname(path)
    root = _repository(folder)
    while root is not None:
        for name in (".gitignore", ".git/info/exclude"):
            spec = _ignore_file(os.path.join(folder, name))
            inside = _inside(path, folder)
            if spec is not None and inside is not None:
                answer = spec.check_file(inside.replace(os.sep, "/") + ("/" if is_dir else "")).include
                if answer is not None:
                    return answer
        if folder == root:
            return False
        folder = os.path.dirname(folder)
    return False


@cache
def _repository(folder: str) -> str | None:
    if os.path.exists(os.path.join(folder, ".git")):
        return folder
    parent = os.path.dirname(folder)
    return None if parent == folder else _repository(parent)


@cache
def _ignore_file(path: str) -> pathspec.GitIgnoreSpec | None:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    return patterns(tuple(lines))


def _inside(path: str, folder: str) -> str | None:
    prefix = folder.rstrip(os.sep) + os.sep
    return path[len(prefix) :] if path.startswith(prefix) else None


def display(path: str) -> str:
    """The path as every output shows it: relative to the working directory where it lies in it, with `/`."""
    inside = _inside(path, os.path.realpath(os.curdir))
    return (path if inside is None else inside).replace(os.sep, "/")


def review_prefix() -> str:
    """What turns a displayed path into one from the repository's root: `` or `folder/`."""
    here = os.path.realpath(os.curdir)
    root = _repository(here)
    inside = _inside(here, root) if root else None
    return inside.replace(os.sep, "/") + "/" if inside else ""


def is_candidate(source: bytes) -> bool:
    """Whether a file can hold a graph break: it must speak of torch."""
    return b"torch" in source


def lines_of(source: bytes) -> tuple[str, ...]:
    """The text as Python counts its lines (`\\n`, `\\r\\n` and `\\r` end one), ends kept, the byte order mark dropped.

    Bytes that the file's encoding does not have are replaced: this is for showing, not for writing.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "utf-8"
    text = source.removeprefix(codecs.BOM_UTF8).decode(encoding.removesuffix("-sig"), errors="replace")
    return tuple(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))


def write(path: str, data: bytes) -> None:
    """Put new bytes in a file's place, whole or not at all; mode and symbolic links stay."""
    target = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(prefix=".gbfix-", dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
