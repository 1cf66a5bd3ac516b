"""Where settings come from, and what is said of wrong ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gbfix.config import Config, Settings, show
from gbfix.errors import GbfixError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(os.path.realpath(tmp_path))
    monkeypatch.chdir(root)
    return root


def test_defaults(root: Path) -> None:
    assert Config().at(str(root)) == Settings(root=str(root))


def test_nearest_file_holds_and_is_not_merged(root: Path) -> None:
    (root / "pyproject.toml").write_text('[tool.gbfix]\nselect = ["GBF1"]\nignore = ["GBF101"]\n')
    (root / "sub/deep").mkdir(parents=True)
    (root / "sub/pyproject.toml").write_text('[tool.gbfix]\nselect = ["GBF2"]\n')
    (root / "sub/deep/pyproject.toml").write_text("[tool.other]\n")
    config = Config()
    assert config.at(str(root)).select == ("GBF1",)
    deep = config.at(str(root / "sub/deep"))
    assert (deep.select, deep.ignore, deep.origin, deep.root) == (
        ("GBF2",),
        (),
        "sub/pyproject.toml",
        str(root / "sub"),
    )


@pytest.mark.parametrize("name", ["gbfix.toml", ".gbfix.toml"])
def test_own_file_goes_before_pyproject(root: Path, name: str) -> None:
    (root / "pyproject.toml").write_text('[tool.gbfix]\nselect = ["GBF1"]\n')
    (root / name).write_text('select = ["GBF2"]\n')
    assert Config().at(str(root)).select == ("GBF2",)
    assert Config(isolated=True).at(str(root)).select == ("ALL",)


def test_every_key(root: Path) -> None:
    text = """
select = ["GBF1"]
ignore = ["GBF101"]
extend-select = ["GB0170"]
unsafe-fixes = true
assume-compiled = true
entry-points = ["pkg.mod:Model.step"]
exclude = ["a"]
extend-exclude = ["b"]
respect-gitignore = false
output-format = "json"
entry = "m.py:build"
inputs = "m.py:inputs"
verify-timeout-s = 30
[per-file-ignores]
"tests/**" = ["GBF301"]
"""
    (root / "gbfix.toml").write_text(text)
    settings = Config().at(str(root))
    assert settings == Settings(
        str(root), "gbfix.toml", ("GBF1",), ("GBF101",), ("GB0170",), True, True, ("pkg.mod:Model.step",), ("a",), ("b",), False,
        "json", (("tests/**", ("GBF301",)),), "m.py:build", "m.py:inputs", 30.0,
    )  # fmt: skip
    assert settings.ignored_for(str(root / "tests/deep/a.py")) == ("GBF101", "GBF301")
    assert settings.ignored_for(str(root / "src/a.py")) == ("GBF101",)
    assert set(show(settings)) == {
        line.split(" = ")[0] for line in text.splitlines() if " = " in line and '"tests' not in line
    } | {"per-file-ignores"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.gbfix]\nslect = []\n", "pyproject.toml: unknown key tool.gbfix.slect; did you mean select?"),
        ("[tool.gbfix]\nzzz = []\n", "pyproject.toml: unknown key tool.gbfix.zzz"),
        (
            '[tool.gbfix]\nselect = "GBF1"\n',
            "pyproject.toml: tool.gbfix.select must be a list of strings, not 'GBF1'",
        ),
        ("[tool.gbfix]\nunsafe-fixes = 1\n", "pyproject.toml: tool.gbfix.unsafe-fixes must be true or false, not 1"),
        (
            '[tool.gbfix]\noutput-format = "xml"\n',
            "pyproject.toml: tool.gbfix.output-format must be one of full, concise, json, rdjson, github, not 'xml'",
        ),
        (
            "[tool.gbfix]\nverify-timeout-s = 0\n",
            "pyproject.toml: tool.gbfix.verify-timeout-s must be a number of seconds above 0, not 0",
        ),
        (
            '[tool.gbfix]\nentry-points = ["f()"]\n',
            'pyproject.toml: tool.gbfix.entry-points must be a list of functions, such as "pkg.mod:func" or "Class.method", '
            "not ['f()']",
        ),
        ("[tool.gbfix]\nentry = 3\n", "pyproject.toml: tool.gbfix.entry must be a string, not 3"),
        (
            "[tool.gbfix]\nper-file-ignores = []\n",
            "pyproject.toml: tool.gbfix.per-file-ignores must be a table of pattern = [codes], not []",
        ),
        ("[tool]\ngbfix = 1\n", "pyproject.toml: tool.gbfix must be a table, not 1"),
        ("[tool.gbfix\n", "pyproject.toml: not valid TOML: "),
    ],
)
def test_wrong_settings_say_what_is_wrong(root: Path, text: str, message: str) -> None:
    (root / "pyproject.toml").write_text(text)
    with pytest.raises(GbfixError) as caught:
        Config().at(str(root))
    assert str(caught.value).startswith(message)
    if "TOML" not in message:
        assert str(caught.value) == message


def test_own_file_names_keys_without_a_table(root: Path) -> None:
    (root / "gbfix.toml").write_text("ingore = []\n")
    with pytest.raises(GbfixError, match=r"^gbfix.toml: unknown key ingore; did you mean ignore\?$"):
        Config().at(str(root))


def test_command_line_goes_on_top(root: Path) -> None:
    (root / "gbfix.toml").write_text('select = ["GBF1"]\nextend-select = ["GBF2"]\nignore = ["GBF3"]\n')
    config = Config(('ignore = ["GBF9"]', "unsafe-fixes = true"), {"select": ("GBF4",), "extend_select": ("GBF5",)})
    settings = config.at(str(root))
    assert (settings.select, settings.extend_select) == (("GBF4",), ("GBF2", "GBF5"))
    assert (settings.ignore, settings.unsafe_fixes) == (("GBF9",), True)


def test_config_file_given(root: Path) -> None:
    (root / "gbfix.toml").write_text('select = ["GBF1"]\n')
    (root / "other.toml").write_text('select = ["GBF2"]\n')
    assert Config(("other.toml",)).at(str(root)).select == ("GBF2",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.toml", "--config: 'nowhere.toml' is neither a file nor `key = value`"),
        ("slect = []", "--config: unknown key slect; did you mean select?"),
        ("select = [", "--config: not valid TOML: "),
    ],
)
def test_wrong_config_option(root: Path, text: str, message: str) -> None:
    with pytest.raises(GbfixError) as caught:
        Config((text,))
    assert str(caught.value).startswith(message)
