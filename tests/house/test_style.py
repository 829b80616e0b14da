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
ROOTS = ("eqgrid", "agents", "eqgrid_lab", "experiments", "benchmarks")
SOURCES = sorted(path for folder in ROOTS for path in (ROOT / folder).rglob("*.py"))
MODULE_ROOT = "eqx.Module"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def classes() -> dict[str, tuple[Path, ast.ClassDef]]:
    return {
        node.name: (path, node)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }


def bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).split("[")[0] for base in node.bases]


@functools.cache
def modules() -> dict[str, ast.ClassDef]:
    """Every class that is an `eqx.Module`, however far down."""
    known = classes()
    found: dict[str, ast.ClassDef] = {}
    while True:
        new = {
            name: node
            for name, (_, node) in known.items()
            if name not in found and any(b == MODULE_ROOT or b in found for b in bases(node))
        }
        if not new:
            return found
        found |= new


def found_in(paths: Iterable[Path], find: Callable[[Path], object]) -> dict[str, object]:
    """What a search finds, by the file in which it finds something."""
    found = {path.relative_to(ROOT).as_posix(): find(path) for path in paths}
    return {name: what for name, what in found.items() if what}


def test_a_module_is_abstract_or_final():
    final = {
        name: any(ast.unparse(x) in ("final", "typing.final") for x in node.decorator_list)
        for name, node in modules().items()
    }
    assert len(modules()) > 100
    assert not [name for name in modules() if name.startswith("Abstract") == final[name]]


def test_only_abstract_modules_are_inherited_from():
    inherited = {
        name: set(bases(node)) - {MODULE_ROOT, "Generic"} for name, node in modules().items()
    }
    assert not {
        name: wrong
        for name, parents in inherited.items()
        if (wrong := {x for x in parents if not x.split(".")[-1].startswith("Abstract")})
    }


def methods(node: ast.ClassDef) -> dict[str, bool]:
    """The methods of a class by name, and whether each is abstract, without initialisers and
    properties.
    """
    found = {x.name: x for x in node.body if isinstance(x, ast.FunctionDef)}
    marks = {name: " ".join(map(ast.unparse, x.decorator_list)) for name, x in found.items()}
    skipped = ("__init__", "__check_init__")
    return {
        name: "abstract" in mark
        for name, mark in marks.items()
        if name not in skipped and "property" not in mark
    }


def test_no_concrete_method_of_a_module_is_overridden():
    """A method is read in one place (Equinox's documentation, "Abstract/final design pattern")."""
    known = classes()
    overridden = []
    for name, node in modules().items():
        above = [base for base in bases(node) if base in known]
        while above:
            parent = known[above.pop()][1]
            above += [base for base in bases(parent) if base in known]
            concrete = {x for x, abstract in methods(parent).items() if not abstract}
            overridden += [f"{name}.{x}" for x in concrete & methods(node).keys()]
    assert not overridden


def test_no_function_looks_like_a_class():
    def capitalised(path: Path) -> list[str]:
        functions = [x for x in ast.walk(tree_of(path)) if isinstance(x, ast.FunctionDef)]
        return [x.name for x in functions if x.name[0].isupper()]

    assert not found_in(SOURCES, capitalised)


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


def test_no_closure_is_inside_a_closure():
    def depth(node: ast.AST, inside: int = 0) -> int:
        here = inside + isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        return max([here, *(depth(child, here) for child in ast.iter_child_nodes(node))])

    assert not found_in(SOURCES, lambda path: depth(tree_of(path)) > 2)


PRIVATE = {
    "agents.files": {"_checkpoint", "_description", "_trajectory_files"},
    "agents.training": {"_processes", "_train"},
    "eqgrid.envs.overcooked": {"_ways"},
    "eqgrid.envs.overcooked.layouts": {"_layouts"},
    "eqgrid.envs.overcooked.people": {"_files"},
    "eqgrid.grid": {"_layout"},
    "eqgrid.interop": {"_episode", "_foreign", "_window"},
    "eqgrid.interop.mjx": {"_env", "_state"},
    "eqgrid_lab": {"_pages"},
    "eqgrid_lab.base": {"_command", "_distributed", "_remote", "_run_files"},
    "eqgrid_lab.commands": {
        "_best_responses",
        "_crossplay",
        "_evaluation",
        "_partners",
        "_report",
        "_status",
        "_submit",
    },
    "eqgrid_lab.folders": {"_folder"},
    "eqgrid_lab.play": {"_session"},
    "eqgrid_lab.cloning": {"_program", "_report"},
    "eqgrid_lab.runs": {
        "_conclusion",
        "_curriculum",
        "_display",
        "_evaluator",
        "_hooks",
        "_identity",
        "_members",
        "_policies",
        "_program",
        "_report",
        "_run",
        "_space",
        "_sweep",
    },
    "eqgrid_lab.settings": {"_config"},
    "eqgrid_lab.show": {"_loggers", "_report"},
    "eqgrid_lab.static": {
        "_export",
        "_export_page",
        "_models",
        "_onnx",
        "_random",
        "_sheet",
        "_world",
    },
    "eqgrid_lab.study": {"_study_runner"},
    "eqgrid_lab.web": {"_app", "_play_command"},
    "eqgrid_lab.worlds": {"_foreign"},
}
"""The private modules that tests of something private import, by package."""


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


