"""The benchmarks: that they measure what they say, and how they say no. `test_docs` runs them."""

import json
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from eqgrid import AutoReset
from eqgrid.envs import KITCHENS, make

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SPEC = {"layout": "cramped", "observation": "planes", "num_agents": 2}


@pytest.fixture
def contenders(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS / "contenders")
    import with_eqgrid  # noqa: PLC0415
    import worker  # noqa: PLC0415

    return worker, with_eqgrid


def run(monkeypatch, script, *args):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    module = __import__(script)
    monkeypatch.setattr(sys, "argv", [script, *map(str, args)])
    with pytest.raises(SystemExit) as stop:
        module.main()
    return stop.value.code


@pytest.mark.parametrize("mode", ["stored", "summed", "dynamics"])
def test_a_rollout_is_that_of_the_environment(contenders, key, mode):
    worker, library = contenders
    params, reset, step = library.build(SPEC, 3)
    states = jax.jit(reset)(params, jax.random.split(key, 3))
    actions = jax.random.randint(key, (5, 3, 2), 0, 6, jnp.int32)
    keys = jax.random.split(key, 5)
    program = jax.jit(worker.rollout, static_argnums=(0, 1))
    after, (kept, rewards) = program(step, mode, params, states, keys, actions, None)

    env = AutoReset(make("overcooked", layout="cramped"))
    one_step = eqx.filter_jit(env.step)
    for i in range(3):
        _, state = env.reset(key)
        for t in range(5):
            timestep, state = one_step(keys[t], state, actions[t, i])
            np.testing.assert_array_equal(rewards[t, i], timestep.reward)
            if mode == "stored":
                np.testing.assert_array_equal(kept[t, i], timestep.observation)
            elif mode == "summed":
                assert int(kept[t, i]) == np.asarray(timestep.observation).sum()
        assert eqx.tree_equal(state, jax.tree.map(lambda x, i=i: x[i], after))


def test_a_mixed_batch_has_all_kitchens(contenders, key):
    _, library = contenders
    params, _, _ = library.build(SPEC | {"layout": "mixed"}, 7)
    fixtures = np.asarray(params.env.layout.fixtures)
    sizes = [len(text.strip().splitlines()) for text in KITCHENS.values()]
    assert fixtures.shape[:2] == (7, max(sizes))
    np.testing.assert_array_equal(fixtures[0], fixtures[5])
    assert len({tuple(x.ravel()) for x in fixtures}) == 5


def test_more_cooks_stand_on_free_cells_of_their_own(contenders):
    _, library = contenders
    params, _, _ = library.build(SPEC | {"num_agents": 5}, 1)
    positions = np.asarray(params.env.layout.start.bodies.position)
    assert len({tuple(p) for p in positions}) == 5
    with pytest.raises(ValueError, match="7 cooks do not fit onto the 6 free cells"):
        library.build(SPEC | {"num_agents": 7}, 1)


def test_a_worker_answers_in_lines_and_survives_what_does_not_fit(contenders, tmp_path):
    worker, _ = contenders
    case = {"spec": SPEC, "mode": "stored", "num_envs": 2, "num_steps": 16}
    requests = [
        {"do": "start", "what": case | {"max_bytes": 100.0}},
        {"do": "start", "what": case | {"max_bytes": 1e6}},
        {"do": "run"},
    ]
    with (tmp_path / "answers").open("w+") as answers:
        worker.serve("eqgrid", map(json.dumps, requests), answers)
        answers.seek(0)
        about, refused, report, timed = map(json.loads, answers)
    assert about["jax"] == jax.__version__
    assert "8 steps do not fit" in refused["error"]
    assert report["state_bytes"] == 72
    assert report["kept_bytes"] == 2 * 4 * 5 * 26 + 2 * 4
    assert timed["seconds"] > 0


@pytest.mark.parametrize(
    ("script", "args", "code", "says"),
    [
        ("throughput", ["--num-envs", "0"], 2, "--num-envs must be at least 1"),
        ("throughput", ["--cooks", "3", "--peers", "python"], 2, "leave out --peers"),
        ("throughput", ["--modes", "nothing"], 2, "modes"),
        ("throughput", ["--layout", "nowhere", "--num-envs", "1"], 1, "nowhere"),
        ("throughput", ["--peers", "no/python", "--num-envs", "1"], 1, "'no/python' cannot be run"),
        ("throughput", ["--peers", sys.executable, "--libraries", "cogrid"], 1, "No module named"),
        ("learning_speed", ["--peers", "python"], 2, "--peers and --jaxmarl go together"),
        ("learning_speed", ["--repeats", "0"], 2, "must be at least 1"),
        ("accelerator", ["--seeds", "0"], 2, "must be at least 1"),
    ],
)
def test_bad_usage_is_one_line(monkeypatch, capsys, tmp_path, script, args, code, says):
    assert run(monkeypatch, script, *args, "--out", tmp_path) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert says in error


class Stub:
    """A library in no process: JaxMARL runs out of memory, CoGrid's process dies."""

    def __init__(self, library, python, share):
        self.library = library
        self.about = {"device": "another" if str(python) == "elsewhere" else "one", "jax": "1"}

    def ask(self, do, what=None):
        import throughput  # noqa: PLC0415

        if self.library == "cogrid":
            raise throughput.RunError("gone")
        if do == "start":
            return {"num_steps": what["num_steps"], "trace_seconds": 1.0, "compile_seconds": 1.0}
        return {"error": "out of memory"} if self.library == "jaxmarl" else {"seconds": 2.0}

    def stop(self):
        pass


@pytest.fixture
def throughput(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import throughput  # noqa: PLC0415

    monkeypatch.setattr(throughput, "Worker", Stub)
    return throughput


def test_what_a_peer_cannot_do_costs_nobody_elses_numbers(throughput, tmp_path, capsys):
    config = throughput.Config(
        num_envs=(4, 8), modes=("stored",), peers=Path("here"), libraries=("jaxmarl", "cogrid")
    )
    saved = []
    rows = throughput.measure(config, Console(), lambda rows: saved.append(len(rows)))
    assert saved == [3, 6]
    assert [row.get("error") for row in rows] == [None, "out of memory", "gone"] * 2
    assert rows[0]["steps_per_second"] == 4 * 2**14 / 2
    throughput.print_tables(Console(), rows)
    assert "out of memory" in capsys.readouterr().out
    throughput.draw(tmp_path / "plot.png", rows, "title")


def test_different_devices_are_not_compared(throughput):
    config = throughput.Config(peers=Path("elsewhere"), libraries=("jaxmarl",))
    with pytest.raises(throughput.RunError, match="runs on another, eqgrid on one"):
        throughput.measure(config, Console(), print)
