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
    """This project as a repository of its own, so that try-repo sees it as it is on disk."""
    copy = tmp_path / "hooks"
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "tests", "benchmarks", "shared")
    shutil.copytree(ROOT, copy, ignore=ignored)
    commit(copy)
    return copy


def commit(repository: Path) -> None:
    for args in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *args], cwd=repository, check=True)


def test_hooks_fix_and_check_without_torch(hooks: Path, tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    (scratch / "plain.py").write_text("x = 1\n")
    (scratch / "broken.py").write_text("import torch\ndef step(:\n")
    (scratch / "build").mkdir()
    (scratch / "build/broken.py").write_text("import torch\ndef step(:\n")
    commit(scratch)
    for hook in ("gbfix", "gbfix-check"):
        run = ["try-repo", str(hooks), hook, "--verbose", "--files"]
        passed = pre_commit(scratch, *run, "plain.py", "build/broken.py", home=home)
        assert passed.returncode == 0, passed.stdout + passed.stderr
        failed = pre_commit(scratch, *run, "plain.py", "broken.py", home=home)
        assert failed.returncode == 1, failed.stdout + failed.stderr
        assert "exit code: 1" in failed.stdout
        assert "broken.py:2:" in failed.stdout
        assert "build/broken.py" not in failed.stdout
    packages = [path.name for path in home.rglob("site-packages/*")]
    assert "libcst" in packages
    assert "torch" not in packages
