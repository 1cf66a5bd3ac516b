"""What verification concluded, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

ACCEPTED = "accepted"
REFUTED = "refuted"
INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Difference:
    """One thing that differs after the rewrite. `stage` is eager or compiled; a soft difference does not refute."""

    stage: str
    case: str
    aspect: str
    message: str
    hard: bool

    def __str__(self) -> str:
        return f"{self.message} on {self.case}" + (f" [{self.stage}]" if self.stage != "eager" else "")


@dataclass(frozen=True)
class BreakSite:
    """One distinct graph break. `skipped` are places in the functions that fall back to eager as a whole there."""

    gb_id: str
    path: str
    line: int
    reason: str
    skipped: tuple[Place, ...]


@dataclass(frozen=True)
class Breaks:
    """What compiling in default mode shows on the given inputs. `clean` is Dynamo's exact answer, None without one."""

    sites: tuple[BreakSite, ...]
    graphs: int
    recompiles: int
    clean: bool | None


@dataclass(frozen=True)
class Timing:
    """Interleaved times of one pass over the given inputs, compiled. `ratio` is before / after: above 1 is faster.

    `low` and `high` bound the ratio (95 %, bootstrap); `note` says why another backend than inductor was timed.
    """

    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float
    runs: int
    backend: str
    device: str
    note: str = ""

    @property
    def is_faster(self) -> bool:
        """Whether a speed-up may be claimed: the interval lies above 1."""
        return self.low > 1.0

    @property
    def is_slower(self) -> bool:
        """Whether the interval lies below 1."""
        return self.high < 1.0


@dataclass(frozen=True)
class FixVerdict:
    """What became of one fix."""

    path: str
    line: int
    code: str
    name: str
    fingerprint: str
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class VerifyReport:
    """The verdict on all changed files together, with what it rests on.

    `inputs_given` came from the user, `inputs_made` were derived from them, `calls` counts eager calls a side.
    `unreached` are changed lines of the original that no input runs, `unserved` changed files never imported.
    `culprit` is "meaning" or "breaks" where a rewrite is refuted, else empty.
    """

    verdict: str
    reason: str
    entry: str = ""
    culprit: str = ""
    differences: tuple[Difference, ...] = ()
    before: Breaks | None = None
    after: Breaks | None = None
    timing: Timing | None = None
    inputs_given: int = 0
    inputs_made: int = 0
    calls: int = 0
    unreached: tuple[Place, ...] = ()
    unserved: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    fixes: tuple[FixVerdict, ...] = ()
    device: str = ""
    torch: str = ""
    python: str = ""
    seconds: float = 0.0

    @property
    def is_accepted(self) -> bool:
        """Whether the rewrite may be kept."""
        return self.verdict == ACCEPTED
