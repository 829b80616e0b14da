"""Policies in files, which nobody trained."""

import functools
import json

import equinox as eqx
import jax
from safetensors.numpy import save as save_arrays
from scripts import shipped_script

from agents import (
    MLP,
    GlobalState,
    JointObservation,
    LocalObservation,
    actor_critic,
    save_policy,
    trained_policy,
)
from agents.files import _checkpoint
from eqgrid_lab.partners import run_mark
from eqgrid_lab.settings import parse, to_table


def loud(*args, final_scale, **options):
    """A network whose most probable action changes from step to step."""
    return MLP(*args, final_scale=3.0, **options)


@eqx.filter_jit
def build(env, key, view, shared):
    policy = actor_critic(env, key, network=loud, critic_input=view, shared=shared)
    return trained_policy(policy, env, env.reset(key)[1])


@functools.cache
def untrained(flags, seed, algorithm, shared):
    """A policy, the world in which a run of these settings would save it, and the run's mark."""
    config = parse(shipped_script(algorithm), [*flags, "--seed", str(seed)])
    env = config.eval_env(config.env.build(train=False), 2)
    view = LocalObservation() if algorithm == "ippo" else JointObservation()
    view = GlobalState() if getattr(config, "critic", None) == "state" else view
    policy = build(env, jax.random.key(seed), view, shared)
    return policy, config.place().policy_world, run_mark(to_table(config))


def write_policy(path, *flags, seed=0, algorithm="ippo", shared=True):
    """Writes a policy that nobody trained, as a run of these settings does.

    **Returns:** the path.
    """
    policy, world, run = untrained(flags, seed, algorithm, shared)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_policy(path, policy, {"run": run, "env_steps": 7}, world=world)
    return path


def forge(path, about, data):
    """Writes a checkpoint with a right checksum."""
    text = json.dumps(about)
    digest = _checkpoint._digest(text, data)
    path.write_bytes(save_arrays(data, {"about": text, "sha256": digest}))
