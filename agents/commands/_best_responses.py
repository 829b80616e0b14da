"""Best responses to held-out partners: what can be earned with each, as far as PPO finds out."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, TypedDict, final

import jax
import msgspec

from agents import PolicyPartner, train, trained_policy
from agents.runs.display._errors import UsageError, reason
from agents.runs.folders._folder import short_name
from agents.runs.folders._results import MAX_RESULT_BYTES, write_json
from agents.runs.settings._experiment import Experiment, default_settings
from agents.runs.settings._page import page
from agents.runs.settings._training_partners import GivenPartners
from agents.runs.single._build import draw
from agents.runs.worlds._worlds import default_world
from eqgrid import AbstractPartner, OneOf, read_regular_text

from ._games import play_with
from ._heldout import HeldOut

_EPISODES = 128


class _Entry(TypedDict):
    """What the best response to a partner earns in each seat, how it was trained, and which partner
    that was.
    """

    returns: list[float]
    steps: int
    seed: int
    partner: str


@final
class BestResponses:
    """The returns of best responses in one world, in a file beside that of the partners."""

    def __init__(self, file: Path, config: Experiment):
        """**Arguments:**

        - `file`: that of the partners.
        - `config`: the settings of the world.

        **Raises:** `UsageError` when the file of best responses is damaged.
        """
        self.path = file.with_suffix(".best-responses.json")
        env = config.env.as_judged()
        rules = f" ({env.rules})" if env.rules else ""
        told = _digest(", ".join(map(str, (repr(env), *_told(config).values()))))
        self.world = f"{env.name}, {short_name(env.title)}{rules}, {env.horizon} steps, {told}"
        self._worlds = self._read()

    def _read(self) -> dict[str, dict[str, _Entry]]:
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
        """What the best response to a partner earns, by its own seat; `None` if it is not known, or
        was found when the partner was described otherwise.
        """
        entry = self._worlds.get(self.world, {}).get(partner.name)
        if entry is None or entry["partner"] != _digest(repr(partner)):
            return None
        return entry["returns"]

    def keep(self, partner: HeldOut, returns: list[float], steps: int, seed: int) -> None:
        """Writes what a best response earned."""
        found = self._worlds.setdefault(self.world, {})
        digest = _digest(repr(partner))
        found[partner.name] = _Entry(returns=returns, steps=steps, seed=seed, partner=digest)
        write_json(self.path, self._worlds)


def _digest(text: str) -> str:
    """A short name for a text: equal ones have equal names."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def training_settings(config: Experiment, steps: int) -> Experiment:
    """The settings that best responses are trained with: those of the world, in which agents are
    shown what they are in `config`, and what only training knows has its defaults. Where the world
    normalises observations by default, the best response does so for itself.
    """
    env: Any = config.env.as_judged()
    normalize = default_world(env.name).normalize_observation
    env = dataclasses.replace(env, normalize_observation=normalize)
    own = {"shaping_steps": max(1, steps // 2), **_told(config)}
    return dataclasses.replace(default_settings(page("ippo"), env), **own)


def _told(config: Experiment) -> dict[str, bool]:
    """What the page of a policy tells its agents beside what the world does."""
    return {name: getattr(config, name, False) for name in ("agent_id", "time_left")}


def train_best_response(
    config: Experiment, partner: AbstractPartner, steps: int, seed: int
) -> list[float]:
    """Trains agents with a partner, whose seat is drawn in every episode, by PPO with the
    default settings of the world.

    **Arguments:**

    - `config`: the settings of the world, of two agents.
    - `partner`: who acts for the other agent, in training and when the response is judged.
    - `steps`: how many steps the agent learns from. The shaped reward fades in the first half.
    - `seed`: of everything that is random.

    **Returns:** the mean return of the agent, by its seat.
    """
    config = training_settings(config, steps)
    config = dataclasses.replace(config, partners=GivenPartners(given=OneOf([partner])))
    env = config.train_env()
    init_key, judge_key = jax.random.split(jax.random.key(seed))
    state = draw(config)(env, init_key)
    updates = max(1, steps // (config.num_envs * config.ppo.rollout_length))
    learned = train(config.ppo, env, state, num_updates=updates, donate=True).state
    best = PolicyPartner(trained_policy(learned.policy, env, learned.runner.env_state))
    world = config.observe(config.env.build(train=False))
    returns = play_with(world, [best, partner], jax.random.split(judge_key, _EPISODES))
    return returns[0].mean(axis=-1).tolist()
