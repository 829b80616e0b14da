"""The benchmarks: that they measure what they say, and how they say no. `test_docs` runs them."""

import functools
import importlib
import json
import sys
from pathlib import Path
from urllib.error import URLError

import equinox as eqx
import jax
import jax.numpy as jnp
import learning_speed
import numpy as np
import play_load
import pytest
import throughput as throughput_script
from command_lines import check_refusal, hear
from rich.console import Console
from websockets import ConnectionClosedError

from eqgrid import ENVIRONMENTS, AutoReset
from eqgrid.envs import make
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import RunError, reason, run_command

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OPTIONS = {"layout": "cramped", "observation": "planes", "random_starts": 0.0}
SPEC = {
    "world": "overcooked",
    "options": OPTIONS,
    "num_agents": 2,
    "num_actions": 6,
    "lazy_resets": False,
}

TASK_NAMES = [name for name in throughput_script.TASKS if name != "overcooked"]


@pytest.fixture
def baselines(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS / "baselines")
    import with_eqgrid  # noqa: PLC0415
    import worker  # noqa: PLC0415

    return worker, with_eqgrid


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["stored", "summed", "dynamics"])
def test_a_rollout_is_that_of_the_environment(baselines, key, mode):
    worker, library = baselines
    params, reset, step = library.build(SPEC, 3)
    states = jax.jit(reset)(params, jax.random.split(key, 3))
    # Shortly before the end of an episode, so that it starts over.
    states = eqx.tree_at(lambda s: s.time, states, states.time + 397)
    actions = jax.random.randint(key, (5, 3, 2), 0, 6, jnp.int32)
    keys = jax.random.split(key, 5)
    program = jax.jit(worker.rollout, static_argnums=(0, 1))
    after, (kept, rewards) = program(step, mode, params, states, keys, actions, None)

    env = AutoReset(make("overcooked", layout="cramped"))
    one_step = eqx.filter_jit(env.step)
    for i in range(3):
        _, state = env.reset(key)
        state = eqx.tree_at(lambda s: s.time, state, state.time + 397)
        for t in range(5):
            timestep, state = one_step(keys[t], state, actions[t, i])
            np.testing.assert_array_equal(rewards[t, i], timestep.reward)
            if mode == "stored":
                np.testing.assert_array_equal(kept[t, i], timestep.observation)
            elif mode == "summed":
                assert int(kept[t, i]) == np.asarray(timestep.observation).sum()
        assert eqx.tree_equal(state, jax.tree.map(lambda x, i=i: x[i], after))
        assert state.time == 2


@pytest.mark.slow
def test_random_starts_are_the_same_when_resets_are_lazy(baselines, key):
    worker, library = baselines
    actions = jax.random.randint(key, (5, 8, 2), 0, 6, jnp.int32)
    found = []
    for lazy in (False, True):
        spec = SPEC | {"options": OPTIONS | {"random_starts": 0.5}, "lazy_resets": lazy}
        params, reset, step = library.build(spec, 8)
        states = jax.jit(reset)(params, jax.random.split(key, 8))
        states = eqx.tree_at(lambda s: s.time, states, states.time + 397)
        program = jax.jit(worker.rollout, static_argnums=(0, 1))
        keys = jax.random.split(key, 5)
        found.append(program(step, "stored", params, states, keys, actions, None))
    assert eqx.tree_equal(*found)
    positions = np.asarray(found[0][0].bodies.position)
    assert len(np.unique(positions.reshape(8, -1), axis=0)) > 2


@pytest.mark.slow
def test_a_mixed_batch_has_all_kitchens(baselines, key):
    _, library = baselines
    params, _, _ = library.build(SPEC | {"options": OPTIONS | {"layout": "mixed"}}, 7)
    fixtures = np.asarray(params.env.layout.tiles)
    sizes = [len(text.strip().splitlines()) for text in KITCHENS.values()]
    assert fixtures.shape[:2] == (7, max(sizes))
    np.testing.assert_array_equal(fixtures[0], fixtures[5])
    assert len({tuple(x.ravel()) for x in fixtures}) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", TASK_NAMES)
def test_every_task_is_a_world_as_it_is_described(baselines, throughput, key, name):
    _, library = baselines
    task = throughput.TASKS[name]
    spec = throughput.specify(throughput.Config(), name)
    params, reset, step = library.build(spec, 2)
    states = reset(params, jax.random.split(key, 2))
    actions = jnp.zeros((2, task.num_agents), jnp.int32)
    seen, _, _ = step(params, jax.random.split(key, 2), states, actions)
    env = make(task.world, **task.options)
    assert seen.shape[:2] == (2, task.num_agents)
    assert env.num_agents == task.num_agents
    assert len(env.actions) == task.num_actions
    assert seen.shape[1:] == env.reset(key)[0].shape


def test_more_cooks_stand_on_free_cells_of_their_own(baselines):
    _, library = baselines
    params, _, _ = library.build(SPEC | {"num_agents": 5}, 1)
    positions = np.asarray(params.env.layout.start.bodies.position)
    assert len({tuple(p) for p in positions}) == 5
    with pytest.raises(ValueError, match="7 cooks do not fit onto the 6 free cells"):
        library.build(SPEC | {"num_agents": 7}, 1)


