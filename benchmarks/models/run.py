"""Measure every row on the library as it is installed and on a copy that the installed command `gbfix` has rewritten.

`python run.py` measures with the interpreter that runs it; `--python` names another that has requirements.txt
installed. Results go to benchmarks/results/models.json. Only the command line of gbfix is used.
"""

from __future__ import annotations

import argparse
import datetime
import filecmp
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rows import ROWS

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "models.json"
PACKAGE = "transformers"


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def device() -> str:
    """The processor's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return f"{found[1] if found else platform.processor() or platform.machine()}, 1 thread"


def commit() -> str:
    """The checked-out commit, marked when the tool's sources differ from it."""
    git = ("git", "-C", str(HERE.parent.parent))
    changed = output(*git, "status", "--porcelain", "src", "codemods")
    return output(*git, "rev-parse", "HEAD") + ("-dirty" if changed else "")


def files(root: Path) -> list[Path]:
    """The Python files below a folder, as relative paths in order."""
    return sorted(path.relative_to(root) for path in root.rglob("*.py"))


def rewrite(gbfix: str, installed: Path, patched: Path, jobs: int | None) -> dict[str, Any]:
    """Copy the package and run the command on the copy; what it did, and how long it took."""
    shutil.copytree(installed, patched, ignore=shutil.ignore_patterns("__pycache__"))
    report = patched.parent / "report.json"
    options = ["--fix", "--unsafe-fixes", "--isolated", "--output-format", "json", "--output-file", str(report)]
    if jobs:
        options += ["--jobs", str(jobs)]
    start = time.perf_counter()
    done = subprocess.run([gbfix, *options, str(patched)], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        print(done.stderr[-2000:], file=sys.stderr)
    changed = [str(path) for path in files(patched) if not filecmp.cmp(installed / path, patched / path, shallow=False)]
    for path in changed:
        compile((patched / path).read_bytes(), path, "exec")
    found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return {
        "command": f"gbfix --fix --unsafe-fixes --isolated {PACKAGE}",
        "exit_code": done.returncode,
        "seconds": round(seconds, 1),
        "files": len(files(installed)),
        "summary": found.get("summary"),
        "errors": [_error(error, patched.parent) for error in found.get("errors", [])],
        "changed": changed,
    }


def _error(error: dict[str, Any], folder: Path) -> str:
    return f"{str(error['filename']).removeprefix(f'{folder}/')}: {error['message']}"


def measure(python: str, row: str, dump: Path, library: Path | None, *options: str) -> dict[str, Any]:
    """One row in a process of its own; `library` is the folder that goes first on the path."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if library:
        env["PYTHONPATH"] = str(library)
    command = [python, str(HERE / "measure.py"), row, str(dump), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        return {
            "error": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else f"exit {done.returncode}"
        }
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if library and Path(found["library"]).resolve().parent != (library / PACKAGE).resolve():
        return {"error": f"measured {found['library']}, not the rewritten copy"}
    del found["library"]
    return found


def side(found: dict[str, Any]) -> dict[str, Any]:
    """A measurement without what is the same for all rows."""
    return {key: value for key, value in found.items() if key != "versions"}


def compare(
    options: argparse.Namespace, scratch: Path, rewritten: Path | None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Every row, before and after."""
    rows, versions = [], {}
    for name in options.rows or ROWS:
        row = ROWS[name]
        before = measure(options.python, name, scratch / f"{name}.pt", None, "--backend", options.backend)
        versions = before.get("versions", versions)
        entry: dict[str, Any] = {
            "row": name,
            "stands_for": row.stands_for,
            "tolerance": row.tolerance,
            "before": side(before),
        }
        if before.get("breaks") != row.breaks:
            print(
                f"{name}: {before.get('breaks', before.get('error'))} breaks before, {row.breaks} expected",
                file=sys.stderr,
            )
        if rewritten:
            reference = ("--reference", str(scratch / f"{name}.pt"), "--backend", options.backend)
            after = measure(options.python, name, scratch / f"{name}.after.pt", rewritten, *reference)
            entry["after"] = side(after)
        rows.append(entry)
        shown = [entry[key].get("breaks", entry[key].get("error")) for key in ("before", "after") if key in entry]
        print(f"{name}: {' -> '.join(map(str, shown))}", file=sys.stderr, flush=True)
    return rows, versions


def main() -> None:
    """Read the command line, measure, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to measure; default: all")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with requirements.txt installed")
    parser.add_argument("--gbfix", default=str(Path(sys.executable).parent / "gbfix"), help="the installed command")
    parser.add_argument("--backend", default="aot_eager", help="what runs the graphs; they are counted in any case")
    parser.add_argument("--jobs", type=int, help="processes of gbfix")
    parser.add_argument("--stock", action="store_true", help="measure the unchanged library only")
    parser.add_argument("--keep", type=Path, help="a folder for the rewritten copy, which is then left there")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = options.keep or Path(folder)
        where = f"import importlib.util as u; print(u.find_spec({PACKAGE!r}).submodule_search_locations[0])"
        installed, patched = Path(output(options.python, "-c", where)), scratch / "patched" / PACKAGE
        run = None if options.stock else rewrite(options.gbfix, installed, patched, options.jobs)
        rows, versions = compare(options, Path(folder), None if options.stock else patched.parent)
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(),
        "gbfix": None if options.stock else output(options.gbfix, "--version").split()[-1],
        **versions,
        "device": device(),
        "backend": options.backend,
        "run": run,
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
