"""The defaults of a run in each world: who gets them, and who replaces them."""

import dataclasses
import typing
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from command_lines import parse
from scripts import shipped_script

from eqgrid import first_timestep, unwrap
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import dump, load
from eqgrid_lab.worlds import WORLDS, World, world_settings

KEY = jax.random.key(0)


def fields(config) -> dict:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_brings_its_defaults(name, tmp_path):
    env = world_settings(name)
    plain = shipped_script("ippo")()
    ppo = dataclasses.replace(plain.ppo, **env.facts.ppo)
    wanted = fields(plain) | {"env": env, "ppo": ppo, **env.facts.run}
    assert fields(parse("--env.name", name)) == wanted
    (tmp_path / "file.toml").write_text(f'env.name = "{name}"\n')
    path = str(tmp_path / "file.toml")
    assert fields(parse("--config", path)) == wanted | {"config": Path(path)}


def test_files_replace_defaults_and_flags_replace_both(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text('total_steps = 7\nenv.name = "warehouse"\nppo.gamma = 0.5\n')
    offset = ["--ppo.advantage-std-offset", "2"]
    config = parse("--config", str(path), *offset)
    assert (config.total_steps, config.ppo.gamma, config.ppo.advantage_std_offset) == (7, 0.5, 2)
    config = parse("--config", str(path), "--total-steps", "9")
    assert (config.total_steps, config.ppo.gamma, config.ppo.advantage_std_offset) == (9, 0.5, 0.1)


@pytest.mark.parametrize("name", WORLDS)
def test_a_file_with_every_setting_does_not_depend_on_defaults(name, tmp_path):
    config = parse("--env.name", name, "--ppo.gamma", "0.5", "--width", "3")
    (tmp_path / "config.toml").write_text(dump(config))
    assert load(tmp_path / "config.toml", shipped_script("ippo")) == config


@pytest.mark.slow
def test_only_training_starts_anywhere_in_a_site():
    config = world_settings("rescue")
    starts = []
    for train in (True, False):
        env = config.build(train=train)
        _, worlds = eqx.filter_vmap(env.reset)(jax.random.split(jax.random.key(0), 40))
        own = (worlds.bodies.position == env.layout.start.bodies.position[None]).all(axis=(1, 2))
        starts.append(int(jnp.sum(own)))
    assert 5 < starts[0] < 35
    assert starts[1] == 40


@pytest.mark.parametrize(("flags", "numbers"), [((), 73), (("--no-agent-id",), 71)])
def test_robots_are_told_who_they_are(flags, numbers):
    args = ["--env.name", "warehouse", "--env.no-normalize-observation", *flags]
    config = parse(*args)
    for env in (
        config.train_env(),
        config.eval_env(config.env.build(train=False), 3),
    ):
        observation = jax.eval_shape(env.reset, jax.random.key(0))[0]
        assert observation.shape == (env.num_envs, 2, numbers)


@pytest.mark.parametrize(
    ("name", "flag"),
    [("goals", "--shaping"), ("warehouse", "--shaping-steps"), ("body", "--shaping")],
)
def test_a_weight_of_no_shaped_reward_is_refused(name, flag):
    with pytest.raises(
        UsageError, match=f"{flag} weights a shaped reward, which --env.name {name}"
    ):
        parse("--env.name", name, flag, "2")


@pytest.mark.parametrize("name", WORLDS)
def test_the_table_says_what_worlds_show(name):
    settings = world_settings(name)
    hint = typing.get_type_hints(type(settings))["observation"]
    for observation in typing.get_args(hint) or (None,):
        own = {} if observation is None else {"observation": observation}
        settings = world_settings(name, **own)
        world = settings.build(train=False)
        seen = eqx.filter_eval_shape(world.reset, KEY)[0]
        assert (len(jax.tree.leaves(seen)[0].shape) == 4) == settings.has_images
    assert settings.has_video == callable(getattr(unwrap(world), "render_episode", None))
    totals, info = settings.totals(world), eqx.filter_eval_shape(first_timestep, world, KEY).info
    assert totals.keys() <= info.keys()
    assert all(layout in settings.known_layouts for layout in [settings.layout] if layout)
    weights = jax.tree.leaves(eqx.filter(getattr(unwrap(world), "shaping", None), eqx.is_array))
    assert any(bool(x.any()) for x in weights) == settings.has_shaped_reward


def test_a_world_that_is_not_in_the_table_shows_itself(monkeypatch):
    monkeypatch.setitem(WORLDS, "goals", World())
    settings = world_settings("goals", observation="planes")
    assert (settings.has_images, settings.has_shaped_reward, settings.has_video) == (
        True,
        False,
        True,
    )
    assert (settings.title, settings.normalize_observation) == ("room", False)
    assert settings.totals(settings.build(train=False)) == {"events": ("event_arrival",)}
