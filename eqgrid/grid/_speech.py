"""Speech: words that agents say as actions, and that others hear."""

import dataclasses
from typing import final

import jax.numpy as jnp

from ._actions import Say, words_of
from ._step import AbstractPhase, Step


@final
class Speak(AbstractPhase):
    """The phase in which agents say words with `Say` actions. A word can be heard until the next
    step, by the feature `Heard` or anything else that reads `Bodies.said`. It fires for those that
    speak.
    """

    def __call__(self, step: Step) -> Step:
        said = jnp.zeros(step.world.num_agents, jnp.uint8)
        for number, word in enumerate(words_of(step.actions), start=1):
            said = jnp.where(step.chose(Say(word)), jnp.uint8(number), said)
        bodies = dataclasses.replace(step.world.bodies, said=said)
        return step.then(dataclasses.replace(step.world, bodies=bodies), Speak, said > 0)
