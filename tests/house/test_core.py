"""The distribution `eqgrid-core`: the package `eqgrid` alone, and five libraries."""

import importlib.metadata
import json
import tomllib
import zipfile
from pathlib import Path

import pytest
from installing import ROOT, build, new_environment, pip_install, run
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow
CORE = ROOT / "packaging" / "core"
FIVE = {"jax", "numpy", "equinox", "jaxtyping", "beartype"}
WORLDS = """
import json, sys
import equinox as eqx, jax, numpy as np
import eqgrid, eqgrid.interop
from eqgrid.envs import ENVIRONMENTS
from eqgrid.envs.overcooked.people import human_games
from eqgrid.interop._window import Window

jax.config.update("jax_enable_compilation_cache", False)  # whose limit needs filelock
steps, said = [], {}
for name in ENVIRONMENTS:
    env = eqgrid.make(name)
    observation, state = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), env.num_agents)
    actions = jax.vmap(env.action_space.sample)(keys)
    timestep, state = eqx.filter_jit(env.step)(jax.random.key(2), state, actions)
    steps.append(int(state.time))
calls = {
    "picture": lambda: env.render(state),
    "window": lambda: Window("game", 8).show(np.zeros((2, 2, 3), np.uint8)),
    "gymnasium": lambda: eqgrid.interop.to_gymnasium,
    "games": human_games,
    "bodies": lambda: __import__("eqgrid.envs.bodies"),
}
for name, call in calls.items():
    try:
        call()
    except ImportError as error:
        said[name] = str(error)
print(json.dumps({"steps": steps, "said": said, "imported": [*sys.modules]}))
"""
SAID = {
    "picture": ("Pictures need pillow", "pictures"),
    "window": ("A window needs matplotlib", "interop"),
    "gymnasium": ("to_gymnasium needs gymnasium", "interop"),
    "games": ("The human games are in the package overcooked-ai", "human"),
    "bodies": ("MuJoCo bodies need MuJoCo MJX (No module named 'mujoco')", "mjx"),
}
"""Sentences about missing libraries: what needs them, and the extra that installs them."""
HEAVY = {"scipy", "msgspec", "rich", "PIL", "matplotlib", "psutil", "tyro", "optax", "distrax"}


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def requirements(folder: Path) -> set[str]:
    """The requirements of a project and all of its extras."""
    written = project(folder)
    return {*written["dependencies"]}.union(*written["optional-dependencies"].values())


def needed(names: set[str]) -> set[str]:
    """Distributions with all that they need, without extras."""
    found, new = set(), set(names)
    while new:
        found |= new
        lines = [line for name in new for line in importlib.metadata.requires(name) or ()]
        wanted = [Requirement(line) for line in lines]
        new = {x.name for x in wanted if not x.marker or x.marker.evaluate({"extra": ""})} - found
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(CORE, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    """The programs of an environment with the wheel and the libraries that it needs, as links."""
    folder = tmp_path_factory.mktemp("core") / "venv"
    packages = new_environment(folder)
    for name in needed(FIVE):
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).is_symlink():
                (packages / top).symlink_to(importlib.metadata.distribution(name).locate_file(top))
    return pip_install(folder, wheel)


def test_at_most_14_packages_are_installed():
    assert {Requirement(line).name for line in project(CORE)["dependencies"]} == FIVE
    assert len(needed(FIVE)) + 1 <= 14


def test_its_requirements_and_version_are_those_of_eqgrid(wheel):
    assert requirements(CORE) - requirements(ROOT) == {"eqgrid-core[pictures]"}
    assert wheel.name == f"eqgrid_core-{project(ROOT)['version']}-py3-none-any.whl"


def test_a_wheel_has_one_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"eqgrid", "eqgrid_core"}
    sources = {x.relative_to(ROOT).as_posix() for x in (ROOT / "eqgrid").rglob("*.py")}
    assert {x for x in names if x.endswith(".py")} == sources
    assert {"eqgrid/py.typed", "eqgrid/envs/bodies/biped.xml"} <= {*names}


def test_all_grid_worlds_step_and_what_is_missing_is_one_sentence(programs, tmp_path):
    done = run(programs / "python", "-W", "error", "-c", WORLDS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["steps"] == [1] * 9
    assert seen["said"] == {
        name: f"{needs}, which is not installed: pip install 'eqgrid-core[{extra}]'."
        for name, (needs, extra) in SAID.items()
    }
    assert not {name.partition(".")[0] for name in seen["imported"]} & (HEAVY | {"agents"})
