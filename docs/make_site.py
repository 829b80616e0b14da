"""Builds the documentation as a site that needs no server: python docs/make_site.py

The pages are those of this folder, of the reference (`reference_pages.py`), and about the project
(`project_pages.py`). Links to files outside of this folder lead to the repository. The program
checks every link, anchor and picture of the site.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urldefrag, urlsplit

import tyro
from project_pages import PROJECT, project_pages
from reference_pages import ROOT, reference

NOT_PAGES = ("*.py", "__pycache__", "numbers", "theme")
"""Files and folders of `docs/` that are not on the site."""


@dataclasses.dataclass(frozen=True)
class Build:
    """Builds the site."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("site")
    """Folder of the site, which is replaced."""


def outward(text: str, page: Path, repository: str, to: Path | None = None) -> str:
    """Lets relative links to files outside of this folder lead to the repository, those to files
    about the project to their pages, and those to notebooks to Colab, which opens them from there.

    **Arguments:**

    - `text`: Markdown.
    - `page`: the file of the text.
    - `repository`: the address of the repository.
    - `to`: the page that is made from the text, if it is in another folder.
    """
    to = to or page
    made = {ROOT / source: ROOT / f"docs/{name}.md" for name, source in PROJECT.items()}

    def replace(link: re.Match[str]) -> str:
        target, _, anchor = link[1].partition("#")
        if ":" in target or not target:
            return link[0]
        file = Path(os.path.normpath(page.parent / target))
        if file.suffix == ".ipynb":
            name = urlsplit(repository).path.strip("/")
            path = file.relative_to(ROOT).as_posix()
            return f"](https://colab.research.google.com/github/{name}/blob/main/{path})"
        anchor = f"#{anchor}" if anchor else ""
        file = made.get(file, file)
        if file.is_relative_to(ROOT / "docs") and file.suffix != ".py":
            return f"]({Path(os.path.relpath(file, to.parent)).as_posix()}{anchor})"
        kind = "tree" if file.is_dir() else "blob"
        return f"]({repository}/{kind}/main/{file.relative_to(ROOT).as_posix()}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", replace, text)


def write_pages(folder: Path, repository: str) -> None:
    """Writes all pages of the site, as Markdown, with their pictures."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns(*NOT_PAGES))
    for page in folder.rglob("*.md"):
        source = ROOT / "docs" / page.relative_to(folder)
        page.write_text(outward(page.read_text("utf-8"), source, repository), "utf-8")
    for name, text in project_pages().items():
        to = ROOT / f"docs/{name}.md"
        page = folder / f"{name}.md"
        page.write_text(outward(text, ROOT / PROJECT[name], repository, to), "utf-8")
    for name, text in reference().items():
        page = folder / "reference" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, "utf-8")


def unbroken(html: str) -> str:
    """Marks the words in inline code that have a hyphen, such as flags, so that the style of the
    site keeps each on one line. Words that are too long for a phone are left alone.
    """

    def mark(code: re.Match[str]) -> str:
        if code[1] is None:  # a block of code
            return code[0]
        words = re.sub(
            r"(?<!\S)(?=\S*-)\S{1,40}(?!\S)", r'<span class="word">\g<0></span>', code[1]
        )
        return f"<code>{words}</code>"

    return re.sub(r"<pre\b.*?</pre>|<code>([^<]*)</code>", mark, html, flags=re.S)


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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = {
        'paths = ["."]': f"paths = [{ROOT.as_posix()!r}]",
        'custom_dir = "docs/theme"': f"custom_dir = {(ROOT / 'docs/theme').as_posix()!r}",
        'release = ""': f'release = "{project["version"]}"',
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pages(folder / "docs", tomllib.loads(settings)["project"]["repo_url"])
        for old, new in changes.items():
            settings = settings.replace(old, new)
        (folder / "zensical.toml").write_text(settings, "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        if subprocess.run(command, cwd=folder, env=os.environ | {"NO_COLOR": "1"}).returncode:
            sys.exit("error: the site has the mistakes above.")
        for page in (folder / "site").rglob("*.html"):
            page.write_text(unbroken(page.read_text("utf-8")), "utf-8")
        if wrong := complaints(folder / "site"):
            sys.exit("error: " + "\n".join(wrong))
        shutil.rmtree(build.out, ignore_errors=True)
        shutil.copytree(folder / "site", build.out)
    print(f"The site is in {build.out}; {build.out / 'index.html'} is its first page.")


if __name__ == "__main__":
    run(tyro.cli(Build))
