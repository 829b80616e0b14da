"""The habits of the house that a program can check."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = (
    "eqgrid",
    "agents",
    "eqgrid_lab",
    "eqgrid_exact",
    "eqgrid_play",
    "experiments",
    "benchmarks",
)
SOURCES = sorted(path for folder in ROOTS for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_a_module_is_abstract_or_final():
    """Type checkers then find classes that inherit from something else than abstract ones."""
    classes = [
        node
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    ]
    known: dict[str, ast.ClassDef] = {}
    while new := {
        node.name: node
        for node in classes
        if node.name not in known
        and any(ast.unparse(x).split("[")[0] in {"eqx.Module", *known} for x in node.bases)
    }:
        known |= new
    final = {
        name: any(ast.unparse(x) in ("final", "typing.final") for x in node.decorator_list)
        for name, node in known.items()
    }
    assert len(known) > 100
    assert not [name for name in known if name.startswith("Abstract") == final[name]]


def found_in(paths: Iterable[Path], find: Callable[[Path], object]) -> dict[str, object]:
    """What a search finds, by the file in which it finds something."""
    found = {path.relative_to(ROOT).as_posix(): find(path) for path in paths}
    return {name: what for name, what in found.items() if what}


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring, which may say as much as is needed."""
    first = function.body[0]
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    doc = first.end_lineno - first.lineno + 1 if is_doc else 0
    return function.end_lineno - function.lineno + 1 - doc


def test_no_function_is_over_60_lines():
    def long(path: Path) -> dict[str, int]:
        functions = [
            node
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        return {node.name: lines(node) for node in functions if lines(node) > 60}

    assert not found_in(SOURCES, long)


def private_imports(path: Path, tree: ast.Module) -> set[str]:
    """The private modules and names of other packages that a file imports."""
    here = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        start = here[: len(here) - node.level] if node.level else ()
        module = [*start, *(node.module.split(".") if node.module else [])]
        for full in ([*module, alias.name] for alias in node.names):
            private = [i for i, part in enumerate(full) if re.match(r"_(?!_)", part)]
            if full[0] in ROOTS and private and [*here[: private[0]]] != full[: private[0]]:
                found.add(".".join(full[: private[0] + 1]))
    return found


def test_packages_are_imported_by_their_public_names():
    assert not found_in(SOURCES, lambda path: private_imports(path, tree_of(path)))


def test_no_folder_holds_more_than_fifteen_modules():
    folders = {path.parent for path in SOURCES}
    sizes = {
        folder.relative_to(ROOT).as_posix(): len([*folder.glob("*.py")]) - 1 for folder in folders
    }
    assert not {name: size for name, size in sizes.items() if size > 15}


def test_all_figures_are_drawn_with_own_settings():
    def undecorated(path: Path) -> list[str]:
        return [
            function.name
            for function in ast.walk(tree_of(path))
            if isinstance(function, ast.FunctionDef)
            and "draws_figure" not in map(ast.unparse, function.decorator_list)
            and any(
                isinstance(node, ast.Call) and ast.unparse(node.func) == "new_figure"
                for node in ast.walk(function)
            )
        ]

    assert not found_in(SOURCES, undecorated)


def test_an_init_file_only_passes_names_on():
    def others(path: Path) -> list[str]:
        return [
            ast.unparse(node)
            for node in tree_of(path).body
            if not isinstance(node, ast.Expr)
            and not (
                isinstance(node, ast.ImportFrom)
                and all(alias.asname == alias.name for alias in node.names)
            )
        ]

    inits = [path for path in SOURCES if path.name == "__init__.py"]
    assert inits
    assert not found_in(inits, others)


LEARNER = """
import jax, agents, eqgrid
envs = eqgrid.Vectorize(eqgrid.AutoReset(eqgrid.LogEpisodes(eqgrid.make("goals"))), 4)
ppo = agents.PPO(rollout_length=8, num_minibatches=1)
run = agents.train(ppo, envs, agents.init_train_state(ppo, envs, jax.random.key(0)), num_updates=2)
policy = agents.trained_policy(run.state.policy, envs)
print(agents.evaluate(policy, envs, jax.random.key(1)).episode_return)
agents.save_policy("policy.safetensors", policy)
agents.load_policy("policy.safetensors")
"""


LIBRARIES = ("optax", "distrax", "tensorflow_probability", "tyro", "rich", "matplotlib", "PIL")
LIBRARIES += ("mujoco", "scipy.spatial", "gymnasium", "pettingzoo")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import eqgrid, eqgrid.interop", LIBRARIES),
        (
            "import eqgrid_lab.commands",
            ("distrax", "matplotlib", "PIL"),
        ),  # commands that train nothing
        (LEARNER, ("eqgrid_lab", "tyro", "rich", "matplotlib")),
    ],
    ids=["worlds", "commands", "learner"],
)
def test_nothing_heavy_is_imported_without_need(code, heavy, tmp_path):
    code += f"\nimport sys; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines()[-1] == "[]"
