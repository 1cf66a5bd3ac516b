"""What a name means through a module's imports: `th.where` is `torch.where`."""

from __future__ import annotations

import ast


class Names:
    """The import aliases of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.aliases: dict[str, str] = {}
        self.top: set[str] = set()
        self._body(tree.body)
        for node in tree.body:
            self.top |= _bound(node)

    def _body(self, body: list[ast.stmt]) -> None:
        for node in body:
            self.add(node)
            for part in ("body", "orelse", "finalbody"):
                if isinstance(node, (ast.If, ast.Try, ast.With)):
                    self._body(getattr(node, part, []))
            for handler in getattr(node, "handlers", ()):
                self._body(handler.body)

    def add(self, node: ast.stmt) -> None:
        """Take in an import statement; one inside a function counts once the function is looked at."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                self.aliases[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                separator = "" if module.endswith(".") else "."
                self.aliases[alias.asname or alias.name] = f"{module}{separator}{alias.name}"

    def dotted(self, node: ast.AST) -> str | None:
        """The dotted name of a name or attribute through the imports; None for anything else or a name not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self.aliases.get(node.id)
        if root is None:
            return None
        name = ".".join([root, *reversed(parts)])
        return "torch.nn.functional" + name[len("torch.functional") :] if name.startswith("torch.functional.") else name

    def spelled(self, name: str) -> str | None:
        """How the module can write a dotted name, with what it imports: the shortest spelling, `torch.` style preferred."""
        found = []
        for alias, full in self.aliases.items():
            if alias not in self.top:
                continue
            if name == full:
                found.append(alias)
            elif name.startswith(full + ".") and full == "torch":
                found.append(alias + name[len(full) :])
        return max(found, key=lambda spelling: (spelling.count("."), spelling)) if found else None


def _bound(node: ast.stmt) -> set[str]:
    """Names that a top-level statement imports, also inside `try`; not those under TYPE_CHECKING."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.Try):
        return set().union(*(_bound(child) for child in node.body))
    return set()
