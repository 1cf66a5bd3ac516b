"""Compare what `gbfix` finds in transformers' source with what Dynamo does there, and time the analysis.

`python run.py` takes truth.json (see observe.py) and sites.json (places of known breaks; consequences of others left out), runs the
installed command on the installed library, and writes benchmarks/results/facts.json. Places are statements:

- recall: of the known breaks, those whose statement has a finding;
- precision: of the statements with a finding that eager Python got to and Dynamo traced, those at which it broke. Statements that
  eager Python ran but that Dynamo never came to, because it had given up their frame before, are counted apart: `read` where they
  look at tensor data.

`--findings FILE` takes the command's report from a file; `--no-speed` keeps the times of the result file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from observe import TRUTH, unpacked
from places import Statements

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "facts.json"
COMMAND = ("--isolated", "--exit-zero", "--unsafe-fixes", "--output-format", "json")
Place = tuple[str, int]
Key = Callable[[str, int], Place]


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def load(name: str) -> Any:
    """A file of this folder."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


class Library:
    """The installed transformers: its files' statements, parsed when asked for."""

    def __init__(self, python: str) -> None:
        where = "import importlib.util as u; print(u.find_spec('transformers').submodule_search_locations[0])"
        self.root = Path(output(python, "-c", where))
        self._files: dict[str, Statements] = {}

    def file(self, name: str) -> Statements:
        """One file, by its name as `transformers/...`."""
        if name not in self._files:
            self._files[name] = Statements(self.root.parent / name)
        return self._files[name]

    def place(self, name: str, line: int) -> Place:
        """The statement of a line."""
        return name, self.file(name).at(line)


class Found:
    """Statements with a finding: where each finding starts (line, 0-based column), and the codes."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.starts: dict[Place, set[tuple[int, int]]] = {}
        self.codes: dict[Place, set[str]] = {}

    def add(self, name: str, line: int, column: int, code: str) -> None:
        """Take in one finding."""
        place = self.library.place(name, line)
        self.starts.setdefault(place, set()).add((line, column))
        self.codes.setdefault(place, set()).add(code)


def findings(report: dict[str, Any], library: Library, *, certain: bool) -> Found:
    """The report of the command as statements."""
    found = Found(library)
    for finding in report["findings"]:
        if finding["certain"] or not certain:
            name = Path(finding["filename"]).resolve().relative_to(library.root.parent.resolve()).as_posix()
            found.add(name, finding["location"]["row"], finding["location"]["column"] - 1, finding["code"])
    return found


def listed(names: set[str], library: Library) -> Found:
    """What the plain list of methods finds in some files."""
    found = Found(library)
    for name in names:
        for line, column in library.file(name).listed():
            found.add(name, line, column, "listed")
    return found


def recall(found: Found, sites: list[dict[str, Any]]) -> dict[str, Any]:
    """How many known breaks have a finding, in all and by torch id."""
    hits = [site for site in sites if found.library.place(site["file"], site["line"]) in found.starts]
    by_id = Counter(site["gb_id"] for site in sites)
    met = Counter(site["gb_id"] for site in hits)
    return {"sites": len(sites), "found": len(hits), "by_id": {key: [met[key], by_id[key]] for key in sorted(by_id)}}


def misses(found: Found, sites: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The known breaks without a finding, each with the reason that reasons.json gives."""
    left = [site for site in sites if found.library.place(site["file"], site["line"]) not in found.starts]
    return [{**site, "reason": reason(site["file"], site["line"])} for site in left]


class Truth:
    """What truth.json knows, by statement and line."""

    def __init__(self, data: dict[str, Any], library: Library) -> None:
        self.data = data
        self.library = library
        self.breaks = {library.place(file, line) for run in data["runs"] for file, line, _ in run["breaks"]}
        self.traced, self.executed, self.reads = (unpacked(data[key]) for key in ("traced", "executed", "reads"))

    def of(self, place: Place, starts: set[tuple[int, int]]) -> str:
        """What came of a statement with findings that start there: broke, clean, read, unread, or not run.

        Dynamo's log also names lines that it only jumped over, so eager Python must have got to a finding too.
        """
        file = place[0]
        if place in self.breaks:
            return "broke"
        executed, skipped = self.executed.get(file, set()), self.data["skipped"].get(file, {})
        got = {line for line, column in starts if line in executed and column not in skipped.get(str(line), ())}
        if not got:
            return "not run"
        if got & self.traced.get(file, set()):
            return "clean"
        every = self.library.file(file).lines(place[1])
        return "read" if every & self.reads.get(file, set()) else "unread"


