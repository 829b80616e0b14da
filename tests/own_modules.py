"""Modules of users, for the tests of what a command line imports."""

import contextlib
import sys
from pathlib import Path


@contextlib.contextmanager
def in_folder_of(folder, monkeypatch, **modules):
    """In a folder with modules, by name, which nothing has imported."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in modules.items():
        sys.modules.pop(name, None)
        Path(f"{name}.py").write_text(text)
    yield folder
    for name in modules:
        sys.modules.pop(name, None)
