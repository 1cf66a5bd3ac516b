"""What every output format says of the same findings."""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import replace
from typing import Any

import click
import jsonschema
import pytest
from fake_engine import RULES, GraphBreakCall, ItemRead, PrintCall, finding

from gbfix.errors import Trouble
from gbfix.report import Report, codes, github, rdjson, rules, text
from gbfix.report import json as json_report
from gbfix.rule import Applicability, Edit, Finding, Fix

LINES = (
    "import torch\n",
    "def step(x):\n",
    "    torch._dynamo.graph_break()\n",
    "\tx = 'é𐐀'; print(x)\n",
    "    y = x.sum().item()\n",
    "    return y\n",
)
SAFE = Fix("remove the call", (Edit(3, 0, 4, 0, ""),), Applicability.SAFE, "remove")
UNSAFE = Fix(
    "guard the call", (Edit(4, 11, 4, 19, "pass"),), Applicability.UNSAFE, "guard", reason="no output while compiled"
)
FINDINGS = (
    finding(GraphBreakCall, 3, LINES[2], 4, fix=SAFE),
    finding(PrintCall, 4, LINES[3], 11, fix=UNSAFE),
    finding(ItemRead, 5, LINES[4], 8),
)
SYNTAX = Trouble("b.py", "syntax", "expected ':'", 7, 2)
CRASH = Trouble("c.py", "crash", "gbfix crashed here", detail="Traceback")
REPORT = Report(FINDINGS, (SYNTAX, CRASH), {"a.py": LINES, "b.py": ("if x\n",) * 7}, checked=14)


def test_full() -> None:
    assert text.findings(REPORT, color=False, excerpt=True) == (
        "a.py:3:5: GBF101 (GB0025) [*] `torch._dynamo.graph_break()` breaks the graph\n"
        "  |\n"
        "3 |     torch._dynamo.graph_break()\n"
        "  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^ in `step`\n"
        "  |\n"
        "  = fix: remove the call\n"
        "\n"
        "a.py:4:12: GBF301 (GB0059) [?] `x = 'é𐐀'; print(x)` breaks the graph\n"
        "  |\n"
        "4 |     x = 'é𐐀'; print(x)\n"
        "  |               ^^^^^^^^ in `step`\n"
        "  |\n"
        "  = fix (unsafe): guard the call; no output while compiled\n"
        "\n"
        "a.py:5:9: GBF201 (GB0124) `y = x.sum().item()` breaks the graph\n"
        "  |\n"
        "5 |     y = x.sum().item()\n"
        "  |         ^^^^^^^^^^^^^^ in `step`\n"
        "  |\n"
        "  = note: the value is used as a Python number\n"
        "\n"
        "b.py:7:3: GB-SYNTAX expected ':'; file skipped\n"
        "\n"
    )


def test_concise_fits_the_problem_matcher() -> None:
    shown = text.findings(REPORT, color=False, excerpt=False).splitlines()
    assert shown[0] == "a.py:3:5: GBF101 (GB0025) [*] `torch._dynamo.graph_break()` breaks the graph"
    matcher = re.compile(r"^(.+?):(\d+):(\d+): ([A-Z]+\d+) (?:\[[*?]\] )?(.*)$")
    assert [m.group(1, 2, 3, 4) for line in shown if (m := matcher.match(line))] == [
        ("a.py", "3", "5", "GBF101"),
        ("a.py", "4", "12", "GBF301"),
        ("a.py", "5", "9", "GBF201"),
    ]


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ((), "GBF201"),
        (("GB0001",), "GBF201 (GB0001)"),
        (("GB0001", "GB0002"), "GBF201 (GB0001, GB0002)"),
        (("GB0001", "GB0002", "GB0003"), "GBF201 (GB0001, ...)"),
    ],
)
def test_codes(ids: tuple[str, ...], shown: str) -> None:
    assert codes(replace(FINDINGS[2], gb_ids=ids)) == shown


def test_colour_only_adds_to_the_text() -> None:
    for excerpt in (True, False):
        colored = text.findings(REPORT, color=True, excerpt=excerpt)
        assert "\x1b[" in colored
        assert click.unstyle(colored) == text.findings(REPORT, color=False, excerpt=excerpt)


def test_marks_follow_the_settings() -> None:
    suggested = replace(FINDINGS[1], fix=replace(UNSAFE, applicability=Applicability.SUGGESTION))
    assert [REPORT.mark(one) for one in (*FINDINGS, suggested)] == ["*", "?", "", ""]
    assert replace(REPORT, unsafe=frozenset({"a.py"})).mark(FINDINGS[1]) == "*"
    assert "= fix (suggestion): guard the call" in text.findings(Report((suggested,)), color=False, excerpt=True)


