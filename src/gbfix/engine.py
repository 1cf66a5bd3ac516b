"""One text and some rules in, an Outcome out: fixes applied to a fixed point, findings that are left, what went wrong."""

from __future__ import annotations

import ast
import difflib
import hashlib
import io
import tokenize
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gbfix.context import ModuleContext
from gbfix.errors import Trouble
from gbfix.facts.compiled import compiled
from gbfix.facts.lattice import DEFAULT_SCOPE, Scope, Wanted
from gbfix.facts.project import ModuleFacts, split_lines
from gbfix.facts.sites import sites
from gbfix.rule import Applicability, Edit, Finding, Rule

MAX_PASSES = 10


@dataclass(frozen=True)
class Outcome:
    """What came of one file.

    `fixed` are findings whose fix was applied, `left` the rest, both with positions in the original text; `remaining` is
    `left` with positions in `source`, the new text. `source` equals `original` when nothing changed. `rules`, `unsafe` and
    `scope` are what the run was given, so that it can be repeated.
    """

    path: str
    original: bytes
    source: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    troubles: tuple[Trouble, ...]
    remaining: tuple[Finding, ...] = ()
    rules: tuple[type[Rule], ...] = ()
    unsafe: bool = False
    scope: Scope = DEFAULT_SCOPE


