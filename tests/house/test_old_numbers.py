"""Results in the docs that are older than the defaults they were measured with are found."""

import subprocess
from pathlib import Path

import old_numbers
import pytest

PAGE = """# Runs

Two seeds of `ippo.py --width 8` have a return of 146.6.

    nothing to see

# Else

`ippo.py --env.name goals` has a return of 0.5.
"""
SOURCE = """
class Experiment:
    total_steps: int = 100

class PPO:
    entropy_coefficient: float = number(0.01)

class Kitchen:
    run_settings: dict = {"ppo": PPO(entropy_coefficient=0.01), "num_envs": 64}

class GoalsWorld:
    horizon: int = 50
"""
COMMAND = "class IPPO:\n    width: int = 64\n"


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Writes files of a repository, and commits them."""
    monkeypatch.setattr(old_numbers, "ROOT", tmp_path)
    old_numbers.classes.cache_clear()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]

    def commit(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / {"page": "docs/page.md", "ippo": "experiments/ippo.py"}.get(
                name, f"agents/{name}.py"
            )
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run([*git, "add", "-A"], cwd=tmp_path, check=True)
        subprocess.run([*git, "commit", "-qm", "a"], cwd=tmp_path, check=True)

    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    yield commit
    old_numbers.classes.cache_clear()


def found(folder: Path) -> list[str]:
    return [line.partition(": ")[2] for line in old_numbers.candidates(folder)]


def test_results_that_are_older_than_a_default_are_found(commit, tmp_path):
    page = tmp_path / "docs/page.md"
    commit(page=PAGE, source=SOURCE, ippo=COMMAND)
    assert found(page) == []
    newer = SOURCE.replace("=0.01)", "=0.05)")
    commit(source=newer, ippo=COMMAND.replace("64", "32"))
    old_numbers.classes.cache_clear()
    # The width is in the text of the first paragraph, and the entropy is that of kitchens.
    assert found(page) == [
        "entropy_coefficient was 0.01, and is 0.05",
        "width was 64, and is 32",
    ]
    commit(page=PAGE.replace("146.6", "216.0"))
    old_numbers.classes.cache_clear()
    assert found(page) == ["width was 64, and is 32"]