def test_excerpt_of_odd_text() -> None:
    line = "\tx = '你\x1b[31m'; y.item()\n"
    one = finding(ItemRead, 1, line, line.index("y"))
    shown = text.findings(Report((one,), lines={"a.py": (line,)}), color=False, excerpt=True).splitlines()
    assert shown[2] == "1 |     x = '你\ufffd[31m'; y.item()"
    assert shown[3] == "  |                    ^^^^^^^^ in `step`"


def test_finding_over_many_lines_is_marked_to_the_end_of_the_first() -> None:
    one = replace(FINDINGS[2], end_line=6, end_column=3)
    shown = text.findings(replace(REPORT, findings=(one,)), color=False, excerpt=True)
    assert "  |         ^^^^^^^^^^^^^^ in `step`\n" in shown


def test_statistics() -> None:
    report = replace(REPORT, findings=(*FINDINGS, replace(FINDINGS[2], line=6)))
    assert text.statistics(report, color=False) == (
        "2  GBF201  [ ]  item-read\n1  GBF101  [*]  graph-break-call\n1  GBF301  [?]  print-call\n"
    )


@pytest.mark.parametrize(
    ("report", "mode", "shown"),
    [
        (Report((), checked=14), "report", "No graph breaks found (14 files checked)."),
        (
            REPORT,
            "report",
            "Found 3 graph breaks in 1 file (14 files checked).\n"
            "[*] 1 fixable with --fix, [?] 1 more with --unsafe-fixes.",
        ),
        (
            Report(FINDINGS[1:2], checked=1),
            "report",
            "Found 1 graph break in 1 file (1 file checked).\n[?] 1 fixable with --unsafe-fixes.",
        ),
        (Report(FINDINGS[2:], checked=1), "report", "Found 1 graph break in 1 file (1 file checked)."),
        (Report(FINDINGS[1:], fixed=1, fixed_files=1), "diff", "Would fix 1 graph break in 1 file; 2 left."),
        (Report((), fixed=3, fixed_files=2), "fix", "Fixed 3 graph breaks in 2 files; 0 left."),
    ],
)
def test_summary(report: Report, mode: str, shown: str) -> None:
    assert text.summary(report, mode) == shown


def schema(name: str) -> Any:
    return json.loads(importlib.resources.files("gbfix.report").joinpath(f"{name}.schema.json").read_text())


def test_json() -> None:
    data = json.loads(json_report.render(REPORT))
    jsonschema.validate(data, schema("json"))
    assert data["summary"] == {"checked": 14, "found": 3, "fixable": 1, "fixable_unsafe": 1, "fixed": 0}
    one = data["findings"][1]
    assert (one["location"], one["end_location"]) == ({"row": 4, "column": 12}, {"row": 4, "column": 20})
    assert one["url"] == "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    assert one["fix"] == {
        "applicability": "unsafe", "applied_by_fix": False, "form": "guard", "message": "guard the call",
        "reason": "no output while compiled", "imports": [],
        "edits": [{"content": "pass", "location": {"row": 4, "column": 12}, "end_location": {"row": 4, "column": 20}}],
    }  # fmt: skip
    assert [(error["kind"], error["location"]) for error in data["errors"]] == [
        ("syntax", {"row": 7, "column": 3}),
        ("crash", None),
    ]
    assert "verification" not in data
    with_verdict = json.loads(json_report.render(replace(REPORT, verification={"verdict": "fewer breaks"})))
    jsonschema.validate(with_verdict, schema("json"))
    assert with_verdict["verification"] == {"verdict": "fewer breaks"}


def test_rdjson() -> None:
    data = json.loads(rdjson.render(replace(REPORT, review_prefix="sub/")))
    jsonschema.validate(data, schema("rdjson"))
    removed, guarded, read, broken, crashed = data["diagnostics"]
    assert removed["location"] == {
        "path": "sub/a.py",
        "range": {"start": {"line": 3, "column": 5}, "end": {"line": 3, "column": 32}},
    }
    assert removed["suggestions"] == [{"range": {"start": {"line": 3}, "end": {"line": 3}}, "text": ""}]
    # `é` takes two bytes and `𐐀` four.
    assert guarded["location"]["range"] == {"start": {"line": 4, "column": 16}, "end": {"line": 4, "column": 24}}
    assert guarded["suggestions"][0]["text"] == "\tx = 'é𐐀'; pass"
    assert guarded["message"].endswith("fix (unsafe): guard the call; no output while compiled")
    assert "suggestions" not in read
    assert (broken["severity"], broken["code"], broken["location"]["range"]) == (
        "ERROR",
        {"value": "GB-SYNTAX"},
        {"start": {"line": 7, "column": 3}},
    )
    assert crashed["location"] == {"path": "sub/c.py"}


