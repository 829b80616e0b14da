"""Builds the documentation as a site that needs no server: python docs/make_site.py

The pages are those of this folder. Pages of the reference are made here, one for each room of each
package: every public name, in the order of the modules that define it. Links to files outside of
this folder lead to the repository. Then every link, anchor and picture of the site is checked.
"""

import ast
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urldefrag, urlsplit

import tyro

ROOT = Path(__file__).parents[1]
WORLDS = (
    "overcooked",
    "overcooked_v2",
    "foraging",
    "warehouse",
    "rescue",
    "minigrid",
    "goals",
    "commons",
    "bodies",
)
PACKAGES = (
    "eqgrid",
    "eqgrid.grid",
    "eqgrid.interop",
    *(f"eqgrid.envs.{world}" for world in WORLDS),
    *(f"eqgrid.envs.overcooked.{topic}" for topic in ("people", "plans", "reference")),
    "agents",
    "eqgrid_lab",
    "eqgrid_lab.cloning",
)
"""The packages whose public names are in the reference."""


@dataclasses.dataclass(frozen=True)
class Build:
    """Builds the site."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("site")
    """Folder of the site, which is replaced."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that defines public names of a package.

    **Arguments:**

    - `package`: the package that exports the names.
    - `name`: the module, relative to the package, such as `wrappers._auto_reset`.
    - `purpose`: the first paragraph of its docstring, without the full stop.
    - `names`: the public names.
    """

    package: str
    name: str
    purpose: str
    names: tuple[str, ...]

    @property
    def page(self) -> str:
        """The page of the reference on which the names are: one for each folder of the package, and
        that of the package for names from elsewhere.
        """
        folder = "" if self.name.startswith(".") else self.name.rpartition(".")[0]
        return ".".join(filter(None, (self.package, folder)))


def modules(package: str) -> Iterator[Module]:
    """The modules whose names a package exports, in the order of its imports."""
    folder = ROOT / package.replace(".", "/")
    init = folder / "__init__.pyi"
    init = init if init.exists() else folder / "__init__.py"
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom) or node.level == 0 or node.module is None:
            continue
        home = folder.parents[node.level - 2] if node.level > 1 else folder
        parts = (node.module or "").split(".")
        file = home.joinpath(*parts)
        if file.is_dir():  # a package, whose own modules define the names
            passed_on = {x.asname for x in node.names}
            inner = ".".join(file.relative_to(ROOT).parts)
            for module in modules(inner):
                names = tuple(name for name in module.names if name in passed_on)
                yield Module(package, f"{'.'.join(parts)}.{module.name}", module.purpose, names)
            continue
        file = file.with_suffix(".py")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        imports = [x for x in tree.body if isinstance(x, ast.ImportFrom) and x.level == 0]
        foreign = {"PyTree", *(x.asname for part in imports for x in part.names)}
        exported = [x.asname or "_" for x in node.names]
        names = tuple(x for x in exported if not x.startswith("_") and x not in foreign)
        outside = "" if node.level == 1 else "."
        purpose = " ".join(text.split("\n\n")[0].split()).rstrip(".")
        yield Module(package, outside + ".".join(parts), purpose, names)


def reference() -> dict[str, str]:
    """The pages of the reference, by name."""
    pages: dict[str, list[str]] = {}
    for package in PACKAGES:
        file = ROOT / package.replace(".", "/") / "__init__.py"
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        pages[package] = [f"# `{package}`\n\n{about}"]
        for module in filter(lambda x: x.names, modules(package)):
            title = f"# `{package}`: {module.page.removeprefix(package + '.')}"
            page = pages.setdefault(module.page, [title])
            page.append(f"## {module.purpose}")
            page += [f"::: {package}.{name}" for name in module.names]
    links = [f"- [`{name}`]({name}.md)" for name in pages]
    about = "Every public name, from its docstring. Shapes are those of jaxtyping."
    pages["index"] = ["# Reference", about, "\n".join(links)]
    return {name: "\n\n".join(parts) + "\n" for name, parts in pages.items()}


def outward(text: str, page: Path, repository: str) -> str:
    """Lets relative links to files outside of this folder lead to the repository, and those to
    notebooks to Colab, which opens them from there.

    **Arguments:**

    - `text`: Markdown.
    - `page`: the file of the text.
    - `repository`: the address of the repository.
    """

    def replace(link: re.Match[str]) -> str:
        target, _, anchor = link[1].partition("#")
        if ":" in target or not target:
            return link[0]
        file = Path(os.path.normpath(page.parent / target))
        if file.suffix == ".ipynb":
            name = urlsplit(repository).path.strip("/")
            path = file.relative_to(ROOT).as_posix()
            return f"](https://colab.research.google.com/github/{name}/blob/main/{path})"
        if file.is_relative_to(ROOT / "docs"):
            return link[0]
        kind = "tree" if file.is_dir() else "blob"
        anchor = f"#{anchor}" if anchor else ""
        return f"]({repository}/{kind}/main/{file.relative_to(ROOT).as_posix()}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", replace, text)


def write_pages(folder: Path, repository: str) -> None:
    """Writes all pages of the site, as Markdown, with their pictures."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py"))
    for page in folder.rglob("*.md"):
        source = ROOT / "docs" / page.relative_to(folder)
        page.write_text(outward(page.read_text("utf-8"), source, repository), "utf-8")
    for name, text in reference().items():
        page = folder / "reference" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, "utf-8")


