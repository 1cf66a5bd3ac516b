"""Edits that put whole statements under a new header line, whatever shares their lines."""

from __future__ import annotations

import ast
import io
import tokenize

from gbfix.rule import Context, Edit


def under(context: Context, function: ast.stmt, first: ast.stmt, last: ast.stmt, header: str) -> tuple[Edit, ...]:
    """Put the statements `first` to `last` of one block under a header, one step deeper.

    Comments and blank lines between them stay, strings that run over lines keep their content, and neighbours on the
    same line (`a(); b()`, `for i in n: b()`) move to lines of their own.
    """
    block, unit = context.block(first), context.unit()
    start, end = block.index(first), block.index(last)
    inline = not leads(context, block[0])
    indent = context.indent(block[0]) + (unit if inline else "")
    span = context.replace(first, "", last)
    text = f"{header}\n{indent}{unit}{_deeper(context, function, span, unit)}"
    edits = []
    if not leads(context, first):
        span, text = _from_gap(context, block, start, span), f"\n{indent}{text}"
        if start > 0 and inline:
            opening = _from_gap(context, block, 0, context.replace(block[0], ""))
            edits.append(Edit(opening.line, opening.column, block[0].lineno, block[0].col_offset, f"\n{indent}"))
    end_line, end_column = span.end_line, span.end_column
    if end + 1 < len(block) and not leads(context, block[end + 1]):
        end_line, end_column, text = block[end + 1].lineno, block[end + 1].col_offset, f"{text}\n{indent}"
    return (*edits, Edit(span.line, span.column, end_line, end_column, text))


def leads(context: Context, statement: ast.stmt) -> bool:
    """Whether nothing stands before the statement on its line."""
    return not context.before(statement).strip()


def _from_gap(context: Context, block: list[ast.stmt], index: int, span: Edit) -> Edit:
    """The span, from the end of what stands before it on the same line: another statement, or the header's colon."""
    if index > 0:
        before = context.replace(block[index - 1], "")
        return Edit(before.end_line, before.end_column, span.end_line, span.end_column, "")
    return Edit(span.line, len(context.before(block[index]).rstrip()), span.end_line, span.end_column, "")


def _deeper(context: Context, function: ast.stmt, span: Edit, unit: str) -> str:
    """The text of a span, its later lines one step deeper unless they start inside a string."""
    source = context.text(function)
    lines = (" " * function.col_offset + source).split("\n")[
        span.line - function.lineno : span.end_line - function.lineno + 1
    ]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    fixed = _inside_strings(source)
    later = (
        line if span.line + number - function.lineno in fixed or not line.strip() else unit + line
        for number, line in enumerate(lines[1:], 1)
    )
    return "\n".join([lines[0], *later])


def _inside_strings(source: str) -> set[int]:
    """The lines (0-based) of a text that start inside a string, where white space is content."""
    fixed: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind, top = tokenize.tok_name[token.type], token.start[0]
        # From Python 3.12 on an f-string is several tokens.
        if kind.endswith("STRING_START"):
            opened.append(top)
        elif kind.endswith("STRING_END"):
            top, kind = opened.pop(), "STRING"
        if kind == "STRING":
            fixed.update(range(top, token.end[0]))
    return fixed
