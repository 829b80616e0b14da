"""Policies in files, which nobody trained."""

import tomllib

import equinox as eqx
import jax

from agents import MLP, actor_critic, save_policy, trained_policy
from eqgrid_lab.settings import dump, page, parse


def loud(*args, final_scale, **options):
    """A network whose most probable action changes from step to step."""
    return MLP(*args, final_scale=3.0, **options)


def write_policy(path, *flags, seed=0):
    """A policy that nobody trained, as a run of these settings writes it."""
    config = parse(page("ippo"), [*flags, "--seed", str(seed)])
    env = config.eval_env(config.env.build(train=False), 2)
    policy = eqx.filter_jit(actor_critic)(env, jax.random.key(seed), network=loud)
    trained = trained_policy(policy, env, env.reset(jax.random.key(seed))[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    save_policy(path, trained, {"run": tomllib.loads(dump(config)), "env_steps": 7})