def test_only_tests_of_something_private_import_it():
    tests = sorted((ROOT / "tests").rglob("*.py"))
    found = found_in(tests, lambda x: private_imports(x, ast.parse(x.read_text("utf-8"))))
    assert set().union(*found.values()) == {
        f"{p}.{m}" for p, names in PRIVATE.items() for m in names
    }


@pytest.mark.parametrize("package", ["eqgrid", "agents"])
def test_a_library_shows_only_what_it_exports(package):
    tree = tree_of(ROOT / package / "__init__.py")
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    exported = {alias.asname for node in imports for alias in node.names}
    # In a process of its own: under `python -m pytest`, the import hook adds a name to the package.
    code = f"import {package}; print(*dir({package}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    shown = {x for x in done.stdout.split() if not x.startswith("_")}
    packages = {path.stem for path in (ROOT / package).iterdir() if path.suffix in ("", ".py")}
    assert shown - packages == exported


def test_no_folder_holds_more_than_fifteen_modules():
    folders = {path.parent for path in SOURCES}
    sizes = {
        folder.relative_to(ROOT).as_posix(): len([*folder.glob("*.py")]) - 1 for folder in folders
    }
    assert not {name: size for name, size in sizes.items() if size > 15}


FOOD = "onion|tomato|dish|soup|pot|recipe|cook|kitchen|serving|deliver"


def test_the_engine_knows_no_kitchen():
    def kitchen(path: Path) -> list[str]:
        words = re.findall(rf"[a-z]*(?:{FOOD})[a-z]*", path.read_text(encoding="utf-8").lower())
        return [word for word in words if word not in ("potential", "potentially", "spot")]

    assert not found_in((ROOT / "eqgrid" / "grid").rglob("*.py"), kitchen)


LATE = {
    "eqgrid/envs/_make.py": ("imported", "module"),
    "eqgrid/interop/_adapters.py": ("__getattr__", "_ADAPTERS[name]"),
    "eqgrid/errors.py": ("import_optional", "module"),
    "agents/policies/_heads.py": ("_distrax", "'distrax'"),
    "eqgrid_lab/base/_named.py": ("import_named", "module_name"),
    "eqgrid_lab/base/_remote.py": ("__init__", "'fsspec'"),
    "eqgrid_lab/show/_figure.py": ("_matplotlib", "name"),
    "eqgrid_lab/worlds/_foreign.py": ("load", "self.module"),
    "eqgrid_lab/commands/_submit.py": ("submitit", "module"),
    "eqgrid_lab/web/_play_command.py": ("_server", "'eqgrid_lab.web._app'"),
    "eqgrid_lab/static/_export_page.py": ("_tools", "'eqgrid_lab.static._export'"),
    "eqgrid_lab/runs/_space.py": ("optuna", "f'optuna.{module}'"),
    "eqgrid_lab/show/_loggers.py": ("_import", "_EXTRAS[name]"),
    "eqgrid_lab/show/_returns.py": ("_scipy_stats", "'scipy.stats'"),
    "benchmarks/baselines/worker.py": ("serve", "f'with_{library}'"),
}
"""Files in which one function imports one thing late: the function, and what it imports."""


def test_what_is_imported_late_is_named_above():
    def late(path: Path) -> list[tuple[str, str]]:
        return [
            (function.name, ast.unparse(node.args[0]))
            for function in ast.walk(tree_of(path))
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
        ]

    assert found_in(SOURCES, late) == {name: [what] for name, what in LATE.items()}


def test_matplotlib_is_imported_only_for_its_types():
    def matplotlib(path: Path) -> list[str]:
        checked = {
            inner
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        names = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Import | ast.ImportFrom) and node not in checked
            for alias in node.names
        }
        return [name for name in names if name and name.split(".")[0] == "matplotlib"]

    assert not found_in(SOURCES, matplotlib)


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
        ("import eqgrid_lab.commands", ("distrax",)),  # commands that train nothing
        (LEARNER, ("eqgrid_lab", "tyro", "rich", "matplotlib")),
    ],
    ids=["worlds", "commands", "learner"],
)
def test_nothing_heavy_is_imported_without_need(code, heavy, tmp_path):
    code += f"\nimport sys; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines()[-1] == "[]"
