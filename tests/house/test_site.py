"""The site: every public name is in the reference, with a docstring, and mistakes are found."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import make_pictures
import make_site
import make_videos
import project_pages
import pytest
import reference_pages
from PIL import Image

from eqgrid import ENVIRONMENTS

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


def test_pages_of_packages_list_their_names():
    pages = reference_pages.reference()
    for package in reference_pages.PACKAGES:
        names = [x for module in reference_pages.modules(package) for x in module.names]
        listed = re.findall(r"^\| \[`(\w+)`\]", pages[package], re.M)
        assert sorted(listed) == sorted(names)
    assert "| [`CNN`](agents.policies.md#agents.CNN) | Convolutions" in pages["agents"]
    assert "[`Overcooked`](eqgrid.envs.overcooked.md#eqgrid.envs.overcooked.O" in pages["eqgrid"]
    entries = re.findall(r"^::: eqgrid\.(\w+)$", pages["eqgrid"], re.M)
    assert entries[:2] == ["make", "AbstractEnv"]
    assert entries[2] == "TimeStep"


def test_entries_of_aliases_and_small_constants_show_values():
    page = reference_pages.reference()["agents.ppo"]
    shown = re.findall(r"^::: agents\.(\w+)\n    options:\n      show_attribute_values", page, re.M)
    assert shown == ["Hyperparameter"]


def test_summaries_are_first_sentences():
    assert reference_pages.sentence("A map, e.g. of `a|b`.  More.\n\nAnd more.") == (
        "A map, e.g. of `a\\|b`"
    )
    assert (
        reference_pages.sentence("PPO (Schulman et al. 2017).\nMore.")
        == "PPO (Schulman et al. 2017)"
    )
    assert reference_pages.sentence(None) == ""


def test_all_pages_but_logs_are_in_the_navigation():
    """Logs are linked from the pages whose numbers they explain, and are not searched."""
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = re.findall(r'"([\w./-]+\.md)"', settings)
    assert len(pages) == len(set(pages))
    docs = {x.relative_to(ROOT / "docs").as_posix() for x in (ROOT / "docs").rglob("*.md")}
    made = {f"reference/{name}.md" for name in reference_pages.reference()}
    made |= {f"{name}.md" for name in project_pages.PROJECT}
    assert set(pages) == {x for x in docs if not x.startswith("log/")} | made


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/log").glob("*.md")), ids=lambda x: x.stem.removeprefix("2026-11-")
)
def test_logs_are_linked_and_are_not_searched(page):
    assert page.read_text("utf-8").startswith("---\nsearch:\n  exclude: true\n---\n")
    users = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md")]
    assert any(f"log/{page.name}" in user.read_text("utf-8") for user in users)


def test_pages_about_the_project_are_made_from_their_files():
    pages = project_pages.project_pages()
    assert {*pages} == {*project_pages.PROJECT}
    assert "# Changelog\n" in pages["changelog"]
    assert "  author  = {{The eqgrid authors}},\n" in pages["citation"]
    assert "# License\n\neqgrid has the MIT License.\n" in pages["license"]


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    """The docstring of every public name; empty if it has none."""
    griffe = pytest.importorskip("griffe", reason="needs the [docs] extra")
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], allow_inspection=False)
    for package in ("eqgrid", "agents", "eqgrid_lab"):
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


def imports() -> Counter[str]:
    """How often the code of tutorials and guides imports each public name, and uses it as
    `grid.name`.
    """
    found: Counter[str] = Counter()
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md")]:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        for block in ["\n".join(blocks)] if page.parent.name == "tutorials" else blocks:
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom):
                    found.update(f"{node.module}.{x.name}" for x in node.names)
            if "from eqgrid import grid\n" in block:
                found.update({f"eqgrid.grid.{x}" for x in re.findall(r"\bgrid\.(\w+)", block)})
    return found


def test_names_that_pages_import_have_examples(docstrings):
    """At least 60 names, and all names that are imported twice."""
    counts = {name: count for name, count in imports().items() if name in docstrings}
    shown = {name for name in counts if "```python" in docstrings[name]}
    assert len(shown) >= 60
    assert {name for name, count in counts.items() if count > 1} <= shown


@pytest.mark.slow
def test_examples_in_docstrings_run(docstrings, tmp_path, monkeypatch):
    """Each by itself. Those of adapters and of `transfer` are parts of longer programs."""
    monkeypatch.chdir(tmp_path)
    examples = {
        name: "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
        for name, text in docstrings.items()
        if not name.startswith("eqgrid.interop.") and name != "agents.transfer"
    }
    examples = {name: code for name, code in examples.items() if code}
    assert len(examples) >= 80
    for name, code in examples.items():
        exec(compile(code, name, "exec"), {})


def test_links_between_pages_and_files_about_the_project():
    address, page = "https://forge/a", ROOT / "docs/tutorials/1-train.md"
    there = make_site.outward("[a](../../CHANGELOG.md#b) [c](../images/c.gif)", page, address)
    assert there == "[a](../changelog.md#b) [c](../images/c.gif)"
    made = "[a](docs/play.md#b) [c](SECURITY.md) [d](tests)"
    back = make_site.outward(made, ROOT / "CHANGELOG.md", address, ROOT / "docs/changelog.md")
    assert back == "[a](play.md#b) [c](security.md) [d](https://forge/a/tree/main/tests)"


def test_flags_do_not_break():
    page = "<pre><code>--a-b</code></pre> <code>python --a-b 3</code>"
    assert make_site.unbroken(page) == (
        '<pre><code>--a-b</code></pre> <code>python <span class="word">--a-b</span> 3</code>'
    )


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
    file = script.with_suffix(".ipynb")
    made, stored = jupytext.read(script), jupytext.read(file)
    assert [x.source for x in made.cells] == [x.source for x in stored.cells]
    outputs = [x for cell in stored.cells for x in cell.get("outputs", [])]
    if script.stem == "start":  # with its outputs, in which pictures are small
        kinds = {kind for output in outputs for kind in output.get("data", ())}
        assert {"image/png", "image/gif"} <= kinds
        assert all(output.get("text", "").count("\n") < 50 for output in outputs)
        assert file.stat().st_size < 200_000
    else:
        assert outputs == []
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    address = settings["project"]["repo_url"]
    assert f'REPOSITORY = "{address}"' in script.read_text("utf-8")


def test_pictures_of_the_readme_are_small_and_show_all_worlds():
    assert {*make_pictures.WORLDS} == {*ENVIRONMENTS, "body"}
    videos = [*make_pictures.STRIP, *(video for video, _ in make_pictures.WORLDS.values())]
    assert all((make_pictures.IMAGES / f"{video}.gif").exists() for video in videos)
    strip = make_pictures.IMAGES / "strip.gif"
    assert strip.stat().st_size < 10**6
    with Image.open(strip) as opened:
        assert opened.n_frames == make_pictures.FRAMES
        assert opened.size == make_pictures.strip(0).size
    with Image.open(make_pictures.IMAGES / "worlds.png") as opened:
        assert opened.size == make_pictures.all_worlds().size


@pytest.mark.parametrize("video", sorted(make_pictures.IMAGES.glob("*.gif")), ids=lambda x: x.stem)
def test_videos_are_small_and_long_enough_to_follow(video):
    """Several short episodes make one video."""
    assert video.stat().st_size < 10**6
    with Image.open(video) as opened:
        durations = []
        for number in range(opened.n_frames):
            opened.seek(number)
            durations.append(opened.info["duration"])
    assert sum(durations) >= 3000


@pytest.mark.parametrize("video", make_videos.TRAINED)
def test_episodes_of_trained_agents_hold_their_last_frame(video):
    with Image.open(make_videos.IMAGES / f"{video}.gif") as opened:
        opened.seek(opened.n_frames - 1)
        assert opened.info["duration"] >= 1000


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


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built."""
    pytest.importorskip("zensical", reason="needs the [docs] extra")
    folder = tmp_path_factory.mktemp("built") / "site"
    make_site.run(make_site.Build(folder))
    return folder


