"""Unified diffs, byte for byte what `git apply` takes."""

from __future__ import annotations

import difflib
import re

import click

_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_NO_NEWLINE = b"\n\\ No newline at end of file\n"


def unified(old: bytes, new: bytes, path: str, context: int = 3, prefix: bool = True) -> bytes:
    """The diff of one file; empty where nothing changes. With `prefix`, names start with `a/` and `b/`."""
    if old == new:
        return b""
    # Latin-1 maps bytes to characters one to one, so that difflib compares exact bytes in any encoding.
    before, after = ([line.decode("latin-1") for line in _lines(data)] for data in (old, new))
    name = path.encode("utf-8", "surrogateescape")
    blank = b"\t" if b" " in name else b""
    out = []
    for sign, side in ((b"---", b"a/"), (b"+++", b"b/")):
        out.append(
            sign + b" " + _quoted(side + re.sub(rb"^(?:[A-Za-z]:)?/+", b"", name) if prefix else name) + blank + b"\n"
        )
    for line in list(difflib.unified_diff(before, after, n=context))[2:]:
        raw = line.encode("latin-1")
        out.append(raw if raw.endswith(b"\n") else raw + _NO_NEWLINE)
    return b"".join(out)


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends. Only a line feed ends one, as in git; `splitlines` knows more."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def _quoted(name: bytes) -> bytes:
    """A file name as git writes it: in quotes with C escapes where it holds odd bytes."""
    if not any(byte < 32 or byte in (34, 92) or byte >= 127 for byte in name):
        return name
    return (
        b'"'
        + b"".join(_ESCAPES.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte) for byte in name)
        + b'"'
    )


def colored(diff: bytes) -> bytes:
    """The diff for a terminal; not for `git apply`."""
    return b"".join(_colored(line) for line in _lines(diff))


def _colored(line: bytes) -> bytes:
    look: dict[str, object] = {}
    if line.startswith((b"---", b"+++")):
        look = {"bold": True}
    elif line.startswith(b"@@"):
        look = {"fg": "cyan"}
    elif line.startswith((b"-", b"+")):
        look = {"fg": "red" if line.startswith(b"-") else "green"}
    if not look:
        return line
    body = line.rstrip(b"\r\n")
    styled = click.style(body.decode("latin-1"), **look)  # type: ignore[arg-type]
    return styled.encode("latin-1") + line[len(body) :]
