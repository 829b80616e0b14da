"""The pages of the reference: public names, in the order of the modules that define them.

`docs/make_site.py` writes them. A package has an overview of its names, and one page for each of
its folders with the docstrings.
"""

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from reference_tasks import TASKS

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
    *(f"eqgrid.envs.overcooked.{topic}" for topic in ("people", "reference")),
    "agents",
    "eqgrid_lab",
    "eqgrid_lab.cloning",
    "eqgrid_exact",
)
"""The packages whose public names are in the reference."""
FIRST = {"eqgrid": ("make", "AbstractEnv", "TimeStep")}
"""Names that the page of a package lists first, under a heading of their own."""
LONGEST_VALUE = 200
"""The longest text of a constant that its entry shows."""


@dataclasses.dataclass(frozen=True)
class Name:
    """A public name.

    **Arguments:**

    - `name`: the name.
    - `summary`: the first sentence of its docstring.
    - `value`: whether its entry shows a value, as entries of aliases and of small constants do.
    """

    name: str
    summary: str
    value: bool


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that defines public names of a package.

    **Arguments:**

    - `package`: the package that exports the names.
    - `name`: the module, relative to the package, such as `wrappers._auto_reset`.
    - `purpose`: the first paragraph of its docstring, without the full stop.
    - `members`: the public names.
    """

    package: str
    name: str
    purpose: str
    members: tuple[Name, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(x.name for x in self.members)

    @property
    def page(self) -> str:
        """The page of the reference on which the names are: one for each folder of the package, and
        the page of the package for `make` and for names from elsewhere.
        """
        own = self.name.startswith(".") or self.name == "envs._make"
        folder = "" if own else self.name.rpartition(".")[0]
        return ".".join(filter(None, (self.package, folder)))

    @property
    def elsewhere(self) -> bool:
        """Whether the names have their entries in another package, which exports them, too."""
        return self.page != self.package and self.page in PACKAGES

    def link(self, name: str) -> str:
        """The link to the entry of a name."""
        home = self.page if self.elsewhere else self.package
        return f"[`{name}`]({self.page}.md#{home}.{name})"


def sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((docstring or "").strip().split("\n\n")[0].split())
    found = re.match(r".*?(?<!e\.g)(?<!i\.e)(?<! al)[.:](?= |$)", paragraph)
    return (found[0] if found else paragraph).rstrip(".:").replace("|", "\\|")


def members(tree: ast.Module) -> dict[str, Name]:
    """The names that a module defines."""
    found: dict[str, Name] = {}
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text or node.name not in found:  # overloads have none
                found[node.name] = Name(node.name, sentence(text), value=False)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            text = after.value if isinstance(after, ast.Expr) else None
            text = text.value if isinstance(text, ast.Constant) else ""
            if isinstance(target, ast.Name) and node.value is not None:
                short = len(ast.unparse(node.value)) <= LONGEST_VALUE
                found[target.id] = Name(target.id, sentence(str(text)), value=short)
    return found


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
                kept = tuple(x for x in module.members if x.name in passed_on)
                yield Module(package, f"{'.'.join(parts)}.{module.name}", module.purpose, kept)
            continue
        file = file.with_suffix(".py")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        imports = [x for x in tree.body if isinstance(x, ast.ImportFrom) and x.level == 0]
        foreign = {"PyTree", *(x.asname for part in imports for x in part.names)}
        defined = members(tree)
        exported = [x.asname or "_" for x in node.names]
        names = [x for x in exported if not x.startswith("_") and x not in foreign]
        kept = tuple(defined.get(x, Name(x, "", value=False)) for x in names)
        outside = "" if node.level == 1 else "."
        purpose = " ".join(text.split("\n\n")[0].split()).rstrip(".")
        yield Module(package, outside + ".".join(parts), purpose, kept)


def in_order(package: str) -> list[Module]:
    """The modules with public names of a package, and their names, as they are displayed."""
    parts = list(modules(package))
    first = FIRST.get(package, ())
    known = {x.name: x for part in parts for x in part.members}
    essentials = Module(package, "", "The essentials", tuple(known[x] for x in first))
    others = [
        dataclasses.replace(part, members=tuple(x for x in part.members if x.name not in first))
        for part in parts
    ]
    return [part for part in (essentials, *others) if part.members]


def overview(package: str, parts: list[Module]) -> str:
    """The names of a package, with the first sentence of each docstring: a table for each page."""
    tables: list[str] = []
    for page in dict.fromkeys(x.page for x in parts):
        rows = [
            f"| {module.link(x.name)} | {x.summary} |"
            for module in parts
            if module.page == page
            for x in module.members
        ]
        if page != package:
            tables.append(f"**[{page.removeprefix(package + '.').capitalize()}]({page}.md)**")
        tables.append("\n".join(("| name | purpose |", "| --- | --- |", *rows)))
    return "\n\n".join(tables)


def entry(package: str, name: Name) -> str:
    """The directive that mkdocstrings replaces by a docstring."""
    options = "\n    options:\n      show_attribute_values: true" if name.value else ""
    return f"::: {package}.{name.name}{options}"


def front_matter(source: str) -> str:
    """The metadata of a page that is made from a file of the repository."""
    return f"---\nsource: {source}\n---\n\n"


def tasks() -> str:
    """The index by task: what a reader wants to do, and the names that do it."""
    links = {f"{p}.{x}": part.link(x) for p in PACKAGES for part in modules(p) for x in part.names}
    lines: list[str] = []
    for topic, wants in TASKS.items():
        lines += [f"## {topic}", "", "| I want to | names |", "| --- | --- |"]
        for want, names in wants.items():
            lines.append(f"| {want} | {', '.join(links[x] for x in names.split())} |")
        lines.append("")
    return "\n".join(lines)


def reference() -> dict[str, str]:
    """The pages of the reference, by name."""
    pages: dict[str, list[str]] = {}
    packages = []
    for package in PACKAGES:
        folder = package.replace(".", "/")
        file = ROOT / folder / "__init__.py"
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        parts = in_order(package)
        start = f"{front_matter(folder + '/__init__.py')}# `{package}`\n\n{about}"
        pages[package] = [start, overview(package, parts)]
        packages.append(f"| [`{package}`]({package}.md) | {sentence(about)} |")
        for module in (x for x in parts if not x.elsewhere):
            topic = module.page.removeprefix(package + ".")
            title = f"{front_matter(module.page.replace('.', '/'))}# `{package}`: {topic}"
            page = pages.setdefault(module.page, [title])
            page.append(f"## {module.purpose}")
            page += [entry(package, x) for x in module.members]
    pages["index"] = [
        front_matter("docs/reference_tasks.py") + "# Reference",
        "Every public name has an entry, which is made from its docstring. [jaxtyping]"
        "(https://docs.kidger.site/jaxtyping/) describes the notation of shapes.",
        tasks(),
        "## Packages",
        "\n".join(("| package | content |", "| --- | --- |", *packages)),
    ]
    return {name: "\n\n".join(parts) + "\n" for name, parts in pages.items()}
