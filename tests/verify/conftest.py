"""One set of child processes for all tests of verification: importing torch is what takes the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pairs import Judge

from gbfix.verify.judgement import Verification
from gbfix.verify.session import Session
from gbfix.verify.verdict import VerifyReport


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """Processes that share one import of torch, with one thread each."""
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with Session() as started:
            yield started


@pytest.fixture
def judge(session: Session, tmp_path: Path) -> Judge:
    """Write files and judge their rewrite: `judge({"model.py": before}, {"model.py": after})`."""

    def run(
        before: dict[str, bytes],
        after: dict[str, bytes],
        *,
        entry: str = "model.py",
        inputs: str | None = None,
        timeout_s: float = 60,
        time: bool = False,
        soft_output: bool = False,
        others: dict[str, bytes] | None = None,
    ) -> VerifyReport:
        for name, source in {**before, **(others or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
        originals = {str(tmp_path / name): source for name, source in before.items()}
        rewritten = {str(tmp_path / name): source for name, source in after.items()}
        entry = str(tmp_path / entry) if entry.partition(":")[0].endswith(".py") else entry
        verification = Verification(session, originals, entry, inputs, timeout_s, lambda message: None)
        report = verification.judge(rewritten, time=time, soft_output=soft_output)
        for side in session.sides:
            side.close()
        session.sides.clear()
        return report

    return run