class Links(HTMLParser):
    """The links of a page, what it loads, and its anchors."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))
        self.loaded += [values[name] for name in ("src", "data", "poster") if name in values]
        if values.get("data-md-component") == "source":
            self.loaded.append("https:the-forge")  # the theme's script asks it for numbers


def complaints(site: Path) -> list[str]:
    """What is wrong with a site: links and anchors that lead nowhere, and what is loaded from
    elsewhere.
    """
    pages = {file: Links(file.read_text("utf-8")) for file in site.rglob("*.html")}
    found: list[str] = []
    for page, parts in pages.items():
        where = page.relative_to(site).as_posix()
        for target in (*parts.links, *parts.loaded):
            if urlsplit(target).netloc or urlsplit(target).scheme:
                if target in parts.loaded and not target.startswith("data:"):
                    found.append(f"{where} loads {target} from elsewhere")
                continue
            path, anchor = urldefrag(unquote(target))
            base = site if path.startswith("/") else page.parent
            file = Path(os.path.normpath(base / path.lstrip("/"))) if path else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                found.append(f"{where} links to {target}, which does not exist")
            elif anchor and file in pages and anchor not in pages[file].anchors:
                found.append(f"{where} links to {target}, which has no such anchor")
    for sheet in site.rglob("*.css"):
        if elsewhere := re.search(r"url\(['\"]?(https?:)?//", sheet.read_text("utf-8")):
            found.append(f"{sheet.relative_to(site).as_posix()} loads {elsewhere[0]}...")
    return sorted(set(found))


def run(build: Build) -> None:
    """Builds the site, and exits with what is wrong with it, if anything is."""
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pages(folder / "docs", tomllib.loads(settings)["project"]["extra"]["repository"])
        here = settings.replace('paths = ["."]', f"paths = [{ROOT.as_posix()!r}]")
        (folder / "zensical.toml").write_text(here, "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        if subprocess.run(command, cwd=folder, env=os.environ | {"NO_COLOR": "1"}).returncode:
            sys.exit("error: the site has the mistakes above.")
        if wrong := complaints(folder / "site"):
            sys.exit("error: " + "\n".join(wrong))
        shutil.rmtree(build.out, ignore_errors=True)
        shutil.copytree(folder / "site", build.out)
    print(f"The site is in {build.out}; {build.out / 'index.html'} is its first page.")


if __name__ == "__main__":
    run(tyro.cli(Build))
