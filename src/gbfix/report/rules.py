"""The explanation of rules, from their docstrings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

from gbfix.report import REGISTRY_PAGE
from gbfix.rule import Rule


def render(rules: Sequence[type[Rule]], form: str) -> str:
    """All rules as text, json or markdown (a table)."""
    described = [_described(rule) for rule in rules]
    if form == "json":
        return json.dumps(described, indent=2) + "\n"
    if form == "markdown":
        return "".join(
            line + "\n"
            for line in ("| code | name | torch ids | what it does |", "|---|---|---|---|", *map(_row, described))
        )
    return "\n".join(map(_text, described))


def _described(rule: type[Rule]) -> dict[str, Any]:
    summary, _, explanation = inspect.cleandoc(rule.__doc__ or "").partition("\n")
    return {
        "code": rule.code,
        "name": rule.name(),
        "gb_ids": list(rule.gb_ids),
        "urls": [REGISTRY_PAGE.format(gb_id.lower()) for gb_id in rule.gb_ids],
        "summary": summary.strip(),
        "explanation": explanation.strip(),
        "module": rule.__module__,
    }


def _row(rule: dict[str, Any]) -> str:
    links = ", ".join(f"[{gb_id}]({url})" for gb_id, url in zip(rule["gb_ids"], rule["urls"], strict=True))
    return f"| {rule['code']} | `{rule['name']}` | {links} | {rule['summary'].replace('|', chr(92) + '|')} |"


def _text(rule: dict[str, Any]) -> str:
    head = f"{rule['code']} {rule['name']}" + (f" ({', '.join(rule['gb_ids'])})" if rule["gb_ids"] else "")
    parts = [
        head,
        "",
        rule["summary"],
        *(["", rule["explanation"]] if rule["explanation"] else []),
        *(["", *rule["urls"]] if rule["urls"] else []),
    ]
    return "".join(line + "\n" for line in parts)
