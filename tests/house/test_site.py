"""The site: every public name is in the reference, with a docstring, and mistakes are found."""

import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType

import make_site
import project_pages
import pytest
import reference_pages

ROOT = Path(__file__).parents[2]


def public(package: str) -> set[str]:
    """The names that a package exports, without modules."""
    found = vars(importlib.import_module(package))
    return {
        name
        for name, value in found.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


@pytest.mark.parametrize("package", [x for x in reference_pages.PACKAGES if x != "eqgrid.interop"])
def test_every_public_name_is_in_the_reference_once(package):
    found = [name for module in reference_pages.modules(package) for name in module.names]
    assert len(found) == len(set(found))
    assert set(found) == public(package) - {"PyTree"}


def test_all_pages_but_logs_are_in_the_navigation():
    """Logs are linked from the pages whose numbers they explain, and are not searched."""
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = re.findall(r'"([\w./-]+\.md)"', settings)
    assert len(pages) == len(set(pages))
    docs = {x.relative_to(ROOT / "docs").as_posix() for x in (ROOT / "docs").rglob("*.md")}
    made = {f"reference/{name}.md" for name in reference_pages.reference()}
    made |= {f"{name}.md" for name in project_pages.PROJECT}
    assert set(pages) == {x for x in docs if not x.startswith("log/")} | made


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    """The docstring of every public name; empty if it has none."""
    griffe = pytest.importorskip("griffe", reason="needs the [docs] extra")
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], allow_inspection=False)
    for package in ("eqgrid", "agents", "eqgrid_lab", "eqgrid_exact"):
        loader.load(package)
    loader.resolve_aliases()
    names = [
        f"{package}.{name}"
        for package in reference_pages.PACKAGES
        for module in reference_pages.modules(package)
        for name in module.names
    ]
    found = {name: loader.modules_collection[name].docstring for name in names}
    return {name: doc.value if doc else "" for name, doc in found.items()}


def test_every_public_name_has_a_docstring(docstrings):
    assert len(docstrings) > 500
    assert [name for name, text in docstrings.items() if not text] == []


@pytest.mark.slow
def test_examples_in_docstrings_run(docstrings, tmp_path, monkeypatch):
    """Each by itself. Those of adapters and of parts of training loops need other lines."""
    parts = ("transfer", "clone_epoch", "Run", "eqgrid_lab.Evaluation", "runs.Evaluation")
    monkeypatch.chdir(tmp_path)
    examples = {
        name: "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
        for name, text in docstrings.items()
        if not name.startswith("eqgrid.interop.") and not name.endswith(parts)
    }
    examples = {name: code for name, code in examples.items() if code}
    assert len(examples) >= 80
    for name, code in examples.items():
        exec(compile(code, name, "exec"), {})


def test_links_out_of_the_docs_lead_to_the_repository():
    page = ROOT / "docs/tutorials/1-train.md"
    text = "[a](../../experiments/ippo.py#top) [b](../play.md) [c](https://a.b/c) [d](../../tests)"
    notebook = make_site.outward("[n](../notebooks/start.ipynb)", page, "https://github.com/a/b")
    colab = "https://colab.research.google.com/github/a/b/blob/main/docs/notebooks/start.ipynb"
    assert notebook == f"[n]({colab})"
    assert make_site.outward(text, page, "https://forge/eqgrid") == (
        "[a](https://forge/eqgrid/blob/main/experiments/ippo.py#top) [b](../play.md) "
        "[c](https://a.b/c) [d](https://forge/eqgrid/tree/main/tests)"
    )


@pytest.mark.parametrize(
    "script", sorted((ROOT / "docs/notebooks").glob("*.py")), ids=lambda x: x.stem
)
def test_notebooks_are_those_of_their_scripts(script):
    """python docs/make_notebooks.py makes them."""
    jupytext = pytest.importorskip("jupytext", reason="needs the [notebook] extra")
    made, stored = jupytext.read(script), jupytext.read(script.with_suffix(".ipynb"))
    assert [x.source for x in made.cells] == [x.source for x in stored.cells]
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    address = settings["project"]["repo_url"]
    assert f'REPOSITORY = "{address}"' in script.read_text("utf-8")


def test_mistakes_of_a_site_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/index.html").write_text('<h1 id="here">a</h1>', "utf-8")
    good = '<a href="sub#here">a</a> <a href="https://a.b">b</a> <img src="data:image/png,x">'
    (tmp_path / "good.html").write_text(good, "utf-8")
    assert make_site.complaints(tmp_path) == []
    bad = '<a href="sub/#there">a</a> <a href="none.html">b</a> <script src="https://a.b/c.js">'
    bad = '<div data-md-component="source"></div> ' + bad
    (tmp_path / "bad.html").write_text(bad, "utf-8")
    (tmp_path / "bad.css").write_text("@import url(https://a.b/font.css)", "utf-8")
    assert make_site.complaints(tmp_path) == [
        "bad.css loads url(https://...",
        "bad.html links to none.html, which does not exist",
        "bad.html links to sub/#there, which has no such anchor",
        "bad.html loads https://a.b/c.js from elsewhere",
        "bad.html loads https:the-forge from elsewhere",
    ]
