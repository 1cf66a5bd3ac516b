"""Verify rewritten files, and drop the fixes that verification refutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gbfix import engine
from gbfix.engine import Outcome
from gbfix.rule import Finding, Fix
from gbfix.verify.judgement import Progress, Verification
from gbfix.verify.session import Session
from gbfix.verify.verdict import ACCEPTED, INCONCLUSIVE, REFUTED, FixVerdict, VerifyReport

ATTEMPTS = 20
Key = tuple[str, str]


@dataclass(frozen=True)
class Settled:
    """Outcomes without the fixes that did not hold, and the report. Exit code: 0 all hold, 1 some do not, 2 unknown."""

    outcomes: tuple[Outcome, ...]
    report: VerifyReport
    exit_code: int


def silent(message: str) -> None:
    """A progress callback that says nothing."""


def verify(
    originals: Mapping[str, bytes],
    rewritten: Mapping[str, bytes],
    *,
    entry: str,
    inputs: str | None = None,
    timeout_s: float = 300,
    time: bool = True,
    soft_output: bool = False,
    progress: Progress | None = None,
) -> VerifyReport:
    """The verdict on rewritten files (path to bytes), all together, against the originals.

    `entry` is `FILE_OR_MODULE:CALLABLE` (or FILE for `FILE:build`): without arguments it returns what is compiled.
    `inputs` names a callable that returns a list of (args, kwargs); None is make_inputs beside the entry. With
    `soft_output`, printed lines and log records that are lost once compiled are a warning.
    """
    for path in originals:
        if path not in rewritten:
            raise ValueError(f"{path} has no rewritten text")
    with Session() as session:
        verification = Verification(session, originals, entry, inputs, timeout_s, progress or silent)
        return verification.judge(rewritten, time=time, soft_output=soft_output)


def settle(
    outcomes: Sequence[Outcome],
    *,
    entry: str,
    inputs: str | None,
    timeout_s: float = 300,
    progress: Progress | None = None,
    time: bool = True,
) -> Settled:
    """Verify all changed files together, drop the fixes at fault, verify the rest again.

    A dropped fix goes to `left`, declined with the reason. Where unsafe fixes were asked for, printed lines that are lost
    once compiled are a warning.
    """
    changed = {outcome.path: outcome for outcome in outcomes if outcome.source != outcome.original}
    if not changed:
        return Settled(tuple(outcomes), VerifyReport(ACCEPTED, "nothing was rewritten", entry=entry), 0)
    say = progress or silent
    with Session() as session:
        originals = {path: outcome.original for path, outcome in changed.items()}
        verification = Verification(session, originals, entry, inputs, timeout_s, say)
        search = Search(verification, changed, any(outcome.unsafe for outcome in changed.values()), time, say)
        report = search.run()
    settled = tuple(search.outcome(outcome) if outcome.path in changed else outcome for outcome in outcomes)
    code = 2 if report.verdict == INCONCLUSIVE else int(bool(search.dropped))
    return Settled(settled, report, code)


@dataclass
class Search:
    """The search for the fixes at fault: halves of the fixes are judged until single ones are to blame."""

    verification: Verification
    changed: Mapping[str, Outcome]
    soft_output: bool
    time: bool
    progress: Progress
    dropped: dict[Key, str] = field(default_factory=dict)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.fixes = {
            (path, finding.fingerprint): finding
            for path in sorted(self.changed)
            for finding in self.changed[path].fixed
        }
        # One fix may cover several findings: they stand and fall together, the first one speaks for all.
        by_fix: dict[tuple[str, Fix | None], list[Key]] = {}
        for key, finding in self.fixes.items():
            by_fix.setdefault((key[0], finding.fix), []).append(key)
        self.together = {keys[0]: keys for keys in by_fix.values()}
        self.rerun: dict[tuple[str, frozenset[str]], Outcome] = {}

    def run(self) -> VerifyReport:
        """Judge everything; where that is refuted, find and drop what is at fault; the report on what is left."""
        report = self.judge(self.together)
        first = report
        while report.verdict == REFUTED and self.attempts < ATTEMPTS:
            kept = self.good(list(self.together.keys() - self.dropped), report, breaks=report.culprit == "breaks")
            if not kept:
                break
            report = self.judge(kept)
        if report.verdict == INCONCLUSIVE:
            self.drop(self.together, f"not verified: {report.reason}")
        elif report.verdict == REFUTED:
            self.drop(self.together, report.reason)
        else:
            self.drop_unseen(report)
        if len(self.dropped) == len(self.fixes) and report.verdict == ACCEPTED:
            report = (
                first
                if first.verdict != ACCEPTED
                else replace(report, verdict=INCONCLUSIVE, reason="no fix was exercised")
            )
        return replace(report, fixes=self.verdicts(report))

    def drop(self, keys: Iterable[Key], reason: str) -> None:
        """Drop fixes; the first reason stays."""
        for key in keys:
            for covered in self.together[key]:
                self.dropped.setdefault(covered, reason)

    def drop_unseen(self, report: VerifyReport) -> None:
        """Drop fixes of which nothing is known: their file is never imported, or no input runs their line."""
        missed = {(place.path, place.line) for place in report.unreached}
        for key in self.together:
            if key[0] in report.unserved:
                self.drop([key], f"not verified: {report.entry} does not import {key[0]}")
            elif (key[0], self.fixes[key].line) in missed:
                self.drop([key], "not verified: no input runs this line")

    def good(self, keys: list[Key], refuted: VerifyReport, *, breaks: bool) -> list[Key]:
        """The fixes of a refuted group that hold by themselves; the others are dropped."""
        keys = sorted(keys, key=lambda key: self.fixes[key].key)
        if len(keys) == 1:
            self.drop(keys, refuted.reason)
            return []
        kept: list[Key] = []
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            if self.attempts >= ATTEMPTS:
                self.drop(half, f"not verified: {ATTEMPTS} attempts did not find the fix at fault")
                continue
            report = self.judge(half, breaks=breaks, time=False)
            if report.verdict == ACCEPTED:
                kept += half
            elif report.verdict == REFUTED:
                kept += self.good(half, report, breaks=breaks)
            else:
                self.drop(half, f"not verified: {report.reason}")
        if len(kept) == len(keys):
            # Each half holds and both together do not: keep the first.
            self.drop(keys[len(keys) // 2 :], f"not together with the fixes before it: {refuted.reason}")
            kept = keys[: len(keys) // 2]
        return kept

    def judge(self, keys: Iterable[Key], *, breaks: bool = True, time: bool | None = None) -> VerifyReport:
        """The verdict on the files with only these fixes."""
        self.attempts += 1
        chosen = list(keys)
        kept = {covered for key in chosen for covered in self.together[key]}
        if self.attempts > 1:
            self.progress(f"attempt {self.attempts}: {len(chosen)} of {len(self.together)} fixes")
        sources = {
            path: self.with_only(path, {key[1] for key in kept if key[0] == path}).source for path in self.changed
        }
        return self.verification.judge(
            sources, breaks=breaks, time=self.time if time is None else time, soft_output=self.soft_output
        )

    def with_only(self, path: str, kept: set[str]) -> Outcome:
        """The outcome of a file with only these fixes, and none that the first run did not apply."""
        first = self.changed[path]
        skip = frozenset(finding.fingerprint for finding in first.fixed) - kept
        if not skip:
            return first
        if (path, skip) not in self.rerun:
            wanted, outcome = skip, first
            for _ in range(3):
                outcome = engine.run(
                    first.original, path, first.rules, unsafe=first.unsafe, skip=wanted, scope=first.scope
                )
                extra = {finding.fingerprint for finding in outcome.fixed} - kept
                if not extra:
                    break
                wanted |= extra
            self.rerun[path, skip] = outcome
        return self.rerun[path, skip]

    def outcome(self, first: Outcome) -> Outcome:
        """A file's outcome without its dropped fixes, which are left with the reason."""
        dropped = {key[1]: reason for key, reason in self.dropped.items() if key[0] == first.path}
        if not dropped:
            return first
        kept = {finding.fingerprint for finding in first.fixed} - set(dropped)
        base = self.with_only(first.path, kept)

        def marked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
            return tuple(
                replace(finding, fix=None, declined=f"fix dropped: {dropped[finding.fingerprint]}")
                if finding.fingerprint in dropped
                else finding
                for finding in findings
            )

        known = {finding.fingerprint for finding in base.left}
        lost = tuple(
            finding for finding in first.fixed if finding.fingerprint in dropped and finding.fingerprint not in known
        )
        left = tuple(sorted(marked((*base.left, *lost)), key=lambda finding: finding.key))
        return replace(base, left=left, remaining=marked(base.remaining))

    def verdicts(self, report: VerifyReport) -> tuple[FixVerdict, ...]:
        """What became of each fix."""
        rows = []
        for key, finding in self.fixes.items():
            reason = self.dropped.get(key, "")
            verdict = REFUTED if reason else ACCEPTED
            if reason.startswith("not verified"):
                verdict = INCONCLUSIVE
            rows.append(
                FixVerdict(key[0], finding.line, finding.code, finding.name, finding.fingerprint, verdict, reason)
            )
        return tuple(rows)
