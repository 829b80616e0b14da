"""`PolicySettings`: the settings that all scripts share."""

import abc
import dataclasses
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import tyro
from msgspec import Meta

from eqgrid import AbstractEnv

from ..base import Table
from ..partners import Place
from ..worlds import Kitchen, WorldSettings
from ._flags import Seed


@dataclasses.dataclass(frozen=True)
class PolicySettings(abc.ABC):
    """The settings of a command that trains policies: world, observations and seeds."""

    algorithm: ClassVar[str]
    """The name of the algorithm, in messages and names of files."""

    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    seed: Seed = 0
    """Random seed of the run."""
    num_seeds: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Number of runs, with consecutive seeds, that are trained together."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Settings file; flags override it."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the run; by default, a new one in runs/."""

    @abc.abstractmethod
    def observe(self, world: AbstractEnv) -> AbstractEnv:
        """Wraps a world so that it returns the observations of actors, without inputs of critics.

        **Arguments:**

        - `world`: as `env.build` returns it.
        """

    def place(self) -> Place:
        """The world of evaluations, with the observations of policies.

        **Raises:** `ValueError` when the settings of the world are invalid.
        """
        return Place.of(self.env, self.observe)

    def check(self) -> None:  # noqa: B027 (most scripts need none)
        """Checks the settings that a script adds; does nothing by default.

        **Raises:** `ValueError` with one sentence when settings contradict one another.
        """


E = TypeVar("E", bound=PolicySettings)


def default_settings(experiment: type[E], env: WorldSettings | None = None) -> E:
    """The default settings of a run in a world.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `env`: the settings of the world; by default, those of the script. The `facts` of the world
        override defaults of the script and of PPO.
    """
    plain: Any = experiment()
    world: WorldSettings = plain.env if env is None else env
    names = {field.name for field in dataclasses.fields(experiment)}
    changes: Table = {name: value for name, value in world.facts.run.items() if name in names}
    if "ppo" in names:
        changes["ppo"] = dataclasses.replace(plain.ppo, **world.facts.ppo)
    return experiment(env=world, **changes)
