"""Writes a tree of choices as straight-line tensor code: hoist the tests, run both arms, select with torch.where."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gbfix.facts import terms
from gbfix.facts.lattice import Value
from gbfix.facts.liveness import reads
from gbfix.rule import Context
from gbfix_codemods._branch import Assign, Choice, Path
from gbfix_codemods._merge import Claim, Leaf, check_mutations, merge, used_in_arithmetic
from gbfix_codemods._predicate import Predicate, predicate
from gbfix_codemods._purity import Decline, Effects, inspect
from gbfix_codemods._text import call, render, standalone

Key = str | int


@dataclass
class Select:
    """The writer for one `if`. `names` are the names to merge, none when the paths return; `after` is the last statement replaced."""

    context: Context
    function: ast.FunctionDef | ast.AsyncFunctionDef
    choice: Choice
    names: Sequence[str]
    returns: bool
    before: Mapping[str, Value]
    indent: str
    operands: list[ast.expr] | None = None
    after: ast.stmt | None = None
    claim: Claim = field(default_factory=Claim)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        every = [a for path in _paths(self.choice) for a in path.assigns]
        self._once = {a.name for a in every if sum(b.name == a.name for b in every) == 1}
        self._read_first = _read_before_assigned(self.choice)
        self._width = self._tuple_width()
        self._many = max(len(self.names), self._width) > 1

    def write(self) -> list[str]:
        """The lines that replace the statement. Raises Decline."""
        merged = self._choice(self.choice, {}, [], frozenset(), keep=self.returns)
        if self.returns:
            self._write_return(merged)
        else:
            self._write_names(merged)
        return self.lines

    def one(self) -> Tree:
        """The tree of the single value that both paths return; `lines` then holds what must run before it."""
        self._width = 0
        return self._choice(self.choice, {}, [], frozenset(), keep=False)[0]

    # -- values

    def _choice(
        self,
        choice: Choice,
        names: dict[str, str],
        taken: list[tuple[str, bool]],
        partial: frozenset[str],
        *,
        keep: bool,
    ) -> dict[Key, Tree]:
        operands = self.operands if choice is self.choice and self.operands is not None else [choice.test]
        test = self._renamed_predicate(operands, names, always=not taken)
        for reason in test.reasons:
            self.claim.add(reason)
        for name, text in test.hoisted:
            self._line(f"{name} = {standalone(text)}")
        gated = any(self._has_gates(path) for path in (choice.then, choice.other))
        tail = choice.other.names() if keep else set()
        if test.hoisted or not test.simple or self._many or gated or (reads(ast.parse(test.text)) & tail):
            name = self.context.fresh_name(self.function, "pred")
            self._line(f"{name} = {standalone(test.text)}")
            test = replace(test, text=name)
        then = self._path(choice.then, names, [*taken, (test.text, True)], partial, keep=False)
        for key, tree in then.items():
            if tail and reads(ast.parse(f"({tree.text(self.context)})")) & tail:
                name = self.context.fresh_name(self.function, "early")
                self._line(f"{name} = {standalone(tree.text(self.context))}")
                then[key] = tree.named(name)
        other = self._path(choice.other, names, [*taken, (test.text, False)], partial, keep=keep)
        result: dict[Key, Tree] = {}
        for key in dict.fromkeys((*then, *other)):
            result[key] = Tree(
                test.text,
                then.get(key) or self._unchanged(key, names, partial),
                other.get(key) or self._unchanged(key, names, partial),
            )
        return result

    def _renamed_predicate(self, operands: list[ast.expr], names: Mapping[str, str], *, always: bool) -> Predicate:
        if names and any(isinstance(n, ast.Name) and n.id in names for o in operands for n in ast.walk(o)):
            raise Decline("an inner test reads a name that its arm assigns; it is rewritten once the inner `if` is")
        return predicate(self.context, operands, always=always)

    def _path(
        self,
        path: Path,
        names: Mapping[str, str],
        taken: list[tuple[str, bool]],
        partial: frozenset[str],
        *,
        keep: bool,
    ) -> dict[Key, Tree]:
        """The values at the ends of a path. `partial` are the operators run before on it that some dtypes refuse."""
        names = dict(names)
        found: dict[Key, Tree] = {}
        for index, assign in enumerate(path.assigns):
            again, used = self._later(path, index, assign.name)
            merged = assign.name in self.names and not again
            effects = Effects()
            text = self._value(assign.value, names, taken, effects)
            if not (merged or used or keep):
                if effects.partial:
                    self.claim.add(f"the unused `{assign.name}`, which could raise, is no longer computed")
                continue
            partial |= effects.partial
            value = self._held(assign.value)
            if assign.augmented:
                text, value = self._augmented(assign, text, names)
            if used or not merged:
                self._comment_of(assign.statement)
                target = assign.name if keep else self._target(assign.name)
                names[assign.name] = target
                if target == assign.name:
                    del names[assign.name]
                self._line(f"{target} = {standalone(text)}")
                text = target
            if merged:
                found[assign.name] = Tree.leaf(text, value, effects)
        if path.choice is not None:
            found.update(self._choice(path.choice, names, taken, partial, keep=keep))
        elif path.returned is not None:
            parts = path.returned.elts if self._width and isinstance(path.returned, ast.Tuple) else [path.returned]
            for number, part in enumerate(parts):
                effects = Effects()
                value = self._held(part)
                if isinstance(part, ast.Name) and part.id in self.before and part.id not in path.names():
                    value = replace(self.before[part.id], fresh=False)
                found[number] = Tree.leaf(self._value(part, names, taken, effects), value, effects)
        for tree in found.values():
            for leaf in tree.leaves():
                leaf.effects.partial |= partial
        return found

    def _held(self, node: ast.expr) -> Value:
        """The value of an expression; what only names a tensor shares its memory, however fresh that is."""
        value = self.context.value(node)
        return replace(value, fresh=False) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else value

    def _unchanged(self, key: Key, names: Mapping[str, str], partial: frozenset[str]) -> Tree:
        if not isinstance(key, str) or key not in self.before:
            raise Decline(f"`{key}` is not assigned on every path")
        return Tree.leaf(names.get(key, key), replace(self.before[key], fresh=False), Effects(partial=set(partial)))

    def _value(self, node: ast.expr, names: Mapping[str, str], taken: list[tuple[str, bool]], effects: Effects) -> str:
        inspect(self.context, node, effects)
        for reason in effects.unsafe:
            self.claim.add(reason)
        spans: dict[int, str] = {}
        for operand, filling in effects.gates if not _without_gradients(self.function) else ():
            dtype = self.context.value(operand).dtype
            if dtype in terms.INTS or dtype == "bool":
                continue
            text = render(self.context, operand, names, spans)
            for test, outcome in reversed(taken):
                arguments = (test, text, filling) if outcome else (test, filling, text)
                text = f"{self.context.torch('where')}({', '.join(arguments)})"
            spans[id(operand)] = text
            self.claim.add("operands of the path not taken are filled, so that its gradient stays finite")
        return render(self.context, node, names, spans)

    def _has_gates(self, path: Path) -> bool:
        effects = Effects()
        for part in _paths_of(path):
            for node in (*(a.value for a in part.assigns), *([part.returned] if part.returned is not None else [])):
                inspect(self.context, node, effects)
        return bool(effects.gates) and not _without_gradients(self.function)

    def _augmented(self, assign: Assign, text: str, names: Mapping[str, str]) -> tuple[str, Value]:
        assert isinstance(assign.statement, ast.AugAssign)
        left = self.context.value(assign.statement.target)
        loose = not isinstance(assign.value, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript))
        self.claim.add(f"`{assign.name}` is rebound instead of changed in place")
        return f"{names.get(assign.name, assign.name)} {assign.augmented} " + (f"({text})" if loose else text), left

    def _later(self, path: Path, index: int, name: str) -> tuple[bool, bool]:
        """Whether a name is assigned again after an assignment of its path, and whether it is read there."""
        later = path.assigns[index + 1 :]
        again = any(a.name == name for a in later)
        nodes: list[ast.AST] = [a.statement if a.augmented else a.value for a in later]
        if path.returned is not None:
            nodes.append(path.returned)
        if path.choice is not None:
            again = again or name in path.choice.then.names() | path.choice.other.names()
            nodes += [choice.test for choice in path.choice.below()]
            for inner in _paths(path.choice):
                nodes += [a.statement for a in inner.assigns]
                nodes += [inner.returned] if inner.returned is not None else []
        return again, any(name in reads(node) for node in nodes)

    def _target(self, name: str) -> str:
        if name in self._once and name not in self._read_first and name not in self.names:
            return name
        return self.context.fresh_name(self.function, f"{name}_new")

    # -- text

    def _write_names(self, merged: Mapping[Key, Tree]) -> None:
        texts: dict[str, tuple[str, ...]] = {}
        done: set[str] = set()
        for name in self.names:
            tree = merged[name]
            self._check(f"`{name}`", tree, name)
            for index, part in enumerate(tree.sides()):
                text = part.text(self.context)
                if reads(ast.parse(f"({text})")) & done and text != name:
                    fresh = self.context.fresh_name(self.function, f"{name}_new")
                    self._line(f"{fresh} = {standalone(text)}")
                    tree = tree.with_part(index, part.named(fresh))
            texts[name] = tree.arguments(self.context)
            done.add(name)
        for name, arguments in texts.items():
            self._line(call(self.context.torch("where"), arguments, f"{name} = ", self.indent, self.context.unit()))

    def _write_return(self, merged: Mapping[Key, Tree]) -> None:
        parts: list[str] = []
        for key, tree in merged.items():
            texts = {leaf.text for leaf in tree.leaves()}
            if self._width and len(texts) == 1 and not any(leaf.effects.gates for leaf in tree.leaves()):
                parts.append(texts.pop())
                continue
            self._check("the result" if not self._width else f"result {key}", tree, None)
            parts.append(tree.text(self.context))
        if len(parts) == 1 and not self._width:
            (tree,) = merged.values()
            self._line(
                call(
                    self.context.torch("where"),
                    tree.arguments(self.context),
                    "return ",
                    self.indent,
                    self.context.unit(),
                )
            )
        else:
            self._line("return " + ", ".join(parts) + ("," if len(parts) == 1 else ""))

    def _check(self, what: str, tree: Tree, name: str | None) -> None:
        leaves = list(tree.leaves())
        arithmetic = name is not None and used_in_arithmetic(self.context, self.function, name, self.choice.node)
        last = self.choice.node if self.after is None else self.after
        names = {name} if name else set()
        check_mutations(self.context, self.function, last, names, leaves, self.claim)
        merge(what, [leaf.value for leaf in leaves], [leaf.effects for leaf in leaves], self.claim, arithmetic)

    def _tuple_width(self) -> int:
        returned = [path.returned for path in _paths(self.choice) if path.returned is not None]
        if returned and all(isinstance(r, ast.Tuple) for r in returned):
            widths = {len(r.elts) for r in returned if isinstance(r, ast.Tuple)}
            if len(widths) != 1:
                raise Decline("the paths return tuples of different lengths")
            return widths.pop()
        return 0

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _comment_of(self, statement: ast.stmt) -> None:
        """Carry the comments above a statement that is written out again."""
        first = statement.lineno - 1
        while first >= 1 and self.context.comments(first, first):
            first -= 1
        for comment in self.context.comments(first + 1, statement.lineno - 1):
            if comment not in self.lines:
                self.lines.append(comment)


@dataclass(frozen=True)
class Tree:
    """The values of one name: a leaf, or a test and two trees."""

    test: str
    then: Tree | None = None
    other: Tree | None = None
    value: Leaf | None = None

    @staticmethod
    def leaf(text: str, value: Value, effects: Effects) -> Tree:
        """The end of a path."""
        return Tree("", value=Leaf(text, value, effects))

    def named(self, name: str) -> Tree:
        """The same values, computed into a name before."""
        if self.value is not None:
            return replace(self, value=replace(self.value, text=name))
        return replace(self, test=f"={name}")

    def with_part(self, index: int, part: Tree) -> Tree:
        """The tree with one side replaced."""
        return replace(self, then=part) if index == 0 else replace(self, other=part)

    def leaves(self) -> list[Leaf]:
        """The ends of all paths."""
        if self.value is not None:
            return [self.value]
        return [leaf for side in self.sides() for leaf in side.leaves()]

    def sides(self) -> tuple[Tree, Tree]:
        """The trees for a test that holds and one that does not."""
        assert self.then is not None
        assert self.other is not None
        return self.then, self.other

    def arguments(self, context: Context) -> tuple[str, ...]:
        """The three arguments of torch.where."""
        return (self.test, *(side.text(context) for side in self.sides()))

    def text(self, context: Context) -> str:
        """The expression that selects the value."""
        if self.value is not None:
            return self.value.text
        if self.test.startswith("="):
            return self.test[1:]
        return f"{context.torch('where')}({', '.join(self.arguments(context))})"


def _paths_of(path: Path) -> list[Path]:
    return [path] + (_paths(path.choice) if path.choice is not None else [])


def _paths(choice: Choice) -> list[Path]:
    return _paths_of(choice.then) + _paths_of(choice.other)


def _read_before_assigned(choice: Choice) -> set[str]:
    """Names that some path reads before it assigns them: they must keep their value from before."""
    found: set[str] = set()

    def walk(path: Path, assigned: set[str]) -> None:
        for assign in path.assigns:
            found.update(reads(assign.statement if assign.augmented else assign.value) - assigned)
            assigned = assigned | {assign.name}
        if path.returned is not None:
            found.update(reads(path.returned) - assigned)
        if path.choice is not None:
            found.update(reads(path.choice.test) - assigned)
            walk(path.choice.then, assigned)
            walk(path.choice.other, assigned)

    found.update(reads(choice.test))
    walk(choice.then, set())
    walk(choice.other, set())
    return found


def _without_gradients(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator turns gradients off for the whole function."""
    return any("no_grad" in ast.unparse(d) or "inference_mode" in ast.unparse(d) for d in function.decorator_list)
