"""Import user code with some files replaced by given bytes, writing nothing."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import CodeType, ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))


class LoadError(Exception):
    """User code that cannot be used as asked: one sentence, and the place as `path:line` where there is one."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """Compile the bytes of the overlay instead of those on disk; no bytecode is read or written."""

    def __init__(self, name: str, path: str, overlay: Overlay) -> None:
        super().__init__(name, path)
        self.overlay = overlay

    def get_data(self, path: str) -> bytes:
        """The overlaid bytes of the module's own file."""
        source = self.overlay.files.get(os.path.realpath(path))
        return super().get_data(path) if source is None else source

    def get_code(self, fullname: str) -> CodeType:
        """The code of the overlaid bytes."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self.overlay.served.add(os.path.realpath(path))
        # An entry without a time is never checked against the file: tracebacks and inspect.getsource see our text.
        lines = importlib.util.decode_source(source).splitlines(keepends=True)
        linecache.cache[path] = (len(source), None, lines, path)
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
        return code


class Overlay(importlib.abc.MetaPathFinder):
    """A finder that asks the other finders and replaces the loader of overlaid files.

    `files` maps real paths to bytes; `served` are those imported so far.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = {os.path.realpath(path): source for path, source in files.items()}
        self.served: set[str] = set()

    def install(self) -> None:
        """Put the finder first; an overlaid file that is already imported is an error."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and os.path.realpath(path) in self.files:
                raise LoadError(f"module {name} is part of what gbfix itself needs; it cannot be verified")
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with our loader where the file is overlaid."""
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return self.replaced(spec)
        return None

    def replaced(self, spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
        """The spec itself, with our loader if its file is overlaid."""
        if spec.has_location and spec.origin and os.path.realpath(spec.origin) in self.files:
            spec.loader = OverlayLoader(spec.name, spec.origin, self)
        return spec


def split(reference: str, default: str) -> tuple[str, str]:
    """`FILE_OR_MODULE:CALLABLE` as a pair; without a callable, the default."""
    place, colon, name = reference.rpartition(":")
    return (place, name) if colon and name.isidentifier() else (reference, default)


def is_file(place: str) -> bool:
    """Whether the place names a file and not a module."""
    return place.endswith(".py") or os.sep in place or os.path.isfile(place)


def import_place(overlay: Overlay, place: str, private_name: str) -> ModuleType:
    """The module at a file or of a name, imported as `python FILE` or `python -m NAME` would find its neighbours."""
    if not is_file(place):
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    path = os.path.realpath(place)
    if path not in overlay.files and not os.path.isfile(path):
        raise LoadError(f"{place} does not exist")
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    names = [] if stem == "__init__" else [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        names.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if folder != os.path.dirname(path):
        return importlib.import_module(".".join(names))
    spec = importlib.util.spec_from_file_location(private_name, path)
    assert spec is not None
    spec = overlay.replaced(spec)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[private_name] = module
    spec.loader.exec_module(module)
    return module


def find(overlay: Overlay, reference: str, default: str, private_name: str) -> tuple[ModuleType, object]:
    """The module and the attribute that `FILE_OR_MODULE:CALLABLE` names; whatever goes wrong is a LoadError."""
    place, name = split(reference, default)
    try:
        module = import_place(overlay, place, private_name)
    except LoadError:
        raise
    except BaseException as error:
        raise LoadError(f"importing {place} {told(error)}", where(error)) from None
    if not hasattr(module, name):
        raise LoadError(f"{place} has no {name}; define {name}() there or name another with FILE:CALLABLE")
    return module, getattr(module, name)


def told(error: BaseException) -> str:
    """What an exception was, as the end of a sentence."""
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code!r})"
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def where(error: BaseException) -> str:
    """The innermost place in user code that an exception went through, as `path:line`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        inside = os.path.abspath(frame.filename)
        ours = inside.startswith(HERE) or f"{os.sep}torch{os.sep}" in inside
        if not ours and not frame.filename.startswith("<"):
            return f"{frame.filename}:{frame.lineno}"
    return ""
