"""Remote folders: complete snapshots or none, faults of the connection, and runs that go on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
from command_lines import call, call_and_hear, check_refusal, hear
from run_files import SMALL, check_equal
from s3_server import serving

from agents import CheckpointError
from eqgrid_lab.base import (
    RunError,
    UsageError,
    _remote,
    check_local,
    local_path,
    mirrored,
    working_path,
)
from eqgrid_lab.commands import evaluate_command


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Snapshots and attempts follow one another quickly, and each test begins without copies."""
    monkeypatch.setattr(_remote, "SNAPSHOT_SECONDS", 0.1)
    monkeypatch.setattr(_remote, "_LAST_TRIES", 2)
    for name in ("_LOCAL", "_COPIED"):
        monkeypatch.setattr(_remote, name, {})


@pytest.fixture(params=["memory", pytest.param("file", id="file")])
def address(request, tmp_path):
    yield "memory://lab/run" if request.param == "memory" else f"file://{tmp_path}/lab/run"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def s3(monkeypatch):
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with serving(monkeypatch) as server:
        yield server


def objects(address: str) -> list[str]:
    fs, root = fsspec.core.url_to_fs(address)
    return sorted(Path(name).relative_to(root).as_posix() for name in fs.find(root))


def named(address: str) -> set[str]:
    """The files in the manifest."""
    fs, root = fsspec.core.url_to_fs(address)
    return set(json.loads(fs.cat_file(f"{root}/eqgrid-manifest.json"))["files"])


def elsewhere(address: str) -> Path:
    """Copies a run as another machine would."""
    _remote._LOCAL.clear()
    return local_path(address)


def write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.csv").write_text(text)


def run_once(address: str, text: str, overwrite: bool = False) -> None:
    folder = working_path(address)
    write(folder, text)
    with mirrored(folder, overwrite):
        pass


def wait_until(holds) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_files_are_copied_there_and_back(address):
    folder = working_path(address)
    folder.mkdir(parents=True)
    (folder / "config.toml").touch()
    (folder / "run.lock").touch()
    with mirrored(folder):
        time.sleep(0.5)
        assert len(objects(address)) == 1, "settings are no result"
        write(folder, "one")
        wait_until(lambda: len(objects(address)) == 3)
        write(folder / "checkpoints", "two")
        wait_until(lambda: len(objects(address)) == 4)
        before = set(objects(address))
        write(folder, "three")
    assert not folder.exists()
    assert len(objects(address)) == 4, "the old object was removed"
    assert len(before - set(objects(address))) == 1
    copy = elsewhere(address)
    assert (copy / "metrics.csv").read_text() == "three"
    assert not (copy / "run.lock").exists()
    assert elsewhere(f"{address}/checkpoints/metrics.csv").read_text() == "two"


def test_a_snapshot_without_its_manifest_does_not_exist(address):
    for text in ("zero", "one"):  # in one process, as in a notebook
        run_once(address, text, overwrite=True)
    fs, root = fsspec.core.url_to_fs(address)
    fs.pipe_file(f"{root}/metrics.csv@0123456789ab", b"half of an obj")
    copy = elsewhere(address)
    assert (copy / "metrics.csv").read_text() == "one"
    with mirrored(copy):
        write(copy, "two")
    assert len(objects(address)) == 2, "the unfinished object is removed"


def test_damaged_objects_and_manifests(address):
    run_once(address, "one")
    fs, root = fsspec.core.url_to_fs(address)
    (name,) = [x for x in objects(address) if "@" in x]
    fs.pipe_file(f"{root}/{name}", b"two")
    with pytest.raises(CheckpointError, match=f"object '{name}' of '.*' is damaged"):
        elsewhere(address)
    fs.rm_file(f"{root}/{name}")
    with pytest.raises(RunError, match=r"object of '.*' is missing"):
        elsewhere(address)
    content = fs.cat_file(f"{root}/eqgrid-manifest.json")
    for wrong in (b"{", content.replace(b"metrics", b"../metrics")):
        fs.pipe_file(f"{root}/eqgrid-manifest.json", wrong)
        with pytest.raises(CheckpointError, match="manifest"):
            elsewhere(address)


