"""The file of a sweep becomes points, or one sentence."""

import math

import pytest

from eqgrid_lab.base import UsageError
from eqgrid_lab.runs.many import read_sweep, settings_of
from eqgrid_lab.settings import page


@pytest.fixture
def read(tmp_path):
    def read(text: str):
        (tmp_path / "sweep.toml").write_text(text)
        return read_sweep(tmp_path / "sweep.toml")

    return read


def test_a_grid_is_all_combinations(read):
    sweep = read('metric = "best_return_mean"\n[grid]\n"ppo.gamma" = [0.9, 0.99]\nseed = [0, 1]')
    assert sweep.points == (
        {"ppo.gamma": 0.9, "seed": 0},
        {"ppo.gamma": 0.9, "seed": 1},
        {"ppo.gamma": 0.99, "seed": 0},
        {"ppo.gamma": 0.99, "seed": 1},
    )
    assert (sweep.metric, sweep.at_once) == ("best_return_mean", 32)
    assert read("[grid.ppo]\ngamma = [0.9]").points == ({"ppo.gamma": 0.9},)


def test_random_points(read):
    text = """
    num_points = 400
    seed = 3
    [random]
    a = {uniform = [1, 3]}
    b = {log_uniform = [1e-4, 1e-2]}
    c = {int_uniform = [1, 3]}
    "d.e" = {choice = ["x", "y"]}
    """
    points = read(text).points
    assert len(points) == 400
    assert points == read(text).points, "equal files draw equal points"
    assert points != read(text.replace("seed = 3", "seed = 4")).points
    assert all(1 <= x["a"] <= 3 and 1e-4 <= x["b"] <= 1e-2 for x in points)
    assert sum(x["a"] for x in points) / 400 == pytest.approx(2, abs=0.15)
    assert sum(math.log10(x["b"]) for x in points) / 400 == pytest.approx(-3, abs=0.15)
    assert {x["c"] for x in points} == {1, 2, 3}
    assert {x["d.e"] for x in points} == {"x", "y"}


def test_random_points_differ(read):
    text = "num_points = 6\n[random]\na = {int_uniform = [1, 3]}\nb = {choice = [true, false]}"
    points = read(text).points
    assert len({tuple(point.values()) for point in points}) == len(points) == 6


def test_each_random_point_is_tried_with_the_whole_grid(read):
    points = read("num_points = 2\n[random]\na = {uniform = [0, 1]}\n[grid]\nseed = [0, 1]").points
    assert [x["seed"] for x in points] == [0, 1, 0, 1]
    assert points[0]["a"] == points[1]["a"] != points[2]["a"]


BAD_FILES = {
    "": "tries nothing",
    "x = ": "is no TOML",
    "many = 3": "has an unknown key 'many'",
    'method = "annealing"\n[grid]\na = [1]': "has 'annealing' for 'method', which must be one of",
    'metric = "speed"\n[grid]\na = [1]': "has 'speed' for 'metric'",
    "grid = 3": "has 3 for 'grid', which must be a table",
    "[grid]": "tries nothing",
    "[grid]\nseed = []": "needs a list of values for 'seed'",
    "[grid]\nseed = 3": "needs a list of values for 'seed'",
    "[grid]\nseed = [0, 0]": "has 0 twice for 'seed' in 'grid': name each value once.",
    "[grid.ppo]\ngamma = [1, 0.5, 1.0]": "has 1.0 twice for 'ppo.gamma' in 'grid'",
    "num_points = 3\n[random]\na = {choice = [1, 2]}": "samples 2 different points, but has 3",
    "num_points = 2\n[random]\na = {choice = [1, 1.0]}": "samples 1 different points, but has 2",
    "[grid]\nseed = [1]\n'seed.x' = [2]": "has 'seed' and 'seed.x'",
    f"[grid]\na = {list(range(200))}\nb = {list(range(200))}": (
        "has 40,000 points, but may have at most 10,000"
    ),
    'method = "grid"\n[random]\na = {uniform = [1, 2]}': "which is for method",
    'method = "random"\nnum_points = 2': "needs a table 'random'",
    "[random]\na = {uniform = [1, 2]}": "needs 'num_points'",
    "num_points = 0\n[random]\na = {uniform = [1, 2]}": "has 0 for 'num_points'",
    "num_points = true\n[random]\na = {uniform = [1, 2]}": "has True for 'num_points'",
    "num_points = 10001\n[random]\na = {uniform = [1, 2]}": "has 10,001 points",
    "num_points = 2\n[random]\na = [1, 2]": "needs one of uniform, log_uniform",
    "num_points = 2\n[random]\na = {normal = [1, 2]}": "needs one of uniform, log_uniform",
    "num_points = 2\n[random]\na = {uniform = [2, 1]}": "needs the lower number first",
    "num_points = 2\n[random]\na = {uniform = [1]}": "needs two numbers",
    "num_points = 2\n[random]\na = {uniform = [nan, 1]}": "needs two numbers",
    "num_points = 2\n[random]\na = {int_uniform = [0.5, 1]}": "needs two whole numbers",
    "num_points = 2\n[random]\na = {log_uniform = [0, 1]}": "both above 0",
    "num_points = 2\n[random]\na = {choice = []}": "needs a list after 'choice'",
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
    config = settings_of(page("ippo")(num_envs=8), {"ppo.gamma": 1, "env.layout": "ring"})
    assert (config.ppo.gamma, config.env.layout, config.num_envs) == (1.0, "ring", 8)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"ppo.gama": 0.9}, "unknown key 'ppo.gama'; did you mean 'ppo.gamma'?"),
        ({"out": "here"}, "unknown key 'out'"),
        ({"seed": "one"}, "has 'one' for 'seed', which must be a whole number"),
        ({"ppo.gamma": 2.0}, "gamma must be between 0 and 1"),
        ({"num_seeds": 2}, "has 'num_seeds': give it a list of seeds"),
        ({"width": 0}, "--width must be at least 1"),
        ({"critic": "state"}, "unknown key 'critic'"),
    ],
)
def test_settings_that_do_not_exist_are_one_sentence(point, words):
    with pytest.raises(UsageError, match=r"\A[^\n]*\Z") as error:
        settings_of(page("ippo")(), point)
    assert words in str(error.value)
