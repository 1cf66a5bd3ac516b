"""Start a child by path: make this folder a private package, so that no name of ours meets a name of the user's."""

from __future__ import annotations

import importlib
import os
import sys
import types

PACKAGE = "_gbfix_verify"


def main() -> None:
    """Serve requests on the socket whose number is the first argument."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # `python worker.py` put this folder first on sys.path: `import inputs` in user code would find ours.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    importlib.import_module(f"{PACKAGE}.serve").main(int(sys.argv[1]))


if __name__ == "__main__":
    main()