def test_two_runs_do_not_mix_their_files(address):
    folder = working_path(address)
    write(folder, "first")
    heard, before = [], signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with pytest.raises(RunError, match="Another run is writing"), mirrored(folder):  # noqa: PT012
            wait_until(lambda: named(address))
            copy = elsewhere(address)
            fs, root = fsspec.core.url_to_fs(address)
            manifest = fs.cat_file(f"{root}/eqgrid-manifest.json")

            def wait_for_a_snapshot():
                wait_until(lambda: fs.cat_file(f"{root}/eqgrid-manifest.json") != manifest)

            with (
                pytest.raises(UsageError, match="Another run is writing"),
                mirrored(copy, check=wait_for_a_snapshot),
            ):
                pass
            other = manifest.replace(b'"run":"', b'"run":"other')
            # Again and again, since the run may write its own manifest in the same moment.
            wait_until(lambda: fs.pipe_file(f"{root}/eqgrid-manifest.json", other) or heard)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert fs.cat_file(f"{root}/eqgrid-manifest.json") == other
    assert (folder / "metrics.csv").read_text() == "first", "nothing is lost"
    shutil.rmtree(folder.parents[2])


def test_an_older_run_is_replaced_by_a_result_only(address):
    for text, overwrite in (("one", False), ("two", True)):
        run_once(address, text, overwrite)
        assert (elsewhere(address) / "metrics.csv").read_text() == text
    _remote._LOCAL.clear()
    folder = working_path(address)
    folder.mkdir(parents=True)
    with pytest.raises(UsageError, match="--overwrite"), mirrored(folder):
        pass
    with pytest.raises(UsageError, match="--sweep does not support"):
        check_local(folder, "--sweep")
    with mirrored(folder, overwrite=True):
        (folder / "config.toml").touch()
    assert (elsewhere(address) / "metrics.csv").read_text() == "two"


def test_a_run_leaves_the_runs_below_its_address_alone(address):
    run_once(f"{address}/evaluation", "below")
    with pytest.raises(UsageError, match="is not empty"):
        run_once(address, "one")
    run_once(address, "one", overwrite=True)
    assert (elsewhere(f"{address}/evaluation") / "metrics.csv").read_text() == "below"
    copy = elsewhere(address)
    with mirrored(copy):
        write(copy, "two")
    assert (elsewhere(f"{address}/evaluation") / "metrics.csv").read_text() == "below"


def test_flags_of_local_files_reject_addresses(capsys):
    for flags in (("--env.layout", "s3://lab/x.layout"), ("--config", "s3://lab/config.toml")):
        says = f"{flags[0]} does not support addresses"
        check_refusal(call_and_hear(capsys, *flags), says, codes=(2,))


FULL = ("507 Insufficient Storage", "XMinioStorageFull", "Storage backend is full.")
DOWN = ("503 Service Unavailable", "ServiceUnavailable", "Please try again.")
WRONG = ("403 Forbidden", "InvalidAccessKeyId", "The key does not exist.")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [DOWN, FULL, WRONG, "cut", "slow"])
def test_a_fault_during_a_run(s3, fault, capfd):
    folder = working_path("s3://lab/run")
    write(folder, "one")
    with mirrored(folder):
        wait_until(lambda: named("s3://lab/run"))
        s3.fault, s3.methods = fault, ("PUT",)
        write(folder, "two")
        if fault == "slow":
            time.sleep(2)
        else:
            wait_until(lambda: "cannot be written" in capfd.readouterr().err)
            assert (elsewhere("s3://lab/run") / "metrics.csv").read_text() == "one"
            time.sleep(1)
            s3.fault = None
            wait_until(lambda: "can be written again" in capfd.readouterr().err)
    assert (elsewhere("s3://lab/run") / "metrics.csv").read_text() == "two"
    assert len(objects("s3://lab/run")) == 2


