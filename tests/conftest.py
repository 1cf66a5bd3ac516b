"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--regen` rewrites golden files; the tests that did so fail once, so that the diff is read."""
    parser.addoption("--regen", action="store_true", help="write golden files, then fail once")


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--regen"))
