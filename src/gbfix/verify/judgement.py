"""One rewrite under judgement: what both sides are asked, in which order, and what decides."""

from __future__ import annotations

import base64
import os
import statistics
import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gbfix.verify import judge
from gbfix.verify.session import Reply, Session, Side, SideError, SideLost
from gbfix.verify.verdict import (
    ACCEPTED,
    INCONCLUSIVE,
    REFUTED,
    Breaks,
    BreakSite,
    Difference,
    Place,
    Timing,
    VerifyReport,
)

Progress = Callable[[str], None]
MUTATED = 4
EAGER_BUDGET_S = 30.0
SLOW_CALL_S = 5.0
TIMING_BUDGET_S = 20.0
RUNS, MAX_RUNS = 30, 100
SLOWER = 0.97


class Stop(Exception):
    """The verdict is known before every check has run."""

    def __init__(self, verdict: str, reason: str, culprit: str = "") -> None:
        super().__init__(reason)
        self.verdict, self.reason, self.culprit = verdict, reason, culprit


def counted(number: int, noun: str) -> str:
    """`1 input`, `2 inputs`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


class Verification:
    """The original's side and what it measured, shared by every rewrite that is judged against it."""

    def __init__(
        self,
        session: Session,
        originals: Mapping[str, bytes],
        entry: str,
        inputs: str | None,
        timeout_s: float,
        progress: Progress,
    ) -> None:
        self.session, self.originals, self.entry, self.inputs = session, dict(originals), entry, inputs
        self.timeout_s, self.progress = timeout_s, progress
        self.original: Side | None = None
        self.known: dict[str, Reply] = {}
        self.paths: dict[str, str] = {os.path.realpath(path): path for path in originals}

    def request(self, files: Mapping[str, bytes]) -> Reply:
        """What a side needs to load these files."""
        encoded = {os.path.realpath(path): base64.b64encode(source).decode() for path, source in files.items()}
        return {"files": encoded, "entry": self.entry, "inputs": self.inputs}

    def judge(
        self, rewritten: Mapping[str, bytes], *, breaks: bool = True, time: bool = True, soft_output: bool = False
    ) -> VerifyReport:
        """The verdict on one rewrite; without `breaks`, only on whether the meaning is kept."""
        return Judgement(self, rewritten, breaks, time, soft_output).report()