@pytest.mark.slow
def test_a_fault_at_the_end_keeps_the_local_files(s3):
    folder = working_path("s3://lab/run")
    with pytest.raises(RunError, match=r"full.*All files are in"), mirrored(folder):  # noqa: PT012
        s3.fault = FULL
        write(folder, "one")
    assert (folder / "metrics.csv").read_text() == "one"
    shutil.rmtree(folder.parents[2])


@pytest.mark.slow
def test_torn_objects_are_not_read(s3):
    s3.fault, s3.methods = "torn", ("PUT",)
    run_once("s3://lab/run", "one")
    with pytest.raises(CheckpointError, match="damaged"):
        elsewhere("s3://lab/run")


@pytest.mark.slow
def test_bad_addresses_are_one_sentence(s3, capsys, monkeypatch):
    for flags, says in (
        (("--resume", "s3://lab/none"), "'s3://lab/none' does not contain a run or a policy"),
        (("--out", "s3://none/run"), "'s3://none/run' cannot be written: .*bucket does not exist"),
        (("--out", "nosuch://lab/run"), "'nosuch://lab/run' is not supported: Protocol not known"),
        (("--resume", "gs://lab/run"), "'gs://lab/run' is not supported: .*gcsfs"),
    ):
        code, said = call_and_hear(capsys, *(SMALL if "--out" in flags else ()), *flags)
        assert code in (1, 2)
        assert re.fullmatch(f"error: .*{says}.*\n", said), said
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fsspec", None)
        heard = call_and_hear(capsys, "--resume", "s3://lab/none")
    check_refusal(heard, "pip install 'eqgrid[remote]'", codes=(2,))
    s3.fault = WRONG
    heard = call_and_hear(capsys, *SMALL, "--out", "s3://lab/run")
    check_refusal(heard, "Check the credentials", codes=(1,))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # nor those of a rented machine
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    heard = call_and_hear(capsys, *SMALL, "--out", "s3://lab/run")
    check_refusal(heard, "Unable to locate credentials", codes=(1,))


@pytest.mark.slow
def test_a_killed_run_ends_elsewhere_as_if_undisturbed(s3, tmp_path, capsys):
    """Its partner comes from the bucket, too, and then the policy is evaluated from there."""
    assert call(*SMALL, "--total-steps", "256", "--out", "s3://lab/partner") == 0
    partner = ("--partners.share", "0.5", "--partners.policies", "s3://lab/partner")
    flags = (*SMALL, *partner, "--total-steps", "2560")
    assert call(*flags, "--out", tmp_path / "whole") == 0
    script = Path(__file__).parents[1] / "slow_run.py"
    code = (
        "import runpy, sys; from eqgrid_lab.base import _remote; _remote.SNAPSHOT_SECONDS = 0.5; "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(script)]
    start = [*command, *flags, "--out", "s3://lab/run"]
    rest = os.environ | {"SECONDS_OF_REST": "300", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(start, env=rest, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: any("last.safetensors@" in x for x in objects("s3://lab/run")))
        time.sleep(3)
    finally:
        process.kill()
        process.communicate()
    for copy in tmp_path.glob("eqgrid-*"):
        shutil.rmtree(copy)
    resume = [*command, "--resume", "s3://lab/run"]
    quick = rest | {"SECONDS_OF_REST": "0"}
    done = subprocess.run(resume, env=quick, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    check_equal(elsewhere("s3://lab/run"), tmp_path / "whole")
    out = ("--episodes", "8", "--out", "s3://lab/results")
    code, said = hear(capsys, evaluate_command, "s3://lab/run", *out)
    assert code == 0, said
    assert (elsewhere("s3://lab/results") / "evaluation.json").exists(), objects("s3://lab/results")