def run(
    source: bytes,
    path: str,
    rules: Sequence[type[Rule]],
    *,
    unsafe: bool = False,
    fix: bool = True,
    skip: frozenset[str] = frozenset(),
    scope: Scope = DEFAULT_SCOPE,
) -> Outcome:
    """Apply the rules' fixes to one text.

    With `unsafe`, also fixes that may change results. Without `fix`, everything is only listed (in `left`). Fixes whose
    finding's fingerprint is in `skip` are not applied. `scope` says more about what is compiled.
    """
    kept = Outcome(path, source, source, (), (), (), (), tuple(rules), unsafe, scope)
    try:
        text, encoding = decode(source)
        facts = ModuleFacts(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return replace(kept, troubles=(_unreadable(path, error),))
    work = _Work(path, rules, unsafe, skip, scope)
    new = work.run(facts, fix)
    troubles = tuple(work.troubles)
    if new is None:
        return replace(kept, left=work.first, troubles=troubles, remaining=work.first)
    back = _line_map(text, new)
    left = tuple(sorted((_moved(f, back) for f in work.left), key=lambda f: f.key))
    fixed = tuple(sorted(work.fixed, key=lambda f: f.key))
    result = source if new == text else new.encode(encoding)
    return replace(kept, source=result, fixed=fixed, left=left, troubles=troubles, remaining=work.left)


def applies(finding: Finding, *, unsafe: bool) -> bool:
    """Whether a finding's fix is applied under these flags."""
    if finding.fix is None:
        return False
    return finding.fix.applicability is Applicability.SAFE or (
        unsafe and finding.fix.applicability is Applicability.UNSAFE
    )


def decode(source: bytes) -> tuple[str, str]:
    """The text of a source file and the encoding that gives the same bytes back (PEP 263, byte order mark)."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    text = source.decode(encoding)
    if text.encode(encoding) != source:
        raise ValueError(f"the text does not survive its encoding {encoding}")
    return text, encoding


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with disjoint edits made. Line ends of the new text follow the file's first line."""
    lines = split_lines(text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        start, end = starts[edit.line - 1] + edit.column, starts[edit.end_line - 1] + edit.end_column
        text = text[:start] + edit.text.replace("\r\n", "\n").replace("\n", newline) + text[end:]
    return text


class _Work:
    """The passes over one module."""

    def __init__(
        self, path: str, rules: Sequence[type[Rule]], unsafe: bool, skip: frozenset[str], scope: Scope
    ) -> None:
        self.path = path
        self.rules = list(rules)
        self.calls = {rule: Wanted(rule.calls) for rule in rules}
        self.unsafe = unsafe
        self.skip = skip
        self.scope = scope
        self.troubles: list[Trouble] = []
        self.fixed: list[Finding] = []
        self.left: tuple[Finding, ...] = ()
        self.first: tuple[Finding, ...] = ()
        self._applied: dict[str, set[int]] = {}
        self._indices: dict[str, tuple[str, int]] = {}

    def run(self, facts: ModuleFacts, fix: bool) -> str | None:
        """The text at the fixed point, None when the fixes went wrong (then troubles say why)."""
        original, text = facts.text, facts.text
        covered: list[Finding] = []
        for number in range(MAX_PASSES + 1):
            context, findings = self._findings(facts)
            if number == 0:
                self.first = findings
            self.left = findings
            self.fixed += [f for f in covered if f.fingerprint not in {g.fingerprint for g in findings}]
            chosen = self._choose(findings) if fix else []
            if not chosen:
                return text
            if number == MAX_PASSES:
                self._failed("unstable", f"fixes still change the file after {MAX_PASSES} passes", chosen)
                return None
            edits = [edit for finding in chosen if finding.fix is not None for edit in finding.fix.edits]
            before, text = text, self._with_imports(context, apply(text, edits), chosen)
            try:
                facts = ModuleFacts(text, self.path)
            except (SyntaxError, ValueError) as error:
                self._failed("internal", f"a fix does not parse ({error})", chosen)
                return None
            back = _line_map(original, before)
            covered = [
                _moved(replace(f, fix=by.fix, declined=""), back) for f in findings if (by := _coverer(f, chosen))
            ]
            for finding in chosen:
                self.fixed.append(_moved(finding, back))
                base, index = self._indices[finding.fingerprint]
                self._applied.setdefault(base, set()).add(index)
        raise AssertionError("unreachable")

    def _failed(self, kind: str, message: str, chosen: Sequence[Finding]) -> None:
        codes = ", ".join(sorted({f.code for f in chosen}))
        self.troubles.append(Trouble(self.path, kind, f"{message} ({codes}); file left unchanged"))

    def _choose(self, findings: Sequence[Finding]) -> list[Finding]:
        chosen: list[Finding] = []
        taken: list[Edit] = []
        for finding in findings:
            if finding.fix is None or finding.fingerprint in self.skip or not applies(finding, unsafe=self.unsafe):
                continue
            if not any(edit.overlaps(other) for edit in finding.fix.edits for other in taken):
                chosen.append(finding)
                taken += finding.fix.edits
        return chosen

    def _findings(self, facts: ModuleFacts) -> tuple[ModuleContext | None, tuple[Finding, ...]]:
        reached = compiled(facts, self.scope)
        if not reached:
            return None, ()
        context = ModuleContext(facts, reached)
        found: list[Finding] = []
        wanted = sorted({pattern for rule in self.rules for pattern in rule.calls})
        for site in sites(facts, reached, wanted):
            context.at(site)
            for rule in list(self.rules):
                if site.kind not in rule.kinds and not (site.kind == "call" and site.name in self.calls[rule]):
                    continue
                try:
                    found += list(rule(context).check(site))
                except Exception as error:
                    self.rules.remove(rule)
                    found = [f for f in found if f.code != rule.code]
                    where = getattr(site.node, "lineno", 0)
                    message = (
                        f"{rule.code} crashed ({type(error).__name__}: {error}); the rule was dropped for this file"
                    )
                    self.troubles.append(Trouble(self.path, "crash", message, where, 0, traceback.format_exc()))
        return context, self._identified([f for f in found if not _suppressed(facts, f)], facts)

    def _identified(self, findings: list[Finding], facts: ModuleFacts) -> tuple[Finding, ...]:
        """The findings in order, with path and fingerprint. A fingerprint keeps its meaning when an equal line before it is fixed."""
        seen: dict[str, int] = {}
        result: list[Finding] = []
        for finding in sorted(findings, key=lambda f: f.key):
            base = "\0".join((self.path, finding.code, finding.symbol, facts.lines[finding.line - 1].strip()))
            index = seen.get(base, -1) + 1
            while index in self._applied.get(base, ()):
                index += 1
            seen[base] = index
            fingerprint = hashlib.sha256(f"{base}\0{index}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
            self._indices[fingerprint] = (base, index)
            result.append(replace(finding, path=self.path, fingerprint=fingerprint))
        return tuple(result)

    def _with_imports(self, context: ModuleContext | None, text: str, chosen: Sequence[Finding]) -> str:
        wanted = {line for f in chosen if f.fix for line in f.fix.imports}
        if (
            context is not None
            and context.needs_torch
            and any("torch." in e.text for f in chosen if f.fix for e in f.fix.edits)
        ):
            wanted.add("import torch")
        for line in sorted(wanted):
            text = add_import(text, line)
        return text


def add_import(text: str, line: str) -> str:
    """The text with an import added after its last top-level import, or after the docstring; unchanged when it is there."""
    tree = ast.parse(text)
    after = 0
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if ast.unparse(node) == line:
                return text
            after = node.end_lineno or node.lineno
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node is tree.body[0]:
            after = node.end_lineno or node.lineno
    return apply(text + ("" if text.endswith(("\n", "\r")) else "\n"), [Edit(after + 1, 0, after + 1, 0, line + "\n")])


def _suppressed(facts: ModuleFacts, finding: Finding) -> bool:
    """Whether a comment on one of the finding's lines says `# gbfix: ignore` or names its code, rule or torch id."""
    for line in facts.lines[finding.line - 1 : finding.end_line]:
        _, mark, rest = line.partition("# gbfix: ignore")
        if mark:
            codes = rest[1 : rest.find("]")].replace(" ", "").split(",") if rest.startswith("[") else []
            if not codes or {finding.code, finding.name, *finding.gb_ids} & set(codes):
                return True
    return False


def _moved(finding: Finding, back: Callable[[int], int]) -> Finding:
    """The finding at its lines in the original text."""
    return replace(finding, line=back(finding.line), end_line=back(finding.end_line))


def _coverer(finding: Finding, chosen: Sequence[Finding]) -> Finding | None:
    """The chosen finding whose fix rewrites the text in which another finding lies."""
    if finding in chosen:
        return None
    start, end = (finding.line, finding.column), (finding.end_line, finding.end_column)
    for other in chosen:
        for edit in other.fix.edits if other.fix is not None else ():
            if (edit.line, edit.column) <= start and end <= (edit.end_line, edit.end_column):
                return other
    return None


def _line_map(old: str, new: str) -> Callable[[int], int]:
    """A function from lines of the new text to lines of the old one (1-based); a changed line maps to the start of its change."""
    if old == new:
        return lambda line: line
    starts: dict[int, int] = {}
    for tag, i1, _, j1, j2 in difflib.SequenceMatcher(
        None, split_lines(old), split_lines(new), autojunk=False
    ).get_opcodes():
        for j in range(j1, j2):
            starts[j + 1] = i1 + 1 + (j - j1 if tag == "equal" else 0)
    return lambda line: starts.get(line, line)


def _unreadable(path: str, error: BaseException) -> Trouble:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return Trouble(path, "syntax", f"{error.msg}", error.lineno, max((error.offset or 1) - 1, 0))
    if isinstance(error, RecursionError):
        return Trouble(path, "syntax", "the code is nested too deeply to parse")
    return Trouble(path, "syntax", f"{error}")
