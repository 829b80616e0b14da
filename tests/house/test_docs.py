"""Every code block of the README and the docs is run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from readers import reader as reader, run_program

import agents
import eqgrid.grid

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
LOGS = sorted((ROOT / "docs/log").glob("*.md"))
"""Experiments and old decisions, with the commands and names of their dates."""
SMALL = "--total-steps 512 --num-envs 4 --ppo.rollout-length 32 --env.horizon 40 --eval-episodes 4"
SMALL += " --eval-every 128"
"""As in other tests, which find what was compiled for these."""
SMALLER = {
    "throughput.py": "--num-envs 1 4 --repeats 1 --steps-per-run 64",
    "learning_speed.py": "--repeats 1 --total-steps 8192",
    "layouts.py": "--count 3",
    "optimum": "--horizon 5 --counters --no-video",
    "best-response": "--horizon 5 --no-video --episodes 2 --only proxy-0 --seats 0 --levels 0",
    "single_file_ppo.py": "--num-envs 4 --total-steps 1024",
    "body_speed.py": "--num-envs 4 --repeats 1 --steps-per-run 64 --model cartpole",
    "accelerator.py": "--num-envs 4 --repeats 1 --seeds 2 --total-steps 8192 --copy-gib 0.01",
    "crossplay": "--episodes 2",
    "evaluate": "--episodes 2",
    "partners": "--episodes 2",
    "kick_start.py": "--help",
    "bc.py": "--help",
    "my_ippo.py": f"{SMALL} --ppo.num-minibatches 4",
    "sweep.py": "--total-steps 512 --num-envs 4 --ppo.rollout-length 32 --env.horizon 40 "
    "--final-episodes 8 --points 2 --num-seeds 1",
}
"""Small settings of scripts; `--help` where these are not enough, or games of people are needed."""
NOT_RUN = ("play_load.py",)
"""Servers, which run until somebody ends them."""
EQGRID = Path(sys.executable).with_name("eqgrid")
PEERS = ("--peers", "--jaxmarl")
"""What these flags name is not there when the tests are run."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands(*pages: Path) -> list[str]:
    """The commands of pages that run a script, each once, in order."""
    lines = [
        line for page in pages for block in blocks(page, "bash") for line in block.splitlines()
    ]
    parts = [part.strip() for line in lines for part in line.partition(" #")[0].split("&&")]
    runs = r"python (experiments|benchmarks)/"
    runs += r"|eqgrid (evaluate|crossplay|partners|optimum|best-response) "
    own = ("--script", "--env.name")  # files of the user that only a page shows
    scripts = [x for x in parts if re.match(runs, x) and not any(flag in x for flag in own)]
    return list(dict.fromkeys(x for x in scripts if Path(x.split()[1]).name not in NOT_RUN))


def split(flags: list[str]) -> list[list[str]]:
    """Flags, each with its values."""
    starts = [i for i, word in enumerate(flags) if i == 0 or word.startswith("--")]
    return [flags[i:j] for i, j in zip(starts, [*starts[1:], len(flags)], strict=False)]


def make_runs(text: str, folder: Path) -> None:
    """Makes the folders of runs that a text names, each with the policy of a kitchen."""
    for name in set(re.findall(r"\bruns/([\w-]+)", text)):
        policies = ROOT / "experiments/policies"
        policy = policies / f"{name}.safetensors"
        policy = policy if policy.exists() else policies / "cramped.safetensors"
        (folder / "runs" / name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(policy, folder / "runs" / name / "policy.safetensors")


def write_blocks(page: Path, folder: Path) -> list[str]:
    """Writes the Python of a page into files: one for each block, and one for a tutorial. A block
    may begin with the name of its file.
    """
    code = blocks(page, "python")
    code = ["\n".join(code)] if page in TUTORIALS else code
    named = [re.match(r"# (\w+\.py)\n", block) for block in code]
    stem = page.stem.replace("-", "_")
    names = [name[1] if name else f"{stem}_{i}.py" for i, name in enumerate(named, start=1)]
    for name, block in zip(names, code, strict=True):
        (folder / name).write_text(block, encoding="utf-8")
    return names


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, reader):
    """Each alone, since readers reach pages from a search."""
    text = "".join(blocks(page, "python"))
    if 'glob("ippo-cramped-0-*")' in text:  # the README: its command names no folder
        text += "runs/ippo-cramped-0-20260101-120000"
    make_runs(text, tmp_path)
    for name in write_blocks(page, tmp_path):
        reader.submit(run_program, tmp_path, tmp_path / name).result()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("basedpyright") is None, reason="needs the [dev] extra")
