"""Lists numbers in the docs that are older than the defaults they were measured with.

python docs/old_numbers.py

A paragraph or table with results belongs to the training commands that it names, or else to the
commands named last in its section. The script prints a paragraph if a default of these commands has
another value today than in the commit of its oldest line. These are candidates. Read each of them,
and measure its numbers again if they depend on the default. The list is not complete: a line that
was edited later counts as new.
"""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from eqgrid_lab.worlds import WORLDS

ROOT = Path(__file__).parents[1]
COMMANDS = {"ippo": "IPPO", "mappo": "MAPPO", "e3t": "E3T", "body": "Body", "pqn_vdn": "PQNVDN"}
"""For each command, the class of its settings."""
PROGRAM = rf"\b({'|'.join(COMMANDS)})\.py"
WORLD = r"--env\.name (\w+)"
RESULT = r"return|reward|earn|score|gap|deliver|food|victim|defaults|\| *-?\d[^|\n]*\| *-?\d"
"""A word about what was learned, or a row of a table with two numbers."""
SHARED = ("Experiment", "PPO")
SOURCES = ("agents/*.py", "experiments/*.py", ":!*/throughput.py", ":!*/accelerator.py")
SOURCES += (":!*/*speed.py",)
NOT_LEARNING = {"log", "log_info", "config", "devices", "distributed", "max_hours", "max_kl"}
NOT_LEARNING |= {"checkpoint_every", "eval_every", "patience", "stop_at_return", "name"}
"""Settings that change no result, or only when they are given."""


def git(*arguments: str) -> str:
    """The output of git, which is empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout


def literal(node: ast.expr) -> str | None:
    """The value of a default, also as the first argument of a call; `None` if it is computed."""
    if isinstance(node, ast.Call):
        named = [x.value for x in node.keywords if x.arg == "default"]
        node = (named + node.args + [node])[0]
    try:
        return repr(ast.literal_eval(node))
    except ValueError:
        return None


def fields(tree: ast.ClassDef) -> Iterator[tuple[str, str | None]]:
    """The defaults in a class: of its own fields, and then of PPO where a world sets them."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), literal(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "PPO":
            yield from ((x.arg or "", literal(x.value)) for x in node.keywords)
        elif isinstance(node, ast.Dict):
            keys = [x.value if isinstance(x, ast.Constant) else "" for x in node.keys]
            yield from zip(map(str, keys), map(literal, node.values), strict=True)


@functools.cache
def classes(commit: str) -> dict[str, dict[str, list[str]]]:
    """The defaults in all classes of a commit, by class and field, in the order of the file."""
    listed = git("grep", "-lE", r"^    \w+: .* = ", commit, "--", *SOURCES).split()
    found: dict[str, dict[str, list[str]]] = {}
    for file in listed:
        for node in ast.walk(ast.parse(git("show", file))):
            if isinstance(node, ast.ClassDef):
                known = found.setdefault(node.name, {})
                for name, value in fields(node):
                    known.setdefault(name, []).extend([value] if value is not None else [])
    return found


def defaults(command: str, world: str) -> dict[str, tuple[str, str]]:
    """The defaults of a training command today, each with its class; later classes replace them."""
    found = {}
    for owner in (*SHARED, COMMANDS[command], WORLDS[world].__name__):
        known = classes("HEAD")[owner]
        found |= {name: (values[-1], owner) for name, values in known.items() if values}
    return {name: value for name, value in found.items() if name not in NOT_LEARNING}


def changes(command: str, world: str, commit: str, text: str) -> list[str]:
    """The defaults of a command that have changed since a commit.

    A setting that did not exist is left out, as is one whose flag is in the text.
    """
    listed = git("ls-tree", "-r", "--name-only", commit)
    if f"/{command}.py\n" not in listed or world not in WORLDS:
        return []
    others = {x.__name__ for name, x in WORLDS.items() if name != world}
    then = {name: known for name, known in classes(commit).items() if name not in others}
    found = []
    for name, (value, owner) in sorted(defaults(command, world).items()):
        homes = [then[owner]] if then.get(owner, {}).get(name) else then.values()
        old = {value for x in homes for value in x.get(name, [])}
        if old and value not in old and f"{name.replace('_', '-')} " not in text:
            found.append(f"{name} was {' or '.join(sorted(old))}, and is {value}")
    return found


def commands(text: str, world: str) -> set[tuple[str, str]]:
    """The commands of a text, each with its world, which is `world` where the line names none."""
    found = set()
    for line in text.splitlines():
        for command in re.findall(PROGRAM, line):
            usual = "body" if command == "body" else world or "overcooked"
            found.add((command, (re.findall(WORLD, line) or [usual])[0]))
    return found


def paragraphs(text: str, home: str) -> Iterator[tuple[int, str, str, set[tuple[str, str]]]]:
    """The paragraphs with results of a page.

    **Arguments:**

    - `text`: the page.
    - `home`: the world that the page is about; empty if there is none.

    **Returns:** for each paragraph its first line, its text, the text that names its commands, and
    these commands. Where a text names commands of one world, it counts until the section ends.
    """
    named, world, programs, inside, start, lines = "", home, set(), False, 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        inside ^= line.startswith("```")
        if line.startswith("#") and not inside:
            named, world, programs = "", home, set()
        if line.strip():
            start, lines = (start if lines else number), [*lines, line]
            continue
        block = "\n".join(lines)
        if re.search(PROGRAM, block):
            named, programs = block, commands(block, world)
            worlds = {name for _, name in programs}
            world = worlds.pop() if len(worlds) == 1 else home
        elif not named and re.search(r"\b(its|the) defaults\b", block):
            named, programs = block, commands("ippo.py", home)  # the usual command
        plain = re.sub("`[^`]*`", "", block)
        if named and re.search(r"\d", plain) and re.search(RESULT, plain):
            yield start, block, named, programs
        lines = []


def candidates(page: Path) -> Iterator[str]:
    """A line for each paragraph of a page whose numbers may be old, with its oldest commit."""
    lines = git("blame", "-w", "-t", "--abbrev=11", "--", str(page)).splitlines()
    known = [re.match(r"\^?(\w+).*? (\d{9,}) ", line) for line in lines]
    ages = [(int(x[2]), x[1]) for x in known if x]
    home = page.stem if page.stem in WORLDS else ""
    for start, block, named, programs in paragraphs(page.read_text(encoding="utf-8"), home):
        numbered = [i for i, line in enumerate(block.splitlines(), start) if re.search(r"\d", line)]
        _, commit = min(ages[i - 1] for i in numbered)
        where = next(i for i in numbered if ages[i - 1][1] == commit)
        for command, world in sorted(programs):
            if set(commit) != {"0"} and (found := changes(command, world, commit, named)):
                name = page.relative_to(ROOT).as_posix()
                what = f"{command}.py in {world}"
                yield f"{name}:{where} ({commit[:8]}), {what}: {'; '.join(found)}"


def run() -> None:
    """Prints all candidates of the README and the docs."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for line in candidates(page):
            print(line)


if __name__ == "__main__":
    run()
