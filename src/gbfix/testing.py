"""The fixture harness: golden folders in, problems out. Rule packs use it for their own rules.

A fixture is a folder `<root>/<rule module>/<case>/` with `before.py`, `findings.txt` and, unless the case's name starts
with `keep_`, `after.py`. `before.py` is run through its own rule alone, unsafe fixes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gbfix import engine, registry
from gbfix.rule import Applicability, Finding, Rule

DOCSTRING_PARTS = (
    r"Flag .+; rewrite .+\.",
    r"Breaks because .+\.",
    r"(Safe|Unsafe) (because|where) .+\.",
    r"Source: GB\d{4}.* in torch/_dynamo/graph_break_registry\.json, torch \d+\.\d+\.",
)


@dataclass(frozen=True)
class Case:
    """One fixture folder and the rule it is about."""

    folder: Path
    rule: type[Rule]

    @property
    def keeps(self) -> bool:
        """Whether the source must come out as it went in."""
        return self.folder.name.startswith("keep_")

    @property
    def id(self) -> str:
        """`rule/case`, as tests name it."""
        return f"{self.folder.parent.name}/{self.folder.name}"


def rules_in(package: ModuleType) -> dict[str, type[Rule]]:
    """The rules of a pack by the name of their module."""
    return {rule.__module__.rpartition(".")[2]: rule for rule in registry.rules_of(package)}


def cases(root: Path, package: ModuleType) -> list[Case]:
    """The fixtures of a pack's rules, in stable order."""
    return [
        Case(folder, rule)
        for name, rule in sorted(rules_in(package).items())
        for folder in sorted((root / name).glob("*/"))
        if (folder / "before.py").exists()
    ]


def listing(outcome: engine.Outcome) -> str:
    """`findings.txt` of an outcome: `line:col CODE message [fixed|why not]`, columns 1-based."""
    lines = [(finding.key, _line(finding, True)) for finding in outcome.fixed]
    lines += [(finding.key, _line(finding, False)) for finding in outcome.left]
    return "".join(line + "\n" for _, line in sorted(lines))


def _line(finding: Finding, fixed: bool) -> str:
    fix = finding.fix
    if fix is None:
        end = finding.declined
    elif fix.applicability is Applicability.SAFE:
        end = "fixed" if fixed else "not fixed"
    else:
        end = f"{'fixed' if fixed else 'not fixed'}, {fix.applicability.value}: {fix.reason}"
    return f"{finding.line}:{finding.column + 1} {finding.code} {finding.message} [{end}]"


def check(case: Case, *, regen: bool = False) -> list[str]:
    """What is wrong with one fixture. With `regen`, golden files are written; each that changed is a problem too."""
    before = (case.folder / "before.py").read_bytes()
    outcome = engine.run(before, "before.py", [case.rule], unsafe=True)
    problems = [str(trouble) + trouble.detail for trouble in outcome.troubles]
    if not problems:
        again = engine.run(outcome.source, "before.py", [case.rule], unsafe=True)
        problems += [f"second run: {trouble}" for trouble in again.troubles]
        if again.source != outcome.source:
            problems.append("a second run changes the text again")
    golden = {"findings.txt": listing(outcome).encode()}
    if case.keeps and outcome.source != before:
        problems.append(f"the source must be kept, but became\n{outcome.source.decode()}")
    elif not case.keeps:
        golden["after.py"] = outcome.source
        if outcome.source == before:
            problems.append("nothing was rewritten; a case that keeps the source is named keep_*")
    for name, content in golden.items():
        problems += _compare(case.folder / name, content, regen)
    problems += [f"{path.name} does not belong here" for path in _strangers(case.folder, {"before.py", *golden})]
    return problems


def _compare(path: Path, content: bytes, regen: bool) -> list[str]:
    expected = path.read_bytes() if path.exists() else None
    if expected == content:
        return []
    if regen:
        path.write_bytes(content)
        return [f"{path.name} was written: read the diff"]
    if expected is None:
        return [f"{path.name} is missing; run with --regen"]
    return [f"{path.name} differs; got\n{content.decode()}\nexpected\n{expected.decode()}"]


def _strangers(folder: Path, known: set[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name not in known and path.name != "__pycache__")


def check_layout(root: Path, package: ModuleType) -> list[str]:
    """What is wrong with a pack as a whole: names, docstrings, codes, fixtures of both kinds for every rule that rewrites."""
    rules = rules_in(package)
    problems: list[str] = []
    for name, rule in rules.items():
        problems += docstring_problems(rule)
        kinds = {case.keeps for case in cases(root, package) if case.rule is rule}
        rewrites = "; rewrite nothing: " not in (rule.__doc__ or "")
        problems += [f"{name} has no fixture that is rewritten"] if rewrites and False not in kinds else []
        problems += [f"{name} has no keep_* fixture"] if True not in kinds else []
    codes = [rule.code for rule in rules.values()]
    problems += [f"{code} is used by several rules" for code in sorted(set(codes)) if codes.count(code) > 1]
    problems += [f"{path.name}/ has fixtures but no rule" for path in _strangers(root, set(rules)) if path.is_dir()]
    return problems


def docstring_problems(rule: type[Rule]) -> list[str]:
    """The fixed parts that a rule's docstring lacks, and torch ids that it does not name."""
    text = " ".join((rule.__doc__ or "").split())
    lacking = [f"`{part}`" for part in DOCSTRING_PARTS if not re.search(part, text)]
    lacking += [gb_id for gb_id in rule.gb_ids if gb_id not in text]
    return [f"{rule.__name__}: the docstring lacks {part}" for part in lacking]
