"""The numbers of the pages are those of the files in docs/numbers."""

import tomllib
from pathlib import Path

import make_numbers
import pytest

from eqgrid.envs.overcooked_v2 import KITCHENS, OvercookedV2

ROOT = Path(__file__).parents[2]
TOPIC = """
command = "python measure.py"

[values]
people = "162"

[tables.plain]
header = ["", "`cramped`"]
rows = [["one seed", "260"]]
"""
PAGE = """# Title

Agents score <!-- number kitchens.people --><!-- end --> on average.

<!-- table kitchens.plain -->
<!-- end -->
"""
TABLE = "\n\n| | `cramped` |\n| --- | ---: |\n| one seed | 260 |\n\n"


def test_pages_are_up_to_date():
    """python docs/make_numbers.py writes them. No name is unknown, and no number is unused."""
    assert make_numbers.fill(write=False) == []


@pytest.mark.slow
def test_numbers_of_overcooked_v2_are_those_of_its_kitchens():
    values = tomllib.loads((ROOT / "docs/numbers/worlds.toml").read_text("utf-8"))["values"]
    envs = [OvercookedV2(name, observation="features") for name in KITCHENS]
    agents = {env.num_agents for env in envs}
    features = {len(env.observation.names(env.layout)) for env in envs}
    assert values["overcooked_v2_agents"] == " or ".join(map(str, sorted(agents)))
    assert values["overcooked_v2_features"] == f"{min(features)} to {max(features)}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a page and a file of numbers."""
    (tmp_path / "docs/numbers").mkdir(parents=True)
    (tmp_path / "docs/page.md").write_text(PAGE, "utf-8")
    (tmp_path / "docs/numbers/kitchens.toml").write_text(TOPIC, "utf-8")
    return tmp_path


def test_values_and_tables_are_written_once(root):
    assert make_numbers.fill(root, write=False) == ["docs/page.md"]
    assert (root / "docs/page.md").read_text("utf-8") == PAGE
    assert make_numbers.fill(root) == ["docs/page.md"]
    text = (root / "docs/page.md").read_text("utf-8")
    assert "score <!-- number kitchens.people -->162<!-- end --> on average" in text
    assert f"<!-- table kitchens.plain -->{TABLE}<!-- end -->" in text
    assert make_numbers.fill(root) == []


def test_markers_in_code_are_left_alone(root):
    text = PAGE + "\n```\n<!-- number a.b -->1<!-- end -->\n```\n"
    (root / "docs/page.md").write_text(text, "utf-8")
    make_numbers.fill(root)
    assert "<!-- number a.b -->1<!-- end -->" in (root / "docs/page.md").read_text("utf-8")


def test_a_number_that_no_file_has_is_found(root):
    (root / "docs/page.md").write_text(PAGE + "a <!-- number kitchens.x --><!-- end -->", "utf-8")
    with pytest.raises(make_numbers.Mistake, match=r"kitchens\.x, which no file"):
        make_numbers.fill(root)
