"""The file of a sweep becomes a space of settings, or one sentence."""

import pytest

from eqgrid_lab.base import UsageError
from eqgrid_lab.runs._space import read_sweep, settings_of
from eqgrid_lab.settings import shipped_script


@pytest.fixture
def read(tmp_path):
    def read(text: str):
        (tmp_path / "sweep.toml").write_text(text)
        return read_sweep(tmp_path / "sweep.toml")

    return read


def test_a_grid_is_all_combinations(read):
    sweep = read('metric = "best_return_mean"\n[space]\n"ppo.gamma" = [0.9, 0.99]\nwidth = [8, 16]')
    assert list(sweep.grid()) == [
        {"ppo.gamma": 0.9, "width": 8},
        {"ppo.gamma": 0.9, "width": 16},
        {"ppo.gamma": 0.99, "width": 8},
        {"ppo.gamma": 0.99, "width": 16},
    ]
    assert (sweep.size(), sweep.metric, sweep.at_once) == (4, "best_return_mean", 32)
    assert list(read("[space.ppo]\ngamma = [0.9]").grid()) == [{"ppo.gamma": 0.9}]


def test_a_list_can_be_a_choice(read):
    sweep = read('[space]\n"env.practice" = [[], ["ring", "forced"]]\nwidth = [8]')
    params = {"env.practice": '["ring", "forced"]', "width": 8}
    assert sweep.settings(params) == {"env.practice": ["ring", "forced"], "width": 8}


RANGE = "[space]\na = {low = 1, high = 2}"
BAD_FILES = {
    "": "has no points",
    "x = ": "is not valid TOML",
    "many = 3": "has an unknown key 'many'",
    'sampler = "annealing"\n[space]\na = [1]': "wrong value for 'sampler'",
    "[space]\nwidth = []": "needs a list of values, or a range",
    "[space]\nwidth = [8, 8]": "has 8 twice for 'width': list each value once.",
    "[space]\nwidth = [1]\n'width.x' = [2]": "has 'width' and 'width.x'",
    f"[space]\na = {list(range(200))}\nb = {list(range(200))}": (
        "has 40,000 points, but may have at most 10,000"
    ),
    RANGE: "needs a list of values for 'a', since its sampler is a grid",
    f'sampler = "tpe"\n{RANGE}': "needs 'num_points'",
    f"seeds = 1025\n{RANGE}": "has 1025 for 'seeds': give a whole number from 1 to 1024",
    "[space]\na = {low = 2, high = 1}": "needs a low that is less than high",
    "[space]\na = {low = 0.0, high = 1.0, log = true}": "cannot draw 'a': ",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_what_is_wrong_is_one_sentence(read, text):
    with pytest.raises(UsageError) as error:
        read(text)
    said = str(error.value)
    assert said.startswith("The sweep file ")
    assert BAD_FILES[text] in said
    assert "\n" not in said


def test_a_point_is_a_run_of_its_own():
    config = settings_of(shipped_script("ippo")(num_envs=8), {"ppo.gamma": 1, "env.layout": "ring"})
    assert (config.ppo.gamma, config.env.layout, config.num_envs) == (1.0, "ring", 8)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"ppo.gama": 0.9}, "unknown key 'ppo.gama'"),
        ({"seed": 2}, "has 'seed': give the number of seeds as 'seeds'"),
        ({"width": "wide"}, "'width'"),
    ],
)
def test_settings_that_do_not_exist_are_one_sentence(point, words):
    with pytest.raises(UsageError, match=r"\A[^\n]*\Z") as error:
        settings_of(shipped_script("ippo")(), point)
    assert words in str(error.value)