def precision(found: Found, truth: Truth) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many statements with a finding broke, and those that did not, each with the reason that reasons.json gives."""
    counted: Counter[str] = Counter(broke=0, clean=0, read=0, unread=0)
    clean = []
    for place, starts in sorted(found.starts.items()):
        outcome = truth.of(place, starts)
        counted[outcome] += outcome != "not run"
        if outcome in ("clean", "unread"):
            line, source = min(starts)[0], found.library.file(place[0]).source(min(starts)[0])
            row = {"file": place[0], "line": line, "codes": sorted(found.codes[place]), "source": source}
            clean.append({**row, "outcome": outcome, "reason": reason(place[0], line)})
    return {key: value for key, value in counted.items() if key != "not run"}, clean


def reason(file: str, line: int) -> str:
    """Why a break was missed, or why a finding did not break, as reasons.json says."""
    return str(load("reasons.json").get(f"{file}:{line}", "not looked at yet"))


def header(options: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """What the figures depend on."""
    git = ("git", "-C", str(HERE))
    changed = output(*git, "status", "--porcelain", "../../src", "../../codemods")
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": output(*git, "rev-parse", "HEAD") + ("-dirty" if changed else ""),
        "gbfix": output(options.gbfix, "--version").split()[-1],
        **{key: data[key] for key in ("torch", "transformers", "python")},
        "device": f"{found[1] if found else platform.machine()}, 1 thread",
        "models": len({run["model"] for run in data["runs"]}),
        "runs": len(data["runs"]),
    }


def cost(options: argparse.Namespace, library: Library) -> Any:
    """What speed.py measures, or what the result file says already."""
    if not options.no_speed:
        return json.loads(output(sys.executable, str(HERE / "speed.py"), options.gbfix, str(library.root)))
    return json.loads(options.output.read_text(encoding="utf-8")).get("speed") if options.output.exists() else None


def main() -> None:
    """Read the command line, compare, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with requirements.txt installed")
    parser.add_argument("--gbfix", default=str(Path(sys.executable).parent / "gbfix"), help="the installed command")
    parser.add_argument("--findings", type=Path, help="a report that the command has written")
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    data = json.loads(TRUTH.read_text(encoding="utf-8"))
    library = Library(options.python)
    speed = cost(options, library)  # first: on Linux a child's peak memory begins with what its parent holds
    truth, sites = Truth(data, library), load("sites.json")
    if options.findings:
        report = json.loads(options.findings.read_text(encoding="utf-8"))
    else:
        done = subprocess.run([options.gbfix, *COMMAND, str(library.root)], stdout=subprocess.PIPE, check=False)
        report = json.loads(done.stdout)  # a rule that crashed is in it, and told on stderr
    ways = {
        "all": findings(report, library, certain=False),
        "certain": findings(report, library, certain=True),
        "list": listed({site["file"] for site in sites} | set(truth.traced) | set(truth.executed), library),
    }
    result = header(options, data)
    result["errors"] = [f"{Path(error['filename']).name}: {error['message']}" for error in report["errors"]]
    for way, found in ways.items():
        counted, clean = precision(found, truth)
        result[way] = {"recall": recall(found, sites), "precision": counted}
        if way == "all":
            result["misses"], result["not_broken"] = misses(found, sites), clean
    result["speed"] = speed
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for miss in result["misses"]:
        print(
            f"missed {miss['file']}:{miss['line']} {miss['gb_id']} {miss['source']}: {miss['reason']}", file=sys.stderr
        )
    for way in ways:
        print(way, result[way], file=sys.stderr)


if __name__ == "__main__":
    main()
