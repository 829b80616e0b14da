"""Odd names, full disks, folders that vanish: the run comes to its end all the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import check_refusal

from agents import read_metadata

pytestmark = pytest.mark.robustness
FILES = (
    *("config.toml", "metrics.csv", "result.json", "curve.png", "episode.gif"),
    "policy.safetensors",
)
NAMES = ("o[1]", "a[/b]", "a\nb", "日本", "*?{}", " ")


def finish(process) -> tuple[str, str]:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out or "", error or ""


def refusal(process) -> str:
    """The sentence with which a run ends."""
    _, error = process.communicate(timeout=300)
    check_refusal((process.returncode, error), "", codes=(1,))
    return error


def check_complete(folder: Path) -> None:
    assert all((folder / name).stat().st_size > 0 for name in FILES)
    assert read_metadata(folder / "checkpoints" / "last.safetensors")["env_steps"] == 512
    assert read_metadata(folder / "checkpoints" / "best.safetensors")["eval_return_mean"] >= 0
    assert not list(folder.rglob("*.partial"))


def test_any_name_of_a_folder_will_do(run_all, tmp_path):
    (tmp_path / "[proj]").mkdir()
    lines = [(tmp_path, ["--total-steps", "512", "--out", name]) for name in NAMES]
    done = run_all([*lines, (tmp_path / "[proj]", ["--total-steps", "512"])], around=[])
    assert done.returncode == 0, done.stderr
    for said in json.loads(done.stdout):
        assert (said["code"], said["error"]) == (0, "")
    (chosen,) = (tmp_path / "[proj]" / "runs").iterdir()
    for folder in (*(tmp_path / name for name in NAMES), chosen):
        check_complete(folder)


def test_a_name_that_is_no_text_will_do(begin, tmp_path):
    _, error = finish(begin("--total-steps", "512", "--out", "caf\udce9"))
    assert error == ""
    check_complete(tmp_path / "caf\udce9")


def test_a_kitchen_may_have_any_name(begin, tmp_path):
    (tmp_path / "Küche[b].layout").write_text("XXPXX\nO  1O\nX2  X\nXDXSX\n")
    args = ["--env.layout", "Küche[b].layout", "--total-steps", "512", "--out", "run"]
    _, error = finish(begin(*args, env={"HOME": "/nonexistent", "MPLCONFIGDIR": ""}))
    assert error == "", "no library speaks"
    check_complete(tmp_path / "run")


def test_ascii_is_enough(begin, tmp_path):
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, _ = finish(begin("--total-steps", "512", "--out", "日本", env=env))
    assert "\\u65e5\\u672c" in out
    check_complete(tmp_path / "日本")


def test_what_needs_too_much_memory_is_one_sentence(begin, tmp_path):
    error = refusal(begin("--total-steps", "512", "--out", "run", "--width=65536"))
    assert "GB of memory" in error
    assert "--num-envs" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("variable", ["JAX_ENABLE_X64=1", "MPLBACKEND=nonsense", "TERM=dumb"])
def test_settings_of_the_surroundings_end_nothing(begin, own_caches, tmp_path, variable):
    env = [variable.split("="), ("XLA_FLAGS", own_caches["XLA_FLAGS"])]
    _, error = finish(begin("--total-steps", "512", "--out", "run", env=env))
    assert error == ""
    check_complete(tmp_path / "run")


def test_a_folder_that_vanishes_comes_back(begin, tmp_path):
    process = begin("--total-steps", "100000000", "--out", "run")
    log = tmp_path / "run" / "metrics.csv"
    deadline = time.monotonic() + 300
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    time.sleep(7)  # until the next checkpoint makes a folder again
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert b"\0" not in log.read_bytes()
    assert log.read_text().startswith("seed,update,env_steps,")
    for name in FILES:
        assert (tmp_path / "run" / name).exists()


def test_a_signal_at_the_end_leaves_the_rest_to_a_resume(begin, tmp_path):
    more = ("--total-steps", "512", "--out", "run", "--env.horizon", "4000", "--eval-every", "512")
    process = begin(*more, "--eval-episodes", "400")  # the final evaluation would take a minute
    for line in process.stdout:
        if "final evaluation" in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (143, "")
    assert out.endswith(" --out run --resume\n")
    assert out.count("to continue: ") == 1
    left = {path.name for path in (tmp_path / "run").iterdir()} - {"run.lock"}
    assert left == {"config.toml", "metrics.csv", "checkpoints"}
    finish(begin(*more, "--resume-changed", "--resume"))
    check_complete(tmp_path / "run")


def test_a_folder_that_cannot_be_made_is_one_sentence(begin, tmp_path):
    (tmp_path / "file").write_text("")
    error = refusal(begin("--total-steps", "512", "--out", "file/run"))
    assert error == "error: The folder 'file/run' cannot be written: Not a directory.\n"


KIBIBYTES = (16, 64, 200, 300, 400, 560, 600, 700)


ON_SMALL_DISKS = """
for size in {sizes}; do
    mkdir -p disks/$size
    mount -t tmpfs -o size=${{size}}k tmpfs disks/$size || exit 99
