"""The rules of all installed packs, and which of them a selector names."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from gbfix.errors import GbfixError, Trouble
from gbfix.rule import Rule

GROUP = "gbfix.rules"
# `GB` and digits alone are torch's own ids.
_CODE = re.compile(r"(?!GB\d)[A-Z]{2,}\d{3}")


@dataclass(frozen=True)
class Registry:
    """Rules sorted by code, and one trouble for each pack that could not be taken."""

    rules: tuple[type[Rule], ...]
    troubles: tuple[Trouble, ...] = ()

    def select(self, select: Iterable[str], ignore: Iterable[str] = ()) -> tuple[type[Rule], ...]:
        """The rules that selectors name, without those that `ignore` names."""
        chosen = {rule for selector in select for rule in self.named(selector)}
        dropped = {rule for selector in ignore for rule in self.named(selector)}
        return tuple(rule for rule in self.rules if rule in chosen and rule not in dropped)

    def named(self, selector: str) -> tuple[type[Rule], ...]:
        """The rules that a code, the start of a code, a rule name, a torch id or ALL names. Case does not count."""
        word = selector.strip().casefold()
        rules = tuple(rule for rule in self.rules if word == "all" or word in _exact(rule))
        if not rules and word:
            rules = tuple(rule for rule in self.rules if rule.code.casefold().startswith(word))
        if not rules and word != "all":
            raise UnknownRule(selector, self._suggest(selector))
        return rules

    def _suggest(self, selector: str) -> str | None:
        known = {"ALL", *(word for rule in self.rules for word in (rule.code, rule.name(), *rule.gb_ids))}
        spelled = selector.lower() if "-" in selector else selector.upper()
        close = difflib.get_close_matches(spelled, sorted(known), n=1)
        return close[0] if close else None


class UnknownRule(GbfixError):
    """A selector that names no rule; `suggestion` is the closest known one."""

    def __init__(self, selector: str, suggestion: str | None) -> None:
        self.selector, self.suggestion = selector, suggestion
        hint = f" Did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"unknown rule {selector!r}.{hint} See `gbfix rule --all`.")


def _exact(rule: type[Rule]) -> set[str]:
    return {word.casefold() for word in (rule.code, rule.name(), *rule.gb_ids)}


def pascal(name: str) -> str:
    """`data_dependent_branch` -> `DataDependentBranch`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def load(packs: Iterable[EntryPoint] | None = None) -> Registry:
    """Every rule of every pack. What is wrong with a pack costs that pack alone."""
    if packs is None:
        packs = entry_points(group=GROUP)
    rules: dict[str, type[Rule]] = {}
    troubles = []
    # Our own pack first, so that a duplicate code is the other's trouble; one distribution may be listed twice.
    for value in dict.fromkeys(
        pack.value for pack in sorted(packs, key=lambda pack: (pack.name != "builtin", pack.name))
    ):
        try:
            taken = rules_of(importlib.import_module(value))
            for rule in taken:
                if rule.code in rules:
                    other = rules[rule.code]
                    raise GbfixError(f"{rule.__module__} takes code {rule.code} of {other.__module__}; choose another")
        except GbfixError as error:
            troubles.append(Trouble(value, "crash", f"rule pack left out: {error}"))
        except (Exception, SystemExit) as error:
            message = f"rule pack left out: {type(error).__name__} on import: {error}"
            troubles.append(Trouble(value, "crash", message, detail=traceback.format_exc()))
        else:
            rules |= {rule.code: rule for rule in taken}
    return Registry(tuple(rules[code] for code in sorted(rules)), tuple(troubles))


def rules_of(package: ModuleType) -> Sequence[type[Rule]]:
    """The rules of a package: each of its public modules defines exactly one."""
    if not hasattr(package, "__path__"):
        raise GbfixError(f"{package.__name__} must be a package, not a module")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))
    return [_rule_of(importlib.import_module(f"{package.__name__}.{name}"), name) for name in names]


def _rule_of(module: ModuleType, name: str) -> type[Rule]:
    where = module.__name__
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Rule) and value.__module__ == where
    ]
    if len(classes) != 1:
        raise GbfixError(f"{where} must define one Rule, not {len(classes)}")
    rule = classes[0]
    if rule.__name__ != pascal(name):
        raise GbfixError(f"{where} must name its Rule {pascal(name)}, not {rule.__name__}")
    code = getattr(rule, "code", None)
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise GbfixError(f"{where}.{rule.__name__}.code must be letters and three digits, such as GBF101, not {code!r}")
    ids = getattr(rule, "gb_ids", None)
    if not isinstance(ids, tuple) or not all(isinstance(item, str) for item in ids):
        raise GbfixError(f"{where}.{rule.__name__}.gb_ids must be a tuple of torch ids, not {ids!r}")
    return rule
