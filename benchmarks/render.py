"""Write the tables of README.md from the rules and the result files, between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.

`python benchmarks/render.py` writes them; with `--check` it changes nothing and fails when README.md says something else.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
HEAD = "| model | rows | breaks | with gbfix | left at | eager outputs | compiled against eager | recompiles |"


def models(result: dict[str, Any]) -> str:
    """Graph breaks of the models of benchmarks/models, before and after."""
    lines = [HEAD, "|---|---|---|---|---|---|---|---|", *map(_model, result["rows"])]
    stands = [(row["stands_for"], _breaks(row["before"]), _breaks(row["after"])) for row in result["rows"]]
    count = sum(rows for rows, *_ in stands)
    before = sum(rows * breaks for rows, breaks, _ in stands)
    after = sum(rows * breaks for rows, _, breaks in stands)
    run = result["run"]
    commit, _, dirty = result["commit"].partition("-")
    lines += [
        "",
        f"Over the {count} rows of GraphMend's table that these stand for: {before} graph breaks before, {after} after.",
        f"`{run['command']}` took {run['seconds']:.0f} s for {run['files']} files and rewrote {len(run['changed'])}.",
        f"gbfix {result['gbfix']} ({commit[:10]}{dirty and '-dirty'}), torch {result['torch']}, transformers {result['transformers']}, "
        f"Python {result['python']}, {result['device']}, backend {result['backend']}, {result['date']}.",
    ]
    return "\n".join(lines)


def _breaks(side: dict[str, Any]) -> int:
    if "error" in side:
        raise ValueError(f"a row failed and cannot be shown: {side['error']}")
    return int(side["breaks"])


def _model(row: dict[str, Any]) -> str:
    before, after = row["before"], row["after"]
    places: dict[str, list[str]] = {}
    for site in sorted(after["sites"], key=lambda site: (site["path"], site["line"])):
        places.setdefault(site["path"].rpartition("/")[2], []).append(f"{site['line']} {site['gb_id']}")
    left = "; ".join(f"{name}: {', '.join(lines)}" for name, lines in places.items())
    equal = f"equal ({after['tensors']} tensors)" if after["eager_equal"] else "**differ**"
    gap = after["compiled_max_abs"]
    within = f"{gap:.0e}" if gap else "equal"
    compiled = within if gap <= row["tolerance"] else f"**{gap:.0e}**"
    recompiles = f"{before['recompiles']} → {after['recompiles']}"
    cells = [row["row"], row["stands_for"], _breaks(before), _breaks(after), left or "-", equal, compiled, recompiles]
    return f"| {' | '.join(map(str, cells))} |"


BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {"models": models}


def fill(readme: str, name: str, block: str) -> str:
    """The text with one block put between its markers."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    found = re.search(f"{begin}.*?{end}", readme, re.S)
    if found is None:
        raise ValueError(f"README.md: the markers {begin} and {end} are missing")
    return f"{readme[: found.start()]}{begin}\n{block}\n{end}{readme[found.end() :]}"


def rendered(readme: str) -> str:
    """The text with every block written from its result file."""
    command = [sys.executable, "-m", "gbfix", "rule", "--all", "--output-format", "markdown"]
    readme = fill(readme, "rules", subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    for name, render in BLOCKS.items():
        result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        readme = fill(readme, name, render(result))
    return readme


def main() -> None:
    """Write README.md, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check, path = parser.parse_args().check, ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = rendered(old)
    if check and new != old:
        sys.exit("README.md differs from the result files; run python benchmarks/render.py")
    if new != old:
        path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