done
"$@"
code=$?
cp -r disks kept
exit $code
"""


def on_small_disks(*kibibytes: int) -> list[str]:
    """A command that runs another one beside small file systems in `disks`, copied to `kept`."""
    unshare = [] if os.geteuid() == 0 and shutil.which("unshare") is None else ["unshare", "-rm"]
    script = ON_SMALL_DISKS.format(sizes=" ".join(map(str, kibibytes)))
    return [*unshare, "bash", "-c", script, "bash"]


def skip_without_disks(done: subprocess.CompletedProcess) -> None:
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("small file systems are not permitted here")


def test_a_full_disk_fails_file_by_file(run_all, what_is_left, tmp_path, monkeypatch):
    """On small file systems of their own: a file of 274 kB for each of two checkpoints, and one
    more while it is written; a policy of 90 kB, and pictures of 29 and 82 kB.
    """
    monkeypatch.chdir(tmp_path)
    disks = [tmp_path / "disks" / str(size) for size in KIBIBYTES]
    lines = [(tmp_path, ["--total-steps", "512", "--out", str(disk / "run")]) for disk in disks]
    done = run_all(lines, around=on_small_disks(*KIBIBYTES))
    skip_without_disks(done)
    assert done.returncode == 0, done.stderr
    for disk, said in zip(disks, json.loads(done.stdout), strict=True):
        assert said["code"] == 1
        kept = tmp_path / "kept" / disk.name / "run"
        what_is_left(kept)
        check_full_disk(kept, disk, said["error"])


def test_a_full_disk_keeps_the_numbers_of_an_evaluation(programs, tmp_path):
    """There is room for the numbers, and not for the video."""
    from conftest import ROOT  # noqa: PLC0415

    policy = ROOT / "experiments" / "policies" / "cramped.safetensors"
    evaluate = [str(Path(sys.executable).with_name("eqgrid")), "evaluate", str(policy)]
    done = subprocess.run(
        [*on_small_disks(4), *evaluate, "--episodes", "4", "--out", "disks/4/out"],
        cwd=tmp_path,
        env=programs,
        capture_output=True,
        text=True,
        timeout=300,
    )
    skip_without_disks(done)
    assert done.returncode == 1
    assert done.stderr == "error: 'disks/4/out/episode.gif': No space left on device.\n"
    assert "±" in done.stdout
    (kept,) = (tmp_path / "kept" / "4" / "out").glob("*.*")
    assert json.loads(kept.read_text())["episodes"] == 4


def check_full_disk(kept: Path, disk: Path, error: str) -> None:
    """Of a run on this disk, whose folder was copied, what is missing was said to be missing."""
    for line in error.splitlines():
        assert line.startswith(("error: ", "warning: "))
        assert "cannot be written: No space left on device" in line
        assert str(disk) in line
    failed = {Path(x.split("'")[1]).name for x in error.splitlines() if x[:5] == "error"}
    there = {path.name for path in kept.rglob("*") if path.is_file()}
    assert failed, disk
    # A checkpoint that cannot be replaced stays as it was.
    assert failed & there <= {"best.safetensors", "last.safetensors"}
    assert failed | there == {*FILES, "best.safetensors", "last.safetensors"}
    assert json.loads((kept / "result.json").read_text())["env_steps"] == 512
