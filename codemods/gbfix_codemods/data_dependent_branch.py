"""Rule GBF101: `if`, ternary and early return on a tensor's value."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

from gbfix.facts.lattice import Kind, Site, Value
from gbfix.rule import Applicability, Edit, Finding, Fix, Rule
from gbfix_codemods._branch import Choice, Path, parse
from gbfix_codemods._checks import is_check
from gbfix_codemods._merge import arithmetic_use
from gbfix_codemods._predicate import predicate, split_static
from gbfix_codemods._purity import Decline
from gbfix_codemods._select import Select
from gbfix_codemods._ternary import bare, ternary
from gbfix_codemods._text import render

SHORT = 60  # characters of a final return that may be written twice
MESSAGE = "compute both paths and select with torch.where"


class DataDependentBranch(Rule):
    """Flag a branch on a tensor's value; rewrite assignments and returns to `torch.where`.

    Breaks because Dynamo cannot choose a path without the tensor's value.
    Safe where both paths are pure, give equal dtypes and shapes and share no memory; unsafe because `torch.where` runs both
    paths, promotes dtypes, broadcasts shapes and gives a new tensor.
    Source: GB0170 in torch/_dynamo/graph_break_registry.json, torch 2.13.
    """

    code = "GBF101"
    gb_ids = ("GB0170",)
    kinds = ("branch", "ternary")

    def check(self, site: Site) -> Iterator[Finding]:
        """Rewrite one `if` or conditional expression, or say why not."""
        node = site.node
        assert isinstance(node, (ast.If, ast.IfExp))
        if isinstance(node, ast.If) and is_check(node):
            return  # raise-check
        test = " ".join(self.context.text(node.test).split())
        message = f"branch on a tensor value (`{test if len(test) <= 60 else test[:57] + '...'}`)"
        try:
            fix = self._if(site, node) if isinstance(node, ast.If) else ternary(self.context, site.function, node)
        except Decline as reason:
            yield self.report(site, message, declined=str(reason))
        else:
            yield self.report(site, message, fix)

    def _if(self, site: Site, node: ast.If) -> Fix:
        context = self.context
        if context.text(node).startswith("elif"):
            raise Decline("an `elif` is rewritten with the `if` it belongs to")
        arms = context.arms(node)
        if arms is None or _walrus_in_or(node.test):
            raise Decline("the test has no tensor form")
        if not node.orelse and all(isinstance(s, ast.Pass) for s in node.body):
            return self._delete(node)
        block = context.block(node)
        tail = block[block.index(node) + 1 :]
        static, operands = split_static(context, node.test)
        choice, returns = parse(context, node, node.test, tail)
        names = [] if returns else [n for n in _assigned_in_order(choice) if n in context.live_after(node)]
        if not returns and not names:
            raise Decline("nothing that its paths assign is used later")
        early = returns and not _returns(node.orelse)
        last = tail[-1] if early and not _ends(choice.other, node) else node
        if early and static:
            if (
                len(tail) != 1
                or not isinstance(tail[0], ast.Return)
                or node.orelse
                or len(context.text(tail[0])) > SHORT
            ):
                raise Decline("it returns early under a test that also reads Python values")
            last = node
        try:
            indent = context.indent(node) + (context.unit() if static else "")
            select = Select(context, site.function, choice, names, returns, arms.before, indent, operands, last)
            lines = select.write()
        except Decline:
            pushed = self._push(site, node, choice, names, arms.before) if not static else None
            if pushed is None:
                raise
            return pushed
        if early and not static:
            select.claim.add("code after the branch now always runs")
        text = self._text(node, static, lines, context.indent(node), early, last)
        return select.claim.fix(MESSAGE, (context.replace(node, text, last),), "where")

    def _text(
        self, node: ast.If, static: list[ast.expr], lines: list[str], indent: str, early: bool, last: ast.stmt
    ) -> str:
        context = self.context
        kept = [
            c
            for c in _comments(context.text(node), context.comments(node.lineno, node.end_lineno or node.lineno))
            if c not in lines
        ]
        if early and last is not node:
            kept += [c for c in context.comments((node.end_lineno or 0) + 1, last.end_lineno or 0) if c not in lines]
        lines = kept + lines
        if not static:
            return f"\n{indent}".join(lines)
        inner = indent + context.unit()
        tests = [context.text(t) for t in static]
        tests = [
            f"({t})" if isinstance(n, ast.BoolOp) and len(static) > 1 else t for t, n in zip(tests, static, strict=True)
        ]
        head = f"if {' and '.join(tests)}:\n{inner}" + f"\n{inner}".join(lines)
        if not node.orelse:
            return head
        if isinstance(node.orelse[0], ast.If) and context.text(node.orelse[0]).startswith("elif"):
            raise Decline("an `elif` follows a test that also reads Python values")
        first, end = node.orelse[0], node.orelse[-1]
        rest = context.source(first.lineno, end.end_lineno or end.lineno).rstrip("\r\n")
        return f"{head}\n{indent}else:\n{rest}"

    def _delete(self, node: ast.If) -> Fix:
        test = predicate(self.context, [node.test])
        block = self.context.block(node)
        reason = "" if test.proven else "a test with several elements would have raised"
        applicability = Applicability.SAFE if test.proven else Applicability.UNSAFE
        if len(block) == 1 or "#" in self.context.text(node) or self.context.after(node).strip():
            edit = self.context.replace(node, "pass")
        else:
            edit = Edit(node.lineno, 0, (node.end_lineno or node.lineno) + 1, 0, "")
        return Fix("remove the branch, which does nothing", (edit,), applicability, "remove", reason)

    def _push(self, site: Site, node: ast.If, choice: Choice, names: list[str], before: dict[str, Value]) -> Fix | None:
        """Select the products instead of the numbers: `x * s` becomes `torch.where(pred, x * a, x * b)`."""
        if (
            len(names) != 1
            or choice.then.choice
            or choice.other.choice
            or choice.then.returned
            or choice.other.returned
        ):
            return None
        name = names[0]
        sides = [_number(path, name, before) for path in (choice.then, choice.other)]
        uses = [
            n
            for n in ast.walk(site.function)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
        ]
        if (
            any(side is None for side in sides)
            or len(uses) != 1
            or len({type(ast.literal_eval(str(s))) for s in sides}) != 1
        ):
            return None
        product = arithmetic_use(self.context, uses[0])
        block = self.context.block(node)
        statement = self.context.statement(uses[0])
        if (
            product is None
            or statement not in block[block.index(node) + 1 :]
            or isinstance(statement, (ast.For, ast.While, ast.If, ast.With, ast.Try))
        ):
            return None
        other = product.right if product.left is uses[0] else product.left
        if not isinstance(other, (ast.Name, ast.Attribute)):
            return None
        test = predicate(self.context, [node.test])
        inline = not test.hoisted and block.index(statement) == block.index(node) + 1
        pred = test.text if inline else self.context.fresh_name(site.function, "pred")
        where = ", ".join((pred, *(render(self.context, product, {name: str(side)}) for side in sides)))
        hoisted = [f"{n} = {t}" for n, t in test.hoisted]
        lines = [
            *_comments(self.context.text(node), self.context.comments(node.lineno, node.end_lineno or 0)),
            *hoisted,
        ]
        lines += [] if inline else [f"{pred} = {test.text}"]
        indent = self.context.indent(node)
        if lines:
            first = self.context.replace(node, f"\n{indent}".join(lines))
        else:
            first = Edit(node.lineno, 0, (node.end_lineno or node.lineno) + 1, 0, "")
        edits = (first, bare(self.context, self.context.replace(product, f"{self.context.torch('where')}({where})")))
        return Fix("select the products with torch.where", edits, Applicability.SAFE, "where")


def _number(path: Path, name: str, before: dict[str, Value]) -> str | None:
    """The literal that a path gives a name, None when it does more."""
    if len(path.assigns) == 1 and path.assigns[0].name == name and not path.assigns[0].augmented:
        node = path.assigns[0].value
        sign = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        constant = node.operand if sign and isinstance(node, ast.UnaryOp) else node
        if isinstance(constant, ast.Constant) and type(constant.value) in (int, float):
            return ast.unparse(node)
        return None
    value = before.get(name)
    if path.assigns or value is None or value.kind is not Kind.SCALAR or type(value.constant) not in (int, float):
        return None
    return repr(value.constant)


def _assigned_in_order(choice: Choice) -> list[str]:
    order: dict[str, None] = {}

    def walk(path: Path) -> None:
        for assign in path.assigns:
            order.setdefault(assign.name)
        if path.choice is not None:
            walk(path.choice.then)
            walk(path.choice.other)

    walk(choice.then)
    walk(choice.other)
    return list(order)


def _returns(body: list[ast.stmt]) -> bool:
    """Whether a block always returns by itself."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, ast.Return) or (isinstance(last, ast.If) and _returns(last.body) and _returns(last.orelse))


def _ends(path: Path, node: ast.If) -> bool:
    return all(
        leaf.last is not None and (leaf.last.end_lineno or 0) <= (node.end_lineno or 0) for leaf in path.leaves()
    )


def _walrus_in_or(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and any(
        isinstance(n, ast.NamedExpr) for operand in test.values[1:] for n in ast.walk(operand)
    )


def _comments(text: str, own_line: list[str]) -> list[str]:
    """All comments of a statement's text in order: those on lines of their own, and those behind code."""
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string)
    except (tokenize.TokenError, IndentationError):
        return own_line
    return found
