"""Pure judgements on what the children measured: which breaks went, which lines ran, what a ratio may claim."""

from __future__ import annotations

import ast
import difflib
import inspect
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType

from gbfix.verify.verdict import Breaks, BreakSite, Difference, Place

RESAMPLES = 2000


def blamed(after: Sequence[Difference], before: Sequence[Difference], *, soft_output: bool) -> list[Difference]:
    """The differences between compiled and eager that the original does not show as well."""
    shown = {(item.case, item.aspect) for item in before}
    broken = {item.case for item in before if item.aspect == "raises"}
    found = []
    for item in after:
        if (item.case, item.aspect) in shown or item.case in broken:
            continue
        if soft_output and item.aspect in ("stdout", "log"):
            item = Difference(item.stage, item.case, item.aspect, item.message, hard=False)
        found.append(item)
    return found


def line_map(original: bytes, rewritten: bytes) -> dict[int, int]:
    """From line numbers of the rewritten text to those of the same, unchanged lines of the original."""
    matcher = difflib.SequenceMatcher(None, original.splitlines(), rewritten.splitlines(), autojunk=False)
    same: dict[int, int] = {}
    for block in matcher.get_matching_blocks():
        same.update({block.b + offset + 1: block.a + offset + 1 for offset in range(block.size)})
    return same


def functions(source: bytes) -> list[tuple[int, int]]:
    """First and last line of every function in a text."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [(node.lineno, node.end_lineno or node.lineno) for node in nodes]


def function_at(spans: Sequence[tuple[int, int]], line: int) -> tuple[int, int] | None:
    """The innermost function that holds a line."""
    around = [span for span in spans if span[0] <= line <= span[1]]
    return min(around, key=lambda span: span[1] - span[0], default=None)


def revealed(
    before: Breaks, after: Breaks, originals: Mapping[str, bytes], rewritten: Mapping[str, bytes]
) -> list[BreakSite]:
    """Breaks that Dynamo did not come to see in the original: another one made it skip the whole function."""
    shown = {(site.gb_id, site.path, site.line) for site in before.sites}
    hidden: list[BreakSite] = []
    for site in after.sites:
        source = originals.get(site.path)
        if source is None:
            continue
        line = line_map(source, rewritten[site.path]).get(site.line)
        if line is None or (site.gb_id, site.path, line) in shown:
            continue
        spans = functions(source)
        places = [place for known in before.sites for place in known.skipped if place.path == site.path]
        skipped = {function_at(spans, place.line) for place in places} - {None}
        if function_at(spans, line) in skipped:
            hidden.append(site)
    return hidden


def no_fewer(before: Breaks, after: Breaks, hidden: int) -> str:
    """Why the breaks do not count as reduced; empty when they do."""
    left = len(after.sites) - hidden
    if left < len(before.sites) or (left == len(before.sites) and after.graphs < before.graphs and before.sites):
        return ""
    if before.clean is False and after.clean is True:
        return ""
    return f"no fewer graph breaks ({len(before.sites)} before, {len(after.sites)} after)"


def function_codes(code: CodeType) -> Iterator[CodeType]:
    """The code objects of functions inside a module's code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            yield from function_codes(constant)


def changed_lines(original: bytes, rewritten: bytes) -> set[int]:
    """Lines of functions in the original that run code and that the rewrite changes or removes."""
    same = set(line_map(original, rewritten).values())
    try:
        module = compile(original, "<original>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return set()
    running: set[int] = set()
    for code in function_codes(module):
        running |= {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
    return running - same


def unreached(
    originals: Mapping[str, bytes], rewritten: Mapping[str, bytes], reached: Mapping[str, set[int]]
) -> tuple[list[Place], bool]:
    """Changed lines that no input ran, and whether any changed line was run at all (true where none can be)."""
    missed: list[Place] = []
    total = 0
    for path, source in originals.items():
        lines = changed_lines(source, rewritten[path])
        total += len(lines)
        missed += [Place(path, line) for line in sorted(lines - reached.get(path, set()))]
    return missed, not total or len(missed) < total


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """before / after of the medians, with the bounds that hold 95 % of the resampled ratios."""
    generator = random.Random(0)

    def resampled(samples: Sequence[float]) -> float:
        return statistics.median(generator.choices(samples, k=len(samples)))

    ratios = sorted(resampled(before) / resampled(after) for _ in range(RESAMPLES))
    ratio = statistics.median(before) / statistics.median(after)
    return ratio, ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES) - 1]
