"""CPU time and peak memory of the analysis, as one line of JSON: `python speed.py GBFIX FOLDER`.

This is the one measurement that imports gbfix: facts have no command of their own over many files. Every file that speaks of
torch is parsed and then analysed, turn by turn in one process, so that both see the same machine. Rules and reports are left out
there; the whole command is timed beside it, on one process.
"""

from __future__ import annotations

import ast
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gbfix.facts.compiled import compiled
from gbfix.facts.project import ModuleFacts
from gbfix.facts.sites import sites

COMMAND = ("--statistics", "--isolated", "--exit-zero", "--jobs", "1")


def analysis(folder: Path) -> dict[str, Any]:
    """Seconds for parsing and for facts, over all files."""
    parse_s = facts_s = 0.0
    files = lines = found = 0
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "torch" not in text:
            continue
        start = time.process_time()
        ast.parse(text)
        middle = time.process_time()
        facts = ModuleFacts(text, str(path))
        found += len(sites(facts, compiled(facts), ()))
        facts_s += time.process_time() - middle
        parse_s += middle - start
        files, lines = files + 1, lines + text.count("\n")
    return {
        "files": files, "lines": lines, "sites": found,
        "parse_s": round(parse_s, 1), "facts_s": round(facts_s, 1), "peak_mb": peak_mb(resource.RUSAGE_SELF),
    }  # fmt: skip


def whole(gbfix: str, folder: Path) -> dict[str, Any]:
    """CPU seconds and peak memory of the command on one process."""
    subprocess.run([gbfix, *COMMAND, str(folder)], check=False, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "command": " ".join(("gbfix", *COMMAND, folder.name)),
        "seconds": round(used.ru_utime + used.ru_stime, 1), "peak_mb": peak_mb(resource.RUSAGE_CHILDREN),
    }  # fmt: skip


def peak_mb(who: int) -> int:
    """The most memory that a process held, in MB; the system counts KiB on Linux, bytes on macOS."""
    peak = resource.getrusage(who).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6)


def main() -> None:
    """Measure and print."""
    gbfix, folder = sys.argv[1], Path(sys.argv[2])
    command = whole(gbfix, folder)
    print(json.dumps({**analysis(folder), "whole": command}))


if __name__ == "__main__":
    main()
