"""A diff that `git apply` takes, byte for byte, whatever the file holds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest
import unidiff

from gbfix.report import diff

LINE = b"    y = x.cos()\n"
BREAK = b"    graph_break()\n"


def text(before: bytes = LINE, after: bytes = LINE, head: bytes = b"import torch\n") -> tuple[bytes, bytes]:
    """A text with a line that goes away, and the text without it."""
    return head + before + BREAK + after, head + before + after


MATRIX = {
    "lf.py": text(),
    "crlf.py": tuple(part.replace(b"\n", b"\r\n") for part in text()),
    "mixed.py": text(b"    a = 1\r\n", b"    b = 2\n    c = 3\r\n"),
    "no_final_newline.py": text(after=b"    return y"),
    "last_line_goes.py": (LINE + BREAK[:-1], LINE[:-1]),
    "gains_newline.py": (LINE + b"z", LINE + b"z\n"),
    "bom.py": text(head=b"\xef\xbb\xbfimport torch\n"),
    "bom_line_changes.py": (b"\xef\xbb\xbfgraph_break()\nx = 1\n", b"\xef\xbb\xbfx = 1\n"),
    "latin1.py": text(b"    s = '\xe9'\n", head=b"# -*- coding: latin-1 -*-\n"),
    "tabs.py": text(b"\ty = 1\n", b"\t\tz = 2\n"),
    "form_feed.py": text(b"    a = 1\x0c\n", b"\x0c\n    b\n"),
    "vertical_tab.py": text(b"    a = '\x0b'\n", b"    b = '\x1c\x1d\x1e'\n"),
    "line_separator.py": text("    a = '\u2028'\n".encode(), "    b = '\u2029'\n".encode()),
    "nel.py": text("    a = '\x85'\n".encode(), b"    b = '\x85'\n"),
    "lone_cr.py": text(b"    a = 1\rb = 2\n", b"    c\r\r\n"),
    "trailing_blanks.py": text(b"    a = 1   \n", b"   \n\t\n"),
    "a name.py": text(),
    "déjà vu.py": text(),
    'quo"te\\.py': text(),
    "deep/er/nested.py": text(),
    "emptied.py": (b"graph_break()\n", b""),
    "minus_minus.py": text(b"-- a\n", b"++ b\n"),
}  # fmt: skip


def git(root: Path, *args: str, stdin: bytes = b"") -> None:
    done = subprocess.run(["git", *args], cwd=root, input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def put(root: Path, names: dict[str, tuple[bytes, bytes]]) -> None:
    for name, (old, _) in names.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(old)


@pytest.mark.parametrize("name", list(MATRIX))
def test_git_applies_one_file(tmp_path: Path, name: str) -> None:
    old, new = MATRIX[name]
    put(tmp_path, {name: (old, new)})
    git(tmp_path, "init", "-q")
    git(tmp_path, "apply", "--whitespace=nowarn", stdin=diff.unified(old, new, name))
    assert (tmp_path / name).read_bytes() == new


@pytest.mark.parametrize("context", [3, 1, 0])
def test_git_applies_all_files_at_once(tmp_path: Path, context: int) -> None:
    put(tmp_path, MATRIX)
    git(tmp_path, "init", "-q")
    patch = b"".join(diff.unified(old, new, name, context) for name, (old, new) in MATRIX.items())
    git(tmp_path, "apply", "--whitespace=nowarn", *(["--unidiff-zero"] if context == 0 else []), stdin=patch)
    assert {name: (tmp_path / name).read_bytes() for name in MATRIX} == {name: new for name, (_, new) in MATRIX.items()}


def test_exact_form() -> None:
    old = b"import torch\ndef step(x):\n    y = x\n    graph_break()\n    return y"
    assert diff.unified(old, old.replace(BREAK, b""), "src/a b.py") == (
        b"--- a/src/a b.py\t\n+++ b/src/a b.py\t\n@@ -1,5 +1,4 @@\n import torch\n def step(x):\n     y = x\n"
        b"-    graph_break()\n     return y\n\\ No newline at end of file\n"
    )


def test_nothing_for_no_change() -> None:
    assert diff.unified(b"a", b"a", "a.py") == b""


def test_names() -> None:
    def head(path: str, **more: bool) -> bytes:
        return diff.unified(b"a\n", b"b\n", path, **more).split(b"\n")[0]  # type: ignore[arg-type]

    assert head("a.py", prefix=False) == b"--- a.py"
    assert head("/tmp/a.py") == b"--- a/tmp/a.py"
    assert head("/tmp/a.py", prefix=False) == b"--- /tmp/a.py"
    assert head("é.py") == b'--- "a/\\303\\251.py"'


def test_another_reader_takes_it() -> None:
    plain = {name: texts for name, texts in MATRIX.items() if name.isascii() and '"' not in name}
    patch = b"".join(diff.unified(old, new, name) for name, (old, new) in plain.items())
    read = unidiff.PatchSet([line + "\n" for line in patch.decode("latin-1").split("\n")[:-1]])
    assert [file.path for file in read] == list(plain)


def test_colour_goes_away_again() -> None:
    for name, (old, new) in MATRIX.items():
        patch = diff.unified(old, new, name)
        colored = diff.colored(patch)
        assert b"\x1b[" in colored
        assert click.unstyle(colored.decode("latin-1")).encode("latin-1") == patch
