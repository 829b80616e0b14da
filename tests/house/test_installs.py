"""Wheels, sdists and installs of eqgrid: what they have, and what they leave to projects.

Nothing is downloaded: the new virtual environments see the libraries of the one that runs this.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from installing import ROOT, build, new_environment, pip_install, run

from eqgrid_lab._eqgrid import COMMANDS, COPIED

pytestmark = pytest.mark.slow
FOLDERS = ("configs", "policies")
KITCHENS = "heldout/kitchens.toml"
CLONES_ONLY = {"heldout/budgets.csv", "heldout/strangers.csv", "skypilot.yaml"}
"""Data under `experiments/` that only a clone has: results in docs/partners.md, and a task."""
LOOK = """
import importlib.util, json
import agents, eqgrid
import experiments.mine
from agents.files import shipped

tests = importlib.util.find_spec("tests")
policy = agents.load_policy(shipped("policies/ring.safetensors"))
print(json.dumps({
    "agents": agents.__file__,
    "eqgrid": eqgrid.__file__,
    "mine": experiments.mine.WORTH,
    "ippo": importlib.util.find_spec("experiments.ippo") is not None,
    "tests": [] if tests is None else list(tests.submodule_search_locations),
    "shipped": str(shipped(".")),
    "policy": type(policy.actor_critic).__name__,
}))
"""


def install(folder: Path, *what: str | Path) -> Path:
    """A virtual environment with eqgrid, beside the libraries that are installed here.

    **Returns:** the folder of its programs.
    """
    packages = new_environment(folder)
    here = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # The paths in files of these folders are not read, and so not that of an editable eqgrid.
    (packages / "libraries.pth").write_text("\n".join(here), encoding="utf-8")
    return pip_install(folder, *what)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The file of the wheel."""
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def wheel(built, tmp_path_factory) -> Path:
    """The programs of an install from a wheel."""
    return install(tmp_path_factory.mktemp("wheel") / "venv", built)