def with_edits(*edits: Edit, imports: tuple[str, ...] = ()) -> Finding:
    return replace(FINDINGS[0], fix=Fix("m", edits, Applicability.SAFE, "form", imports=imports))


@pytest.mark.parametrize(
    ("edits", "suggestion"),
    [
        ((Edit(5, 8, 5, 22, "x.sum()"),), (5, 5, "    y = x.sum()")),
        ((Edit(5, 8, 5, 22, "a"), Edit(6, 11, 6, 12, "b")), (5, 6, "    y = a\n    return b")),
        (
            (Edit(6, 11, 6, 12, "b"), Edit(2, 9, 2, 10, "z")),
            (2, 6, "def step(z):\n" + "".join(LINES[2:5]) + "    return b"),
        ),
        ((Edit(3, 0, 5, 0, ""),), (3, 4, "")),
        ((Edit(3, 0, 4, 0, "    pass\n"),), (3, 3, "    pass")),
        ((Edit(3, 4, 4, 0, ""),), (3, 4, "    " + LINES[3][:-1])),
        ((Edit(3, 0, 3, 0, "    a = 1\n"),), (3, 3, "    a = 1\n" + LINES[2][:-1])),
        ((Edit(7, 0, 7, 0, "end\n"),), None),
        ((), None),
    ],
)
def test_suggestion_is_one_range_of_whole_lines(
    edits: tuple[Edit, ...], suggestion: tuple[int, int, str] | None
) -> None:
    assert rdjson.suggest(with_edits(*edits), LINES) == suggestion


def test_no_suggestion_where_a_fix_reaches_far() -> None:
    lines = tuple("x = 1\n" for _ in range(100))
    assert rdjson.suggest(with_edits(Edit(1, 0, 1, 5, "y"), Edit(90, 0, 90, 5, "y")), lines) is None
    assert rdjson.suggest(with_edits(Edit(1, 0, 1, 5, "y"), imports=("torch",)), lines) is None


def test_comment_stands_on_the_lines_of_its_suggestion() -> None:
    report = replace(REPORT, findings=(with_edits(Edit(3, 0, 5, 0, "    pass\n")),), troubles=())
    (diagnostic,) = json.loads(rdjson.render(report))["diagnostics"]
    assert diagnostic["location"]["range"] == diagnostic["suggestions"][0]["range"]


def test_github_escapes() -> None:
    odd = replace(FINDINGS[1], path="a,b:c%.py", message="100%\nsure")
    assert github.render(Report((odd,), review_prefix="sub/")) == (
        "::warning title=gbfix (GBF301),file=sub/a%2Cb%3Ac%25.py,line=4,col=12,endLine=4,endColumn=20::"
        "a,b:c%25.py:4:12: GBF301 (GB0059) [?] 100%25%0Asure%0A"
        "  fix (unsafe): guard the call; no output while compiled\n"
    )


def test_github_stops_at_ten() -> None:
    shown = github.render(Report(FINDINGS * 5, (SYNTAX,))).splitlines()
    assert len(shown) == 12
    assert shown[0] == "::error title=gbfix (GB-SYNTAX),file=b.py,line=7,col=3::b.py:7:3: expected ':'"
    assert shown[-1] == "::notice title=gbfix::5 graph breaks more; run gbfix to see all"


def test_rules_as_text_json_and_markdown() -> None:
    assert rules.render([GraphBreakCall], "text") == (
        "GBF101 graph-break-call (GB0025)\n\nFlag a call of `graph_break()`; remove it.\n\n"
        "Breaks because it asks for it.\n\n"
        "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html\n"
    )
    (first, *_) = json.loads(rules.render(RULES, "json"))
    assert (first["code"], first["summary"]) == ("GBF101", "Flag a call of `graph_break()`; remove it.")
    assert rules.render([PrintCall], "markdown").splitlines()[2] == (
        "| GBF301 | `print-call` | [GB0059](https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html) "
        "| Flag `print`; put a pass in its place. |"
    )