@pytest.mark.slow
def test_pages_have_titles_and_a_header(site):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        if page.name != "404.html":
            assert "eqgrid" in re.findall(r"<title>(.*?)</title>", text)[0], page
        assert f'<span class="release__version">{settings["project"]["version"]}</span>' in text
        assert "changelog.html" in text
    play = (site / "play.html").read_text("utf-8")
    assert "https://github.com/eqgrid/eqgrid/edit/main/docs/play.md" in play
    reference = (site / "reference/eqgrid.html").read_text("utf-8")
    assert "https://github.com/eqgrid/eqgrid/edit/main/eqgrid/__init__.py" in reference


SEARCHES = {
    "quickstart": "index.html#quickstart",
    "install": "install.html",
    "gpu": "install.html#gpu",
    "changelog": "changelog.html",
    "license": "license.html",
    "custom environment": "your-own-world.html",
    "citation": "citation.html",
}
"""What readers search for, and the first result."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, for the script of the search")
def test_searches_find_the_right_page_first(site):
    command = ["node", str(Path(__file__).with_name("search.js")), str(site), *SEARCHES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {query: (*pages, "nothing")[0] for query, *pages in lines}
    assert found == SEARCHES


@pytest.mark.slow
def test_logs_are_built_and_not_searched(site):
    index = json.loads((site / "search.json").read_text("utf-8"))
    assert not [x for x in index["items"] if x["location"].startswith("log/")]
    assert {x.stem for x in (ROOT / "docs/log").glob("*.md")} == {
        x.stem for x in (site / "log").glob("*.html")
    }
