"""The hooks, run by pre-commit itself on a scratch repository."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NO_INDEX = (
    "No matching distribution found",
    "Could not find a version",
    "Temporary failure in name resolution",
    "Network is",
)

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pre_commit") is None, reason="pre-commit is not installed")


def pre_commit(cwd: Path, *args: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *args]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "PRE_COMMIT_HOME": str(home)}
    )
    said = done.stdout + done.stderr
    if any(reason in said for reason in NO_INDEX):
        pytest.skip("pre-commit cannot build an environment: no package index")
    return done


def test_manifest_is_valid(tmp_path: Path) -> None:
    done = pre_commit(ROOT, "validate-manifest", ".pre-commit-hooks.yaml", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """This project as it is on disk, to be a repository of its own."""
    copy = tmp_path / "hooks"
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "tests", "benchmarks", "shared")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def commit(repository: Path) -> str:
    """Make a repository of a folder; gives back the commit."""
    for args in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *args], cwd=repository, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout


def test_hooks_check_and_fix_without_torch(hooks: Path, tmp_path: Path) -> None:
    scratch, home, case = tmp_path / "scratch", tmp_path / "home", ROOT / "tests/fixtures/item_read/same_dtype"
    (scratch / "build").mkdir(parents=True)
    (scratch / "plain.py").write_text("x = 1\n")
    (scratch / "build/broken.py").write_text("import torch\ndef step(:\n")
    shutil.copy(case / "before.py", scratch / "model.py")
    config = f"repos:\n- repo: {hooks}\n  rev: {commit(hooks)}  hooks: [{{id: gbfix-check}}, {{id: gbfix}}]\n"
    (scratch / ".pre-commit-config.yaml").write_text(config)
    commit(scratch)

    def run(hook: str, *files: str) -> subprocess.CompletedProcess[str]:
        return pre_commit(scratch, "run", hook, *(["--files", *files] if files else ["--all-files"]), home=home)

    # The folder is left out by default, and stays so although pre-commit names its file.
    passed = run("gbfix-check", "plain.py", "build/broken.py")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    checked = run("gbfix-check")
    assert (checked.returncode, "\n--- a/model.py\n+++ b/model.py\n" in checked.stdout) == (1, True), checked.stdout
    assert (scratch / "model.py").read_bytes() == (case / "before.py").read_bytes()
    fixed = run("gbfix")
    assert (fixed.returncode, "files were modified by this hook" in fixed.stdout) == (1, True), fixed.stdout
    assert (scratch / "model.py").read_bytes() == (case / "after.py").read_bytes()
    assert run("gbfix").returncode == 0
    packages = [path.name for folder in home.rglob("site-packages") for path in folder.iterdir()]
    assert "libcst" in packages
    assert "torch" not in packages
