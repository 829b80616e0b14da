"""Every bad input is one sentence and an exit code, and leaves no trace."""

import pytest
from bad_inputs import LAYOUTS, SETTINGS, flags
from command_lines import call, check_refusal

pytestmark = pytest.mark.robustness


@pytest.fixture
def refusal(monkeypatch, capsys, tmp_path):
    """Runs the program in an empty folder, where it must print one line and write nothing."""

    def run(args: list[str]) -> tuple[int, str]:
        before = sorted(tmp_path.rglob("*"))
        code = call(*args)
        said = capsys.readouterr()
        check_refusal((code, said.err), "")
        assert said.out == ""
        assert sorted(tmp_path.rglob("*")) == before
        return code, said.err

    monkeypatch.chdir(tmp_path)
    return run


@pytest.mark.parametrize("args", flags().values(), ids=flags())
def test_flags(refusal, args):
    code, said = refusal(args)
    assert code == 2
    assert args[0] in said or args[-1][:20] in said


@pytest.mark.parametrize("content", SETTINGS.values(), ids=SETTINGS)
def test_settings_files(refusal, tmp_path, content):
    (tmp_path / "settings.toml").write_bytes(content)
    code, said = refusal(["--config", "settings.toml"])
    assert code == 2
    assert "settings.toml" in said


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_files(refusal, tmp_path, content):
    (tmp_path / "kitchen.layout").write_bytes(content)
    code, said = refusal(["--env.layout", "kitchen.layout"])
    assert code == 2
    assert "kitchen.layout" in said


@pytest.mark.parametrize(
    ("name", "most"), [("kitchen.layout", "100,000"), ("settings.toml", "1,000,000")]
)
def test_files_of_five_gigabytes_are_not_read(refusal, tmp_path, name, most):
    with (tmp_path / name).open("wb") as file:
        file.truncate(5 * 2**30)
    flag = "--env.layout" if name == "kitchen.layout" else "--config"
    code, said = refusal([flag, name])
    assert code == 2
    assert f"{most} bytes" in said