@pytest.mark.slow
def test_a_worker_answers_in_json_and_survives_what_does_not_fit(baselines):
    worker, _ = baselines
    case = {"spec": SPEC, "mode": "stored", "num_envs": 2, "num_steps": 16}
    requests = [
        {"do": "start", "what": case | {"max_bytes": 100.0}},
        {"do": "start", "what": case | {"max_bytes": 1e6}},
        {"do": "run"},
    ]
    answers = worker.serve("eqgrid", map(json.dumps, requests))
    about, refused, report, timed = map(json.loads, map(json.dumps, answers))
    assert about["jax"] == jax.__version__
    assert "8 steps do not fit" in refused["error"]
    assert report["state_bytes"] == 72
    assert report["kept_bytes"] == 2 * 4 * 5 * 26 + 2 * 4
    assert timed["seconds"] > 0


def call(capsys, script, *args):
    command = functools.partial(run_command, importlib.import_module(script).run)
    return hear(capsys, command, *args)


ONE = ["--num-envs", "1", "--modes", "dynamics"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "args", "code", "says"),
    [
        ("throughput", ["--num-envs", "0"], 2, "--num-envs must be at least 1"),
        ("throughput", ["--cooks", "3", "--peers", "python"], 2, "leave out --peers"),
        ("throughput", ["--cooks", "9", *ONE], 1, "9 cooks do not fit onto the 6 free cells"),
        ("throughput", ["--peers", "/bin/false", *ONE], 1, "JaxMARL overcooked ended"),
        ("learning_speed", ["--peers", "python"], 2, "--peers and --jaxmarl go together"),
        ("gpu_programs", ["--before", "no.json"], 2, "'no.json' has no numbers of an earlier run"),
    ],
)
def test_bad_usage_is_one_line(capsys, tmp_path, script, args, code, says):
    out = tmp_path / "out"
    check_refusal(call(capsys, script, *args, "--out", out), says, codes=(code,))
    assert not out.exists() or list(out.iterdir())


def fake_python(path, script):
    """An interpreter that runs a script of ours, whatever it is given."""
    (path / "fake.py").write_text(script)
    (path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} {path / "fake.py"} "$@"\n')
    (path / "python").chmod(0o755)
    return path / "python"


def test_what_jaxmarls_script_says_is_understood(tmp_path):
    said = [(1000, 20, 5.0), (2000, 200, 7.0), (3000, 210, 9.0)]
    lines = "".join(
        f"print('{json.dumps(dict(env_steps=s, **{'return': r}, seconds=t))}')\n"
        for s, r, t in said
    )
    script = f"import sys\nassert sys.argv[-3:] == ['there', '77', '3'], sys.argv\n{lines}"
    config = learning_speed.Config(
        peers=fake_python(tmp_path, script), jaxmarl=Path("there"), peer_steps=77
    )
    assert learning_speed.theirs(config, 3) == {
        "steps_per_second": 500,
        "seconds": {200: 7.0, 220: None},
    }


@pytest.mark.slow
def test_the_single_file_says_how_fast_it_is():
    found = learning_speed.single_file(total_steps=3 * 64 * 128, seed=0)
    assert list(found) == ["steps_per_second"]
    assert found["steps_per_second"] > 0


class Stub:
    """A library in no process: JaxMARL runs out of memory, CoGrid's process dies."""

    def __init__(self, library, python, share):
        self.library = self.name = library
        self.about = {"device": "another" if str(python) == "elsewhere" else "one", "jax": "1"}

    def ask(self, do, what=None):
        if self.library == "cogrid":
            return {"error": "gone"}
        if do == "start":
            return {"num_steps": what["num_steps"], "trace_seconds": 1.0, "compile_seconds": 1.0}
        return {"error": "out of memory"} if self.library == "jaxmarl" else {"seconds": 2.0}

    def close(self):
        pass


@pytest.fixture
def throughput(monkeypatch):
    monkeypatch.setattr(throughput_script, "Worker", Stub)
    return throughput_script


@pytest.mark.slow
def test_a_world_is_measured_beside_those_who_have_it(throughput, tmp_path, capsys):
    config = throughput.check(
        throughput.Config(
            worlds=("all",), num_envs=(4,), modes=("stored", "summed"), peers=Path("here")
        )
    )
    rows = throughput.measure(config, Console(), lambda rows: None)
    assert config.worlds == ("overcooked", *TASK_NAMES)
    assert {*ENVIRONMENTS} - {"minigrid"} <= {*config.worlds}
    for world in config.worlds:
        measured = [
            row["library"] for row in rows if (row["world"], row["mode"]) == (world, "stored")
        ]
        assert measured == ["eqgrid", *throughput.TASKS[world].peers]
    throughput.print_tables(Console(width=200), rows)
    assert capsys.readouterr().out.count("warehouse  ") == 2
    throughput.draw(tmp_path / "plot.png", rows, "title")


def test_different_devices_are_not_compared(throughput):
    config = throughput.Config(peers=Path("elsewhere"), libraries=("jaxmarl",))
    with pytest.raises(throughput.RunError, match="runs on another, eqgrid on one"):
        throughput.measure(config, Console(), print)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TimeoutError(), "TimeoutError"),
        (URLError(OSError(104, "Connection reset by peer")), "Connection reset by peer"),
        (ConnectionClosedError(None, None), "no close frame received or sent"),
        (None, "too few frames came"),
    ],
)
def test_an_overloaded_machine_is_named(monkeypatch, error, says):
    async def play(*_):
        if error is not None:
            raise error
        return [], []

    monkeypatch.setattr(play_load, "_play", play)
    with pytest.raises(RunError, match=f"^100 people cannot play .*{says}.*: lower --people.$"):
        play_load._measure(play_load.Config(), "http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("The file is damaged."), "The file is damaged"),
        (ConnectionResetError("Connection lost"), "Connection lost"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_is_never_called_a_success(error, says):
    assert reason(error) == says
