"""The numbers of the pages are those of the files in docs/numbers."""

import re
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


def test_numbers_are_typed_in_one_place():
    """Pages include them. Short numbers are also the numbers of other things."""
    numbers: dict[str, str] = {}
    for file in sorted((ROOT / "docs/numbers").glob("*.toml")):
        for name, value in tomllib.loads(file.read_text("utf-8")).get("values", {}).items():
            if len(value) > 3 and re.fullmatch(r"[\d,.]+", value):
                numbers[value] = f"{file.stem}.{name}"
    typed = []
    for page in make_numbers.pages():
        text = make_numbers.MARKER.sub("", make_numbers.prose(page.read_text("utf-8")))
        for number in re.findall(r"(?<![\w.,-])\d[\d,.]*\d(?![\w-])", text):
            if number in numbers:
                typed.append(f"{page.name}: {number} is {numbers[number]}")
    assert not typed


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


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGE + "a <!-- number kitchens.x --><!-- end -->", "number kitchens.x, which no file"),
        (PAGE + "a <!-- table kitchens.people --><!-- end -->", "table kitchens.people, which"),
        (PAGE + "a <!-- number kitchens.people -->162", "without <!-- end -->"),
        (PAGE.replace("<!-- end --> on", "on"), "kitchens.people --> without <!-- end -->"),
        (PAGE.replace("Agents score ", "- "), "begins a line with <!-- number kitchens.people"),
        ("# Title", "no page includes number kitchens.people, table kitchens.plain"),
    ],
)
def test_mistakes_of_pages_are_found(root, page, message):
    (root / "docs/page.md").write_text(page, "utf-8")
    with pytest.raises(make_numbers.Mistake, match=re.escape(message)):
        make_numbers.fill(root)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ('[values]\na = "1"\na = "2"', "is not valid TOML: Cannot overwrite"),
        ("[values]\na = 1", "value kitchens.a is not a string"),
        ("values = 1", "is not a section"),
        ("steps = 1", "`steps`, which is neither a text nor a section"),
        ('[values]\na = "1"\n[tables.a]\nheader = []', "both a value and a table that is named a"),
        ('[tables.a]\nheader = ["x"]', "needs a `header` and `rows`"),
        ('[tables.a]\nheader = ["x"]\nrows = ["y"]', "a row that is not a list"),
        ('[tables.a]\nheader = ["x"]\nrows = [[1]]', "has a cell that is not a string"),
        ('[tables.a]\nheader = ["x"]\nrows = [["1", "2"]]', "more or fewer cells"),
        ('[tables.a]\nheader = ["x"]\nrows = []\nalign = "lr"', "one of l, c and r"),
        ('[tables]\nheader = ["x"]', "`header` in `tables`, which is not a table"),
    ],
)
def test_mistakes_of_numbers_are_found(root, topic, message):
    (root / "docs/numbers/kitchens.toml").write_text(topic, "utf-8")
    with pytest.raises(make_numbers.Mistake, match=re.escape(message)):
        make_numbers.fill(root)