class Judgement:
    """One rewrite under judgement: its side, the deadline, and what has been seen so far."""

    def __init__(
        self, verification: Verification, rewritten: Mapping[str, bytes], breaks: bool, time: bool, soft_output: bool
    ) -> None:
        self.common, self.rewritten = verification, dict(rewritten)
        self.with_breaks, self.with_time, self.soft_output = breaks, time, soft_output
        self.deadline = clock.monotonic() + verification.timeout_s
        self.seen: dict[str, Any] = {}
        self.soft: list[Difference] = []
        self.warnings: list[str] = []

    def report(self) -> VerifyReport:
        """Run the checks in order, stop at the first that decides."""
        started = clock.monotonic()
        side = self.common.session.open_side()
        try:
            self.check(side)
            verdict, reason, culprit = ACCEPTED, "", ""
        except Stop as stop:
            verdict, reason, culprit = stop.verdict, stop.reason, stop.culprit
        finally:
            side.close()
        self.seen.setdefault("differences", ())
        self.seen["differences"] = (*self.seen["differences"], *self.soft)
        versions = self.common.session.versions
        return VerifyReport(
            verdict, reason, entry=self.common.entry, culprit=culprit, warnings=tuple(self.warnings),
            torch=versions.get("torch", ""), python=versions.get("python", ""),
            seconds=round(clock.monotonic() - started, 1), **self.seen,
        )  # fmt: skip

    def check(self, side: Side) -> None:
        """Load, compare eagerly, count breaks, compare compiled, time."""
        loaded = self.load(side)
        self.eager(side, loaded)
        if self.with_breaks:
            self.breaks(side)
        self.compiled(side)
        if self.with_breaks:
            why = judge.no_fewer(self.seen["before"], self.seen["after"], self.hidden)
            if why:
                raise Stop(REFUTED, why, "breaks")
            if self.with_time:
                self.time(side)

    # What both sides are asked.

    def both(self, side: Side, operation: str, mine: Reply, theirs: Reply | None = None) -> tuple[Reply, Reply]:
        """The answers of the original and of the rewritten side, asked at the same time; the original's are kept."""
        common = self.common
        key = f"{operation} {sorted((theirs or mine).items())}" if operation != "load" else operation
        known = common.known.get(key)
        original = common.original
        assert original is not None
        if known is None:
            original.send(operation, **(mine if theirs is None else theirs))
        side.send(operation, **mine)
        before: Reply | Exception = known or self.answer(original)
        after = self.answer(side)
        if isinstance(before, Exception):
            raise Stop(INCONCLUSIVE, self.told("the original", before, also=isinstance(after, Exception)))
        common.known[key] = before
        if isinstance(after, Exception):
            if isinstance(after, SideError) and after.is_internal:
                raise Stop(INCONCLUSIVE, str(after))
            raise Stop(REFUTED, self.told("the rewritten code", after), "meaning")
        return before, after

    def answer(self, side: Side) -> Reply | Exception:
        """A side's answer, or why there is none."""
        try:
            return side.receive(self.deadline)
        except (SideLost, SideError) as error:
            return error

    def told(self, who: str, error: Exception, also: bool = False) -> str:
        """One sentence on a side without an answer: where, what was seen, what would do."""
        if isinstance(error, SideError):
            if error.is_internal:
                return str(error)
            place = f"{self.shown(error.where)}: " if error.where else ""
            return f"{place}{error}" + ("" if also or who == "the original" else " after the rewrite")
        advice = ""
        if "did not return in time" in str(error):
            advice = "; give smaller inputs or a longer time limit"
        elif also or who == "the original":
            advice = "; verification needs code that runs by itself"
        return f"{who} {error}{advice}"

    def shown(self, path: str) -> str:
        """A path as the user would write it."""
        place, colon, line = path.rpartition(":")
        place, tail = (place, f":{line}") if colon and line.isdigit() else (path, "")
        known = self.common.paths.get(os.path.realpath(place))
        if known is None:
            relative = os.path.relpath(place)
            known = place if relative.startswith("..") else relative
        return known + tail

    # The checks.

    def load(self, side: Side) -> Reply:
        """Import both sides."""
        common = self.common
        common.progress("importing the original and the rewritten code")

        if common.original is None:
            common.original = common.session.open_side()
        before, after = self.both(side, "load", common.request(self.rewritten), common.request(common.originals))
        if before["inputs"] != after["inputs"]:
            raise Stop(
                INCONCLUSIVE, "the rewritten code changes the number of inputs; make them in code that is not rewritten"
            )
        self.seen |= {"inputs_given": before["inputs"], "device": before["device"]}
        return {**before, "call_s": max(before["call_s"], after["call_s"])}

    def eager(self, side: Side, loaded: Reply) -> None:
        """Compare eager with eager, bit for bit, and see which lines the inputs reach."""
        common = self.common
        mutated = min(loaded["inputs"], MUTATED) if loaded["floating"] or loaded["has_weights"] else 0
        affordable = int(EAGER_BUDGET_S / max(10 * loaded["call_s"], 1e-9))
        mutated = min(mutated, max(affordable, int(loaded["call_s"] < SLOW_CALL_S)))
        mutated = common.known.setdefault("mutated", {"count": mutated})["count"]
        common.progress(
            f"comparing eager results on {counted(loaded['inputs'], 'input')}, {mutated} of them also changed"
        )
        out = {name: str(common.session.folder / f"eager-{name}.pt") for name in ("original", "rewritten", "again")}
        before, _ = self.both(
            side, "observe", {"mutated": mutated, "out": out["rewritten"], "trace": False},
            {"mutated": mutated, "out": out["original"], "trace": True},
        )  # fmt: skip
        self.seen |= {"inputs_made": before["made"], "calls": before["calls"]}
        if before["all_raise"]:
            seen = before["raised"]
            raise Stop(INCONCLUSIVE, f"the original raises on every input ({seen}); give inputs that it accepts")
        self.coverage(before)
        found = self.differences(self.compared(side, out["original"]), "eager")
        if any(item.hard for item in found):
            self.refute(found, self.noise(mutated, out))
        self.soft += found

    def compared(self, side: Side, path: str) -> list[Reply]:
        """A side's differences from the records in a file."""
        side.send("compare", other=path)
        reply = self.answer(side)
        if isinstance(reply, Exception):
            raise Stop(INCONCLUSIVE, f"comparing failed: {reply}")
        rows: list[Reply] = reply["differences"]
        return rows

    def noise(self, mutated: int, out: Mapping[str, str]) -> set[tuple[str, str]]:
        """Where the original disagrees with itself in another process, as (case, aspect)."""
        common = self.common
        key = f"noise {mutated}"
        if key not in common.known:
            common.progress("running the original once more, to tell a difference from noise")
            again = common.session.open_side()
            try:
                again.ask("load", self.deadline, **common.request(common.originals))
                again.ask("observe", self.deadline, mutated=mutated, out=out["again"], trace=False)
                rows = self.compared(again, out["original"])
            except (SideLost, SideError) as error:
                raise Stop(INCONCLUSIVE, f"not deterministic: in a second run the original {error}") from None
            finally:
                again.close()
            common.known[key] = {"differences": rows}
        return {(row["case"], row["aspect"]) for row in common.known[key]["differences"] if row["hard"]}

    def refute(self, found: Sequence[Difference], noise: set[tuple[str, str]]) -> None:
        """Stop: refuted by a difference that is not noise, inconclusive where all of them are."""
        hard = [item for item in found if item.hard]
        real = [item for item in hard if (item.case, item.aspect) not in noise]
        self.seen["differences"] = tuple(real or hard)
        if not real:
            seen = f"{hard[0].case} ({hard[0].aspect})"
            raise Stop(INCONCLUSIVE, f"not deterministic: two runs of the original differ on {seen}")
        raise Stop(REFUTED, str(real[0]), "meaning")

    def coverage(self, observed: Reply) -> None:
        """Note changed files that are not imported and changed lines that do not run."""
        common = self.common
        changed = {path: source for path, source in common.originals.items() if self.rewritten[path] != source}
        served = {common.paths[path] for path in observed["served"] if path in common.paths}
        unserved = sorted(set(changed) - served)
        self.seen["unserved"] = tuple(unserved)
        if changed and len(unserved) == len(changed):
            raise Stop(INCONCLUSIVE, f"{common.entry} does not import {unserved[0]}; name an entry that uses it")
        reached = {common.paths[path]: set(lines) for path, lines in observed["reached"].items()}
        imported = {path: source for path, source in changed.items() if path in served}
        missed, some = judge.unreached(imported, self.rewritten, reached)
        self.seen["unreached"] = tuple(missed)
        if not some:
            raise Stop(INCONCLUSIVE, f"no input runs a changed line, such as {missed[0]}; give inputs that do")
        if missed:
            places = ", ".join(map(str, missed[:5])) + (", ..." if len(missed) > 5 else "")
            self.warnings.append(f"no input runs these changed lines: {places}")

    def differences(self, rows: Sequence[Reply], stage: str) -> list[Difference]:
        """Plain rows as differences."""
        return [Difference(stage, row["case"], row["aspect"], row["message"], row["hard"]) for row in rows]

    def breaks(self, side: Side) -> None:
        """Count graph breaks of both, and compare compiled with eager on the way."""
        self.common.progress("counting graph breaks")
        before, after = self.both(side, "breaks", {})
        self.seen |= {"before": self.read_breaks(before), "after": self.read_breaks(after)}
        self.blame(before["differences"], after["differences"], "compiled, backend eager")
        hidden = judge.revealed(self.seen["before"], self.seen["after"], self.common.originals, self.rewritten)
        self.hidden = len(hidden)
        if hidden:
            lines = ", ".join(f"{site.path}:{site.line}" for site in hidden[:3])
            self.warnings.append(f"{counted(len(hidden), 'graph break')} that another had hidden: {lines}")
        if self.seen["after"].recompiles > self.seen["before"].recompiles:
            counts = (self.seen["before"].recompiles, self.seen["after"].recompiles)
            self.warnings.append("recompiles rise from {} to {}".format(*counts))
        if self.seen["after"].clean is False and not self.seen["after"].sites:
            self.warnings.append("Dynamo reports a graph break after the rewrite that its log does not show")

    def read_breaks(self, reply: Reply) -> Breaks:
        """Breaks as plain data, in the order of files and lines."""
        sites = []
        for row in reply["sites"]:
            skipped = sorted({(self.shown(path), line) for path, line in row["skipped"]})
            places = tuple(Place(*place) for place in skipped)
            sites.append(BreakSite(row["gb_id"], self.shown(row["path"]), row["line"], row["reason"], places))
        ordered = sorted(sites, key=lambda site: (site.path, site.line, site.gb_id))
        return Breaks(tuple(ordered), reply["graphs"], reply["recompiles"], reply["clean"])

    def compiled(self, side: Side) -> None:
        """Compare compiled with eager, through AOTAutograd."""
        self.common.progress("comparing compiled results")
        before, after = self.both(side, "compiled", {"backend": "aot_eager"})
        self.blame(before["differences"], after["differences"], "compiled, backend aot_eager")

    def blame(self, before: Sequence[Reply], after: Sequence[Reply], stage: str) -> None:
        """Stop at a compiled difference that only the rewritten code shows."""
        rows = (self.differences(after, stage), self.differences(before, stage))
        found = judge.blamed(*rows, soft_output=self.soft_output)
        if any(item.hard for item in found):
            self.refute(found, set())
        for item in found:
            warning = f"{item.message} once compiled"
            if self.soft_output and item.aspect in ("stdout", "log") and warning not in self.warnings:
                self.warnings.append(warning)
        self.soft += found

    # Time.

    def time(self, side: Side) -> None:
        """Time both sides in turns; trouble here is a warning, except code that only the rewrite makes uncompilable."""
        self.common.progress("timing")
        try:
            self.seen["timing"] = self.timed(side)
        except (SideLost, SideError) as error:
            self.warnings.append(f"not timed: a side {error}")
            return
        timing = self.seen["timing"]
        if timing is not None and timing.ratio < SLOWER and timing.is_slower:
            self.warnings.append(f"slower after the rewrite: {timing.ratio:.2f} times the speed on {timing.device}")

    def prepared(self, original: Side, side: Side, backend: str) -> tuple[Reply, Reply]:
        """Both sides compiled and warm, with the same backend."""
        before = original.ask("prepare", self.deadline, backend=backend)
        after = side.ask("prepare", self.deadline, backend=before["backend"])
        return before, after

    def timed(self, side: Side) -> Timing | None:
        """The ratio of interleaved medians with its interval; None where compiled code cannot be timed."""
        original = self.common.original
        assert original is not None
        before, after = self.prepared(original, side, "")
        note = before["note"]
        if before["failed"] and before["backend"] == "inductor":
            note = f"the original fails with inductor ({before['failed']})"
            before, after = self.prepared(original, side, "aot_eager")
        if before["failed"]:
            self.warnings.append(f"not timed: the original {before['failed']} under no_grad")
            return None
        backend = before["backend"]
        if after["failed"]:
            raise Stop(REFUTED, f"the rewritten code {after['failed']} when compiled with {backend}", "meaning")
        self.blame(before["differences"], after["differences"], f"compiled, backend {backend}")
        samples: tuple[list[float], list[float]] = ([], [])
        slowest_s = max(before["call_ms"], after["call_ms"]) / 1e3
        batch = max(1, min(10, int(0.25 / max(slowest_s, 1e-6))))
        started, turn = clock.monotonic(), 0
        end = min(started + TIMING_BUDGET_S, self.deadline - 1)
        while len(samples[1]) < MAX_RUNS and (clock.monotonic() < end or not samples[1]):
            if len(samples[1]) >= RUNS and clock.monotonic() - started > TIMING_BUDGET_S / 4:
                break
            pair = ((original, samples[0]), (side, samples[1]))
            for one, times in pair if turn % 2 == 0 else pair[::-1]:
                reply = one.ask("time", self.deadline, count=batch, budget_s=TIMING_BUDGET_S / 4)
                times += reply["samples_ms"]
            turn += 1
        ratio, low, high = judge.ratio_interval(*samples)
        medians = [statistics.median(times) for times in samples]
        if min(map(len, samples)) < RUNS:
            note = (f"{note}; " if note else "") + f"only {min(map(len, samples))} runs in {TIMING_BUDGET_S:.0f} s"
        device = self.seen.get("device", "")
        return Timing(medians[0], medians[1], ratio, low, high, min(map(len, samples)), backend, device, note)
