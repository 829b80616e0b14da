"""A wheel has every file that its commands open, and an sdist every file that its tests read."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLONES_ONLY = {
    "heldout/budgets.csv": "results of a study in docs/partners.md, which no command opens",
    "heldout/strangers.csv": "results of a study in docs/partners.md, which no command opens",
}
"""Data under `experiments/` that only a clone of the repository has, and why."""


def tracked(*folders: str) -> list[str]:
    """The files of some folders that are under version control."""
    command = ["git", "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("This is no clone of the repository.")
    return [name for name in listed.stdout.split("\0") if name]


def build(kind: str, folder: Path) -> Path:
    """Builds a wheel or an sdist.

    **Returns:** its file.
    """
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> dict[str, bytes]:
    """The contents of a wheel, by path."""
    archive = zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel")))
    return {name: archive.read(name) for name in archive.namelist()}


def test_a_wheel_has_all_data_of_experiments(wheel):
    data = [name for name in tracked("experiments") if not name.endswith(".py")]
    assert len(data) > 90
    missing = set()
    for name in data:
        path = name.removeprefix("experiments/")
        if wheel.get(f"agents/shipped/{path}") != (ROOT / name).read_bytes():
            missing.add(path)
    assert missing == set(CLONES_ONLY)


def test_a_wheel_has_all_files_of_both_packages(wheel):
    assert {*tracked("eqgrid", "agents")} <= {*wheel}


def test_an_sdist_has_all_files(tmp_path):
    files = [name for name in tracked(".") if not name.startswith(".")]
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*files} <= names
