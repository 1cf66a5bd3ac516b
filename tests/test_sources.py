"""Which files a run takes, and that they are read and written whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gbfix import sources
from gbfix.errors import GbfixError
from gbfix.sources import Filter


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(os.path.realpath(tmp_path))
    monkeypatch.chdir(root)
    sources._repository.cache_clear()
    sources._ignore_file.cache_clear()
    return root


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n")


def found(*paths: str, force: bool = False, **more: object) -> list[str]:
    chosen = Filter(os.path.realpath("."), **more)  # type: ignore[arg-type]
    return [sources.display(path) for path in sources.find(paths or (".",), lambda _: chosen, force).files]


def test_walk_takes_python_files_in_stable_order(tree: Path) -> None:
    put(tree, "b.py", "a/z.py", "a/b.py", "a.py", "a/c.pyi", "a/d.txt", "script")
    assert found() == ["a/b.py", "a/z.py", "a.py", "b.py"]
    assert found("b.py", "a", ".") == found()


def test_default_excludes_are_left_out(tree: Path) -> None:
    put(tree, "a.py", *(f"{name}/x.py" for name in sources.DEFAULT_EXCLUDE))
    assert found() == ["a.py"]


def test_named_folder_is_entered_even_if_excluded(tree: Path) -> None:
    put(tree, "build/x.py", "ignored/y.py")
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("ignored/\n")
    assert found() == []
    assert found("build", "ignored") == ["build/x.py", "ignored/y.py"]


def test_exclude_patterns_are_relative_to_the_root(tree: Path) -> None:
    put(tree, "a/gen.py", "gen.py", "b/x.py")
    assert found(exclude=("/gen.py", "b")) == ["a/gen.py"]


def test_gitignore_nests_and_nearest_decides(tree: Path) -> None:
    put(tree, "keep.py", "x.gen.py", "sub/x.gen.py", "sub/y.gen.py", "skipped/a.py", "sub/inner/local.py")
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("*.gen.py\nskipped/\n")
    (tree / "sub/.gitignore").write_text("!x.gen.py\nlocal.py\n")
    assert found() == ["keep.py", "sub/x.gen.py"]
    assert found("sub") == ["sub/x.gen.py"]
    assert found(gitignore=False) == [
        "keep.py", "skipped/a.py", "sub/inner/local.py", "sub/x.gen.py", "sub/y.gen.py", "x.gen.py",
    ]  # fmt: skip


def test_gitignore_counts_only_inside_a_repository(tree: Path) -> None:
    put(tree, "a.py")
    (tree / ".gitignore").write_text("a.py\n")
    assert found() == ["a.py"]


def test_gitignore_of_an_outer_repository_stops_at_an_inner_one(tree: Path) -> None:
    put(tree, "inner/a.py")
    (tree / ".git").mkdir()
    (tree / "inner/.git").mkdir()
    (tree / ".gitignore").write_text("a.py\n")
    assert found() == ["inner/a.py"]


def test_named_file_is_taken_unless_excludes_are_forced(tree: Path) -> None:
    put(tree, "build/x.py", "gen/deep/a.py", "ok.py", "script")
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("gen/\n")
    named = ("build/x.py", "gen/deep/a.py", "ok.py", "script")
    assert found(*named) == list(named)
    assert found(*named, force=True) == ["ok.py", "script"]
    assert found("build", force=True) == []


def test_symbolic_links(tree: Path) -> None:
    put(tree, "real/a.py")
    (tree / "link.py").symlink_to("real/a.py")
    (tree / "linked").symlink_to("real", target_is_directory=True)
    (tree / "real/loop").symlink_to("..", target_is_directory=True)
    assert found() == ["real/a.py"]
    assert found("link.py", "real/a.py", "linked") == ["real/a.py"]
    (tree / "dangling.py").symlink_to("nowhere.py")
    assert found() == ["real/a.py"]


def test_missing_path_is_an_error(tree: Path) -> None:
    with pytest.raises(GbfixError, match=r"^nope.py: no such file or folder$"):
        found("nope.py")


def test_notebook_is_named_as_not_supported(tree: Path) -> None:
    put(tree, "n.ipynb")
    assert sources.find(("n.ipynb",), lambda _: Filter(str(tree))).warnings == (
        "n.ipynb: notebooks are not supported; skipped",
    )
    assert sources.find((".",), lambda _: Filter(str(tree))).warnings == ()


def test_display_is_relative_only_inside_the_working_directory(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree, "a/x.py", "b/y.py")
    monkeypatch.chdir(tree / "a")
    assert found("x.py", "../b/y.py") == ["x.py", f"{tree}/b/y.py"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ("a\n", "b\n")),
        (b"a\r\nb\rc", ("a\r\n", "b\r", "c")),
        (b"\xef\xbb\xbfa\n", ("a\n",)),
        (b"# -*- coding: latin-1 -*-\n\xe9\n", ("# -*- coding: latin-1 -*-\n", "é\n")),
        (b"# coding: nonsense\n\xff", ("# coding: nonsense\n", "\ufffd")),
        ("a\x0cb\u2028c\n".encode(), ("a\x0cb\u2028c\n",)),
        (b"", ()),
    ],
)
def test_lines_are_those_that_python_counts(data: bytes, lines: tuple[str, ...]) -> None:
    assert sources.lines_of(data) == lines


def test_write_keeps_mode_and_link_and_leaves_nothing_behind(tree: Path) -> None:
    put(tree, "a.py")
    (tree / "a.py").chmod(0o755)
    (tree / "link.py").symlink_to("a.py")
    sources.write("link.py", b"new")
    assert (tree / "a.py").read_bytes() == b"new"
    assert (tree / "link.py").is_symlink()
    assert stat.S_IMODE((tree / "a.py").stat().st_mode) == 0o755
    assert sorted(os.listdir(tree)) == ["a.py", "link.py"]


def test_failed_write_leaves_the_old_text(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree, "a.py")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        sources.write("a.py", b"new")
    assert (tree / "a.py").read_text() == "import torch\n"
    assert os.listdir(tree) == ["a.py"]
