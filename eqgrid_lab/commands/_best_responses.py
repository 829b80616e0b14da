"""Best responses to held-out partners, exact or trained with PPO, as reference returns."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, final

import jax
import msgspec
from msgspec import Meta

from agents import PolicyPartner, checksum, find_policy, train, trained_policy
from eqgrid import AbstractPartner, OneOf, read_regular_text

from ..base import UsageError, reason
from ..folders import MAX_RESULT_BYTES, short_name, write_json
from ..settings import Experiment, GivenPartners, PolicySettings, default_settings, shipped_script
from ..worlds import world_settings
from ._heldout import HeldOut
from ._policies import play_with

_EPISODES = 128


class _Entry(TypedDict):
    """A best response: its return in each of its seats, and a hash of the partner.

    A trained best response also has the steps and the seed of its training. An exact best response
    has the counters that cooks could use.
    """

    returns: Annotated[list[float], Meta(min_length=2, max_length=2)]
    partner: str
    steps: NotRequired[int]
    seed: NotRequired[int]
    counters: NotRequired[list[str]]


@final
class BestResponses:
    """The returns of best responses in one world, stored next to the file of the partners."""

    def __init__(self, file: Path, config: PolicySettings):
        """Reads the file of best responses, if there is one.

        **Arguments:**

        - `file`: the file of the partners.
        - `config`: the settings of the world.

        **Raises:** `UsageError` when the file of best responses is damaged.
        """
        self.path = file.with_suffix(".best-responses.json")
        self._file, self._layout = file, short_name(config.env.title)
        # The key of the world in the file. It contains a hash of all settings, so results of other
        # settings are never used.
        env = config.env.as_judged()
        rules = f" ({env.rules})" if env.rules else ""
        details = _digest(", ".join(map(str, (repr(env), *config.appended.values()))))
        self.world = f"{env.name}, {short_name(env.title)}{rules}, {env.horizon} steps, {details}"
        self._worlds = self._read_file()

    def _read_file(self) -> dict[str, dict[str, _Entry]]:
        """The best responses in the file, by the world and by the name of the partner."""
        try:
            worlds = json.loads(read_regular_text(self.path, MAX_RESULT_BYTES))
            return msgspec.convert(worlds, dict[str, dict[str, _Entry]])
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = f"cannot be read: {reason(error)}"
        except (ValueError, RecursionError, msgspec.ValidationError):
            why = "is damaged"
        raise UsageError(
            f"The file of best responses {str(self.path)!r} {why}: move it away, and train them "
            "again with --train-best-responses."
        )

    def returns(self, partner: HeldOut) -> list[float] | None:
        """The returns of the best response to a partner, in each seat of the best response. `None`
        if the file has no entry, or if the partner has changed since the entry was written.
        """
        entry = self._stored(partner)
        return None if entry is None else entry["returns"]

    def is_exact(self, partner: HeldOut) -> bool:
        """Whether the best response to a partner was computed exactly, instead of trained."""
        return "counters" in (self._stored(partner) or {})

    def _stored(self, partner: HeldOut) -> _Entry | None:
        entry = self._worlds.get(self.world, {}).get(partner.name)
        return None if entry is None or entry["partner"] != self._identity(partner) else entry

    def keep(self, partner: HeldOut, returns: list[float], steps: int, seed: int) -> None:
        """Stores the returns of a best response in the file.

        **Arguments:**

        - `partner`: the description of the partner.
        - `returns`: the mean return of the best response in each of its seats.
        - `steps`, `seed`: the number of steps and the seed of its training.
        """
        entry = _Entry(returns=returns, steps=steps, seed=seed, partner=self._identity(partner))
        self._write(partner, entry)

    def keep_exact(self, partner: HeldOut, returns: list[float], counters: Sequence[str]) -> None:
        """Stores the returns of an exact best response. They replace the returns of a trained best
        response.

        **Arguments:**

        - `partner`: the description of the partner.
        - `returns`: the return of the best response in each of its seats.
        - `counters`: the counters that cooks could use.
        """
        entry = _Entry(returns=returns, partner=self._identity(partner), counters=list(counters))
        self._write(partner, entry)

    def _write(self, partner: HeldOut, entry: _Entry) -> None:
        self._worlds.setdefault(self.world, {})[partner.name] = entry
        write_json(self.path, self._worlds)

    def _identity(self, partner: HeldOut) -> str:
        """A short hash of the description of a partner, and of the content of its policy."""
        policy = ""
        if partner.kind == "policy":
            policy = checksum(find_policy(partner.place(self._file, self._layout)))
        return _digest(repr(partner) + policy)


def _digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def training_settings(config: PolicySettings, steps: int) -> Experiment:
    """The settings for training best responses: the world and the observations of `config`, and
    the defaults of all settings that only matter in training. Whether observations are normalised
    is also the default of the world.
    """
    env: Any = config.env.as_judged()
    own = type(config)().env  # a custom script may have its own default world
    default = own if own.name == env.name else world_settings(env.name)
    env = dataclasses.replace(env, normalize_observation=default.normalize_observation)
    changes = {"shaping_steps": max(1, steps // 2), **config.appended}
    settings = default_settings(shipped_script("ippo"), env)
    assert isinstance(settings, Experiment)
    return dataclasses.replace(settings, **changes)


def train_best_response(
    config: PolicySettings, partner: AbstractPartner, steps: int, seed: int
) -> list[float]:
    """Trains a best response to a partner by PPO, with the default settings of the world.

    The seat of the partner is sampled in every episode.

    **Arguments:**

    - `config`: the settings of the world, which has two agents.
    - `partner`: the partner, which acts for one of the agents in training and in evaluation.
    - `steps`: the number of environment steps of training. The shaped reward decays over the first
        half of them.
    - `seed`: the seed of all randomness.

    **Returns:** the mean return for each seat of the best response.
    """
    config = training_settings(config, steps)
    config = dataclasses.replace(config, partners=GivenPartners(given=OneOf([partner])))
    env = config.train_env()
    init_key, judge_key = jax.random.split(jax.random.key(seed))
    state = config.init_state(env, init_key)
    updates = max(1, steps // (config.num_envs * config.ppo.rollout_length))
    learned = train(config.learner(), env, state, num_updates=updates, donate=True).state
    best = PolicyPartner(trained_policy(learned.policy, env, learned.runner.env_state))
    world = config.observe(config.env.build(train=False))
    returns = play_with(world, [best, partner], jax.random.split(judge_key, _EPISODES))
    return returns[0].mean(axis=-1).tolist()
