"""Whether a name of the measured table breaks at this place: some do only with these arguments, or for this receiver."""

from __future__ import annotations

import ast

from gbfix.facts.lattice import Kind, Site
from gbfix.rule import Context
from gbfix_codemods import _measured as measured


def breaks(context: Context, site: Site) -> bool:
    """Whether what is known of the arguments says that the site breaks; True for names that always do."""
    node = site.node
    if not isinstance(node, ast.Call):
        return True
    if site.name in measured.TRACED:
        return decides(context, node, site.function)
    if site.name in measured.GENERATED:
        return _has_generator(site, node) or (site.name.endswith(".uniform_") and _has_from(node))
    if site.name in measured.COPIES:
        return bool(node.args) and _is_copied(context, node.args[0], deep=site.name.endswith("deepcopy"))
    if site.name in measured.RESHAPED:
        return _comes_in(context, site, node)
    if site.name == "eval":
        return not node.args or not _is_constant(node.args[0])
    if site.name == "dir":
        return bool(node.args) and context.value(node.args[0]).kind is Kind.TENSOR
    if site.name == "torch.Tensor.data_ptr":
        return _differs(context, node)
    if site.name == "torch.Tensor.as_subclass":
        return bool(node.args) and context.dotted(node.args[0]) == "torch.Tensor"
    if site.name.startswith("torch.nested."):
        return all(keyword.arg != "layout" for keyword in node.keywords)
    if site.name == "BaseException.__init__":
        return _is_caught(context, node)
    # As a `with` item it is untraceable-context's.
    return site.name != "torch.autograd.set_detect_anomaly" or not isinstance(context.parent(node), ast.withitem)


def decides(context: Context, node: ast.AST, function: ast.AST) -> bool:
    """Whether a branch or an index depends on a value, by itself or by the name it is assigned to."""
    statement = context.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    tests: list[ast.AST] = []
    for inner in ast.walk(function):
        if isinstance(inner, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            tests.append(inner.test)
        elif isinstance(inner, ast.Subscript) and context.value(inner.value).kind in (Kind.LIST, Kind.TUPLE):
            tests.append(inner.slice)
    parts = [part for test in tests for part in ast.walk(test)]
    return any(part is node or (isinstance(part, ast.Name) and part.id in names) for part in parts)


def _differs(context: Context, node: ast.Call) -> bool:
    """Whether an address is computed with, or compared to anything but itself."""
    parent = context.parent(node)
    if isinstance(parent, ast.Compare):
        return len({context.text(part) for part in (parent.left, *parent.comparators)}) > 1
    return isinstance(parent, ast.BinOp)


def _has_generator(site: Site, node: ast.Call) -> bool:
    """Whether a generator is given that is not a parameter, which may be None."""
    parameters = {a.arg for a in ast.walk(site.function.args) if isinstance(a, ast.arg)}
    for keyword in node.keywords:
        if keyword.arg == "generator":
            value = keyword.value
            return not isinstance(value, ast.Constant) and not (isinstance(value, ast.Name) and value.id in parameters)
    return False


def _has_from(node: ast.Call) -> bool:
    return any(
        isinstance(key, ast.Constant) and key.value == "from"
        for keyword in node.keywords
        if keyword.arg is None and isinstance(keyword.value, ast.Dict)
        for key in keyword.value.keys
    )


def _is_copied(context: Context, node: ast.expr, *, deep: bool) -> bool:
    value = context.value(node)
    if value.kind in (Kind.TENSOR, Kind.MODULE):
        return True
    if deep:
        return any(item.kind in (Kind.TENSOR, Kind.MODULE) for item in value.items or ())
    return value.kind in (Kind.LIST, Kind.DICT)


def _comes_in(context: Context, site: Site, node: ast.Call) -> bool:
    """Whether the receiver is a parameter of the compiled function itself that nothing in it assigns."""
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(receiver, ast.Name) or not context.is_entry(site.function):
        return False
    names = [inner for inner in ast.walk(site.function) if isinstance(inner, ast.Name) and inner.id == receiver.id]
    parameters = {a.arg for a in ast.walk(site.function.args) if isinstance(a, ast.arg)}
    return receiver.id in parameters and all(isinstance(name.ctx, ast.Load) for name in names)


def _is_constant(node: ast.expr) -> bool:
    """Whether the text handed to `eval` is not written out, or names nothing: Dynamo folds that."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return True
    try:
        tree = ast.parse(node.value.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return True
    return not any(isinstance(inner, (ast.Name, ast.Call)) for inner in ast.walk(tree))


def _is_caught(context: Context, node: ast.Call) -> bool:
    """Whether an exception is raised, and in a `try` of the same function: elsewhere raising ends the compiled code anyhow."""
    parent = context.parent(node)
    inside = isinstance(parent, ast.Raise)
    while inside and parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if isinstance(parent, ast.Try) and parent.handlers:
            return True
        parent = context.parent(parent)
    return False
