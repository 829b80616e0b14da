"""The version, and the address of the repository, are the same wherever they are written."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_version_has_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.M) == [project["version"]]
    first = re.search(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", changes, re.M)
    assert first
    assert first[1] == project["version"] == version("eqgrid")
    assert f"/badge/version-{project['version']}-" in README
    assert f"  version = {{{project['version']}}},\n" in README
    assert f"/badge/python-{project['requires-python'].removeprefix('>=')}%2B-" in README
    assert f"/badge/licence-{project['license']}-" in README


def test_the_repository_has_one_address():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    address = settings["project"]["repo_url"]
    folder = address.rpartition("/")[2]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\ngit clone {address} && cd {folder}\n" in README
    assert f"  url = {{{address}}}\n" in README
    assert f"\nrepository-code: {address}\n" in citation
    install = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert f'"git+{address}#subdirectory=packaging/core"' in install
