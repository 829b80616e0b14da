"""Odd names, closed streams, full disks, busy folders: the run comes to its end all the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents import read_metadata

pytestmark = pytest.mark.robustness
FILES = (
    *("config.toml", "metrics.csv", "result.json", "curve.png", "episode.gif"),
    "policy.safetensors",
)
NAMES = ("o[1]", "a[/b]", "a\nb", "caf\udce9", "日本", "*?{}", " ")


def finish(process) -> tuple[str, str]:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out or "", error or ""


def check_complete(folder: Path) -> None:
    assert all((folder / name).stat().st_size > 0 for name in FILES)
    assert read_metadata(folder / "checkpoints" / "last.safetensors")["env_steps"] == 512
    assert read_metadata(folder / "checkpoints" / "best.safetensors")["chosen_by"] >= 0
    assert not list(folder.rglob("*.partial"))


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_any_name_of_a_folder_will_do(begin, tmp_path, name):
    _, error = finish(begin("--total-steps", "512", "--out", name))
    assert error == ""
    check_complete(tmp_path / name)


def test_any_working_folder_will_do(begin, tmp_path):
    (tmp_path / "[proj]").mkdir()
    finish(begin("--total-steps", "512", cwd=tmp_path / "[proj]"))
    (folder,) = (tmp_path / "[proj]" / "runs").iterdir()
    check_complete(folder)


def test_a_kitchen_may_have_any_name(begin, tmp_path):
    (tmp_path / "台所[b].layout").write_text("XXPXX\nO12 O\nXDXSX\n")
    args = ["--env.layout", "台所[b].layout", "--total-steps", "512", "--out", "run"]
    _, error = finish(begin(*args, env={"HOME": "/nonexistent", "MPLCONFIGDIR": ""}))
    assert error == "", "no library speaks"
    check_complete(tmp_path / "run")


@pytest.mark.parametrize("closed", ["<&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_closed_streams_end_nothing(programs, tmp_path, closed):
    from conftest import ROOT, SMALL  # noqa: PLC0415

    script = ROOT / "experiments" / "ippo.py"
    command = f'"{sys.executable}" "{script}" {" ".join(SMALL)} --total-steps 512 --out run'
    done = subprocess.run(
        ["bash", "-c", f"{command} {closed}"],
        cwd=tmp_path,
        env=programs,
        capture_output=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    check_complete(tmp_path / "run")


def test_a_reader_that_leaves_ends_nothing(begin, tmp_path):
    process = begin("--total-steps", "512", "--out", "run")
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    finish(process)
    check_complete(tmp_path / "run")


def test_ascii_is_enough(begin, tmp_path):
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, _ = finish(begin("--total-steps", "512", "--out", "日本", env=env))
    assert "\\u65e5\\u672c" in out
    check_complete(tmp_path / "日本")


def test_runs_that_start_in_one_second_have_folders_of_their_own(begin, tmp_path):
    processes = [begin("--total-steps", "512") for _ in range(3)]
    for process in processes:
        finish(process)
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 3
    for folder in folders:
        check_complete(folder)


def test_a_kitchen_without_a_pot_is_named(begin, tmp_path):
    (tmp_path / "mine.layout").write_text("XXXXX\nO12 O\nXDXSX\n")
    args = ["--env.layout", "mine.layout", "--total-steps", "512", "--out", "run"]
    _, error = finish(begin(*args))
    assert error.startswith("warning: No soup can be delivered: the cooks cannot reach a pot.")
    assert error.count("\n") == 1
    check_complete(tmp_path / "run")


def test_what_needs_too_much_memory_is_one_sentence(begin, tmp_path):
    process = begin("--total-steps", "512", "--out", "run", "--width=65536")
    _, error = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "GB of memory" in error
    assert "--num-envs" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("variable", ["JAX_ENABLE_X64=1", "MPLBACKEND=nonsense", "TERM=dumb"])
def test_settings_of_the_surroundings_end_nothing(begin, tmp_path, variable):
    _, error = finish(begin("--total-steps", "512", "--out", "run", env=[variable.split("=")]))
    assert error == ""
    check_complete(tmp_path / "run")


@pytest.mark.parametrize("variable", ["JAX_PLATFORMS=nonsense", "JAX_ENABLE_X64=maybe"])
def test_what_a_library_does_not_like_is_one_sentence(begin, tmp_path, variable):
    process = begin("--total-steps", "512", "--out", "run", env=[variable.split("=")])
    _, error = process.communicate(timeout=100)
    assert process.returncode == 1
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_runs_that_lead_nowhere_are_one_sentence(begin, tmp_path):
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere" / "deep")
    process = begin("--total-steps", "512")
    _, error = process.communicate(timeout=100)
    assert process.returncode == 1
    assert error == "error: The folder 'runs' cannot be written: File exists.\n"


def test_a_folder_that_vanishes_comes_back(begin, tmp_path):
    process = begin("--total-steps", "100000000", "--out", "run")
    log = tmp_path / "run" / "metrics.csv"
    deadline = time.monotonic() + 100
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    time.sleep(7)  # until the next checkpoint makes a folder again
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert b"\0" not in log.read_bytes()
    assert log.read_text().startswith("update,env_steps,")
    for name in FILES:
        assert (tmp_path / "run" / name).exists()


def test_a_signal_at_the_end_is_told(begin, tmp_path):
    process = begin("--total-steps", "512", "--out", "run", "--final-episodes", "40000")
    for line in process.stdout:
        if "final evaluation" in line:
            break
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143
    assert error == ""
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert 4 <= result["eval_episodes"] < 40000
    assert not (tmp_path / "run" / "episode.gif").exists()


KIBIBYTES = (16, 64, 200, 300, 400, 560, 600, 700)


@pytest.mark.parametrize("size", KIBIBYTES)
def test_a_full_disk_fails_file_by_file(programs, what_is_left, tmp_path, size):
    """On a small file system of its own: a file of 274 kB for each of two checkpoints, and one more
    while it is written; a policy of 90 kB, and pictures of 29 and 82 kB.
    """
    from conftest import ROOT, SMALL  # noqa: PLC0415

    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size={size}k tmpfs {disk} || exit 99
        {sys.executable} {ROOT}/experiments/ippo.py {" ".join(SMALL)} --total-steps 512 \
            --out {disk}/run
        code=$?
        cp -r {disk} {kept}
        exit $code"""
    unshare = [] if os.geteuid() == 0 and shutil.which("unshare") is None else ["unshare", "-rm"]
    done = subprocess.run(
        [*unshare, "bash", "-c", script],
        env=programs,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("small file systems are not permitted here")
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    for line in done.stderr.splitlines():
        assert line.startswith(("error: ", "warning: "))
        assert "cannot be written: No space left on device" in line
        assert str(disk) in line
    what_is_left(kept / "run", newest=False)
    failed = {Path(x.split("'")[1]).name for x in done.stderr.splitlines() if x[:5] == "error"}
    there = {path.name for path in (kept / "run").rglob("*") if path.is_file()}
    assert failed
    # A checkpoint that cannot be replaced stays as it was.
    assert failed & there <= {"best.safetensors", "last.safetensors"}
    assert failed | there == {*FILES, "best.safetensors", "last.safetensors"}
    assert json.loads((kept / "run" / "result.json").read_text())["env_steps"] == 512