def test_python_blocks_have_right_types(tmp_path):
    for text in (*PAGES, *TUTORIALS):
        write_blocks(text, tmp_path)
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(["basedpyright"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


OWN = ("world", "actions", "network", "algorithm", "reset")
"""The pages with programs of users, which strict type checkers accept."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("basedpyright") is None, reason="needs the [dev] extra")
def test_programs_of_users_have_right_types_for_strict_checkers(tmp_path):
    """What a strict checker says of them is about jax, equinox or optax, and not about eqgrid."""
    for name in OWN:
        write_blocks(ROOT / "docs" / f"your-own-{name}.md", tmp_path)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    settings |= {"reportMissingTypeStubs": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["basedpyright", "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    ours = {*dir(eqgrid), *dir(eqgrid.grid), *dir(agents)}
    wrong = []
    for found in json.loads(done.stdout)["generalDiagnostics"]:
        named = re.match(r'(Import|Type of) "(\w+)"', found["message"])
        unknown = found.get("rule", "").startswith("reportUnknown")
        if not unknown or (named and named[2] in ours):
            wrong.append(found["message"])
    assert not wrong


def run_command(command: str, folder: Path, reader: ProcessPoolExecutor) -> None:
    """Runs a command of a page in a folder, with small settings."""
    program, script, *flags = shlex.split(command)
    start = [EQGRID, script] if program == "eqgrid" else [ROOT / script]
    small = [] if "--help" in flags else shlex.split(SMALLER.get(Path(script).name, SMALL))
    flags = [part for part in split(flags) if part[0] not in {*PEERS, *small}]  # lists are joined
    words = [word for part in flags for word in part]
    reader.submit(run_program, folder, *start, *words, *small).result()


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(commands(*PAGES)))
def test_commands_run(command, tmp_path, reader):
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    make_runs(re.sub(r"--out \S+", "", command), tmp_path)
    run_command(command, tmp_path, reader)
    out = re.search(r"--out (\S+)", command)
    if out is not None and re.match(r"python experiments/(ippo|mappo|e3t|body)\.py", command):
        for name in ("result.json", "metrics.csv", "curve.png", "episode.gif"):
            assert (tmp_path / out[1] / name).stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.name)
def test_tutorials_run(page, tmp_path, reader):
    """What a reader types, in one folder: the commands, and then the programs."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    for command in commands(page):
        run_command(command, tmp_path, reader)
    for name in write_blocks(page, tmp_path):
        reader.submit(run_program, tmp_path, tmp_path / name).result()


@pytest.mark.slow
def test_the_own_network_is_a_change_of_a_script(tmp_path, reader):
    page = ROOT / "docs/your-own-network.md"
    text = (ROOT / "experiments/ippo.py").read_text(encoding="utf-8")
    for block in blocks(page, "diff"):
        old, new = (
            "".join(line[1:] for line in block.splitlines(keepends=True) if line[0] != other)
            for other in "+-"
        )
        assert text.count(old) == 1
        text = text.replace(old, new)
    script = tmp_path / "my_ippo.py"
    script.write_text(text, encoding="utf-8")
    (tmp_path / "net.py").write_text(blocks(page, "python")[0], encoding="utf-8")
    for command in blocks(page, "bash")[0].splitlines():
        run_command(command.replace("python my_ippo.py", f"python {script}"), tmp_path, reader)


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS, *LOGS], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(((?!https?:)[^)#]+)", prose)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda p: p.name)
def test_links_lead_to_headings(page):
    """`docs/make_site.py` checks those of the pages in `docs/`."""
    for target, anchor in re.findall(r"\]\(((?!https?:)[^)#]*)#([^)]+)\)", page.read_text("utf-8")):
        text = (page.parent / target if target else page).read_text("utf-8")
        titles = re.findall(r"^#+ (.+)$", text, re.M)
        slugs = [re.sub(r"[^\w -]", "", x.lower()).replace(" ", "-") for x in titles]
        assert anchor in slugs, (target, anchor)