@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> Path:
    """The programs of an editable install."""
    return install(tmp_path_factory.mktemp("editable") / "venv", "--editable", ROOT)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with experiments of its own, in a folder without `__init__.py`."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "experiments").mkdir()
    (folder / "experiments" / "mine.py").write_text("WORTH = 3\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_project_has_its_own_experiments(kind, project, request):
    programs = request.getfixturevalue(kind)
    done = run(programs / "python", "-c", LOOK, cwd=project)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["mine"] == 3
    # The path of an editable install is the clone, after the project's own folders.
    shown = kind == "editable"
    assert (seen["ippo"], str(ROOT / "tests") in seen["tests"]) == (shown, shown)
    place = ROOT if shown else programs.parent
    assert Path(seen["agents"]).is_relative_to(place)
    assert Path(seen["eqgrid"]).is_relative_to(place)
    assert Path(seen["shipped"]).is_relative_to(place)
    assert seen["policy"] == "ActorCritic"
    files = [path for name in FOLDERS for path in (ROOT / "experiments" / name).iterdir()]
    for path in filter(Path.is_file, files):
        copy = Path(seen["shipped"]) / path.parent.name / path.name
        assert copy.read_bytes() == path.read_bytes()
    assert tomllib.loads((Path(seen["shipped"]) / KITCHENS).read_text(encoding="utf-8"))


def test_a_foreign_package_of_our_name_is_one_sentence(wheel, tmp_path):
    """`openai-agents` installs a folder `agents`, too, which may replace ours."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("class Agent: ...\n", encoding="utf-8")
    environment = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    page = "import runpy; runpy.run_path('ippo.py', run_name='__main__')"
    shutil.copyfile(ROOT / "experiments" / "ippo.py", tmp_path / "ippo.py")
    for program in (page, "import eqgrid_lab.commands"):
        done = run(wheel / "python", "-c", environment + program, cwd=tmp_path)
        assert done.returncode == 1
        (sentence,) = done.stderr.splitlines()
        assert str(tmp_path / "agents" / "__init__.py") in sentence
        assert "eqgrid-core" in sentence


EXPLAIN = """
import contextlib, io, json, sys
from eqgrid_lab._eqgrid import COMMANDS, eqgrid

said = {}
for command in (name for topic in COMMANDS.values() for name in topic):
    sys.argv[:] = ["eqgrid", command, "--help"]
    code = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            eqgrid()
        except SystemExit as end:
            code = end.code
    said[command] = (code or 0, out.getvalue())
print(json.dumps(said))
"""
"""Prints the help of commands, in one process, since each start of one takes seconds."""


def test_every_command_of_a_wheel_explains_itself(wheel, tmp_path):
    done = run(wheel / "python", "-c", EXPLAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {*said} == {name for topic in COMMANDS.values() for name in topic}
    assert all(code == 0 and "usage" in text for code, text in said.values())
    assert run(wheel / "eqgrid", cwd=tmp_path).stdout.count("\n  eqgrid ") == len(said)
    assert not [*tmp_path.iterdir()]


def tracked(*folders: str) -> list[str]:
    """The files of some folders that are under version control."""
    command = ["git", "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("This is no clone of the repository.")
    return [name for name in listed.stdout.split("\0") if name]


def test_a_wheel_has_all_files_and_is_small(built):
    archive = zipfile.ZipFile(built)
    names = archive.namelist()
    assert len(names) == len({*names})
    assert built.stat().st_size < 12 * 2**20
    assert {*tracked("eqgrid", "agents")} <= {*names}
    paths = [name.removeprefix("experiments/") for name in tracked("experiments")]
    data = {path for path in paths if not path.endswith(".py")}
    assert len(data) > 90
    assert {path for path in data if f"agents/shipped/{path}" not in names} == CLONES_ONLY
    for path in data - CLONES_ONLY:
        shipped = archive.read(f"agents/shipped/{path}")
        assert shipped == (ROOT / "experiments" / path).read_bytes()
    targets = {command.target for topic in COMMANDS.values() for command in topic.values()}
    scripts = {x for x in targets if x.endswith(".py")} | {f"{name}.py" for name in COPIED}
    assert {f"agents/shipped/{script}" for script in scripts} <= {*names}


def test_an_sdist_has_all_files(tmp_path):
    files = [name for name in tracked(".") if not name.startswith(".")]
    with tarfile.open(build(ROOT, tmp_path / "sdist", "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*files} <= names


def test_a_wheel_copies_its_pages(wheel, tmp_path):
    copy = [wheel / "eqgrid", "new", "ippo", "my_ippo.py"]
    done = run(*copy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "experiments" / "ippo.py").read_bytes()
    assert (tmp_path / "my_ippo.py").read_bytes() == page
    (tmp_path / "my_ippo.py").write_text("mine", encoding="utf-8")
    again = run(*copy, cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr.startswith("error: The file 'my_ippo.py' exists: ")
    assert again.stderr.count("\n") == 1
    assert (tmp_path / "my_ippo.py").read_text(encoding="utf-8") == "mine"


QUICK = ["--total-steps", "128", "--num-envs", "4", "--ppo.rollout-length", "8", "--ppo.num-epochs"]
QUICK += ["1", "--eval-every", "64", "--eval-episodes", "2"]
QUICK += ["--ppo.num-minibatches", "2", "--env.horizon", "8"]


def test_a_wheel_runs_the_world_of_a_page_with_the_commands_of_that_page(wheel, tmp_path):
    text = (ROOT / "docs" / "your-own-world.md").read_text(encoding="utf-8")
    (tmp_path / "park.py").write_text(block(text, "python"), encoding="utf-8")
    for line in block(text, "bash").splitlines():
        program, command, *flags = shlex.split(line)
        small = QUICK if command in ("ippo", "mappo") else ["--episodes", "2"]
        if "--resume" in flags:
            flags, small = ["192" if flag == "5000000" else flag for flag in flags], []
        done = run(wheel / program, command, *flags, *small, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def block(text: str, language: str) -> str:
    """The first block of code in a language on a page."""
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    return found[1]
