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
    lines += [
        "",
        f"Over the {count} rows of GraphMend's table that these stand for: {before} graph breaks before, {after} after.",
        f"`{run['command']}` took {run['seconds']:.0f} s for {run['files']} files and rewrote {len(run['changed'])}.",
        f"{_versions(result)}, {result['device']}, backend {result['backend']}, {result['date']}.",
    ]
    return "\n".join(lines)


def _versions(result: dict[str, Any]) -> str:
    commit, _, dirty = result["commit"].partition("-")
    return (
        f"gbfix {result['gbfix']} ({commit[:10]}{dirty and '-dirty'}), torch {result['torch']}, "
        f"transformers {result['transformers']}, Python {result['python']}"
    )


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


WAYS = {"all": "gbfix", "certain": "gbfix, certain findings only", "list": "`if` tests that call one of 16 methods"}


def facts(result: dict[str, Any]) -> str:
    """How many known breaks have a finding, how many findings break, and what finding costs."""
    lines = ["| | known breaks found | findings that Dynamo traced | of these broke |", "|---|---|---|---|"]
    lines += [_way(name, result[key]) for key, name in WAYS.items()]
    ids = ", ".join(f"{key} {hit} of {count}" for key, (hit, count) in result["all"]["recall"]["by_id"].items())
    unseen, speed = result["all"]["precision"], result["speed"]
    whole = speed["whole"]
    lines += [
        "",
        f"Known breaks by torch id: {ids}. What each missed one lacks is in benchmarks/results/facts.json.",
        f"{unseen['read'] + unseen['unread']} more findings lie in code that ran but that Dynamo had given up before it came there; "
        f"{unseen['read']} of them read tensor data.",
        f"{result['models']} models, {result['runs']} runs; {_versions(result)}, {result['device']}, {result['date']}.",
        f"CPU time of the analysis: {speed['facts_s']:.0f} s for {speed['files']} files ({speed['lines']:,} lines), "
        f"{speed['facts_s'] / speed['parse_s']:.1f} times `ast.parse` alone, at most {speed['peak_mb']} MB; "
        f"the whole command on one process {whole['seconds']:.0f} s, {whole['peak_mb']} MB.",
    ]
    return "\n".join(lines)


def _way(name: str, found: dict[str, Any]) -> str:
    recall, counted = found["recall"], found["precision"]
    traced = counted["broke"] + counted["clean"]
    share = f" ({counted['broke'] / traced:.0%})" if traced else ""
    return f"| {name} | {recall['found']} of {recall['sites']} | {traced} | {counted['broke']}{share} |"


BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {"models": models, "facts": facts}


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
