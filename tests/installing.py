"""New virtual environments with what this checkout builds. Nothing is downloaded."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program that is told nothing of where this checkout is."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def build(project: Path, folder: Path, kind: str = "wheel") -> Path:
    """Builds the wheel or the sdist of a project in a new folder, and returns its file."""
    hatch = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    built = run(*hatch, cwd=project)
    assert built.returncode == 0, built.stderr
    (file,) = folder.iterdir()
    return file


def new_environment(folder: Path) -> Path:
    """Makes a virtual environment without any package, and returns its folder of packages."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def pip_install(folder: Path, *what: str | Path) -> Path:
    """Installs something into a virtual environment, and returns the folder of its programs."""
    programs = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    done = run(*pip, "--no-index", "--no-deps", "--no-build-isolation", *what, cwd=folder)
    assert done.returncode == 0, done.stderr
    return programs
