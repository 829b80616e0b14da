"""`PolicySettings`: the settings that all scripts share, and that a policy file stores."""

import abc
import dataclasses
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import tyro
from msgspec import Meta

from agents import PolicyPartner, TrainedPolicy
from eqgrid import AbstractEnv, AbstractPartner, unwrap
from eqgrid.grid import AbstractGridWorld, RandomLayouts

from ..base import Table
from ..worlds import Kitchen, WorldSettings
from ._flags import Seed


@dataclasses.dataclass(frozen=True)
class PolicySettings(abc.ABC):
    """The settings of a command that trains policies: world, observations and seeds.

    A policy file stores them, so that the policy can be played without further flags.
    """

    algorithm: ClassVar[str]
    """The name of the algorithm, in messages and names of files."""
    of_one_layout: ClassVar[bool] = False
    """Whether a policy works only in its own layout, such as a clone of human games."""

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

    def partner(
        self,
        policy: TrainedPolicy,
        among: "PolicySettings",
        shown: AbstractEnv,
        *,
        greedy: bool = False,
    ) -> AbstractPartner:
        """A partner that acts by a policy with these settings, in a team with other settings.

        In a grid world, the observations of the policy may differ from those of the team.

        **Arguments:**

        - `policy`: the policy.
        - `among`: the settings of the team.
        - `shown`: the environment of the team, with its observations.
        - `greedy`: take the most probable actions instead of sampling them.

        **Raises:** `ValueError` when the policy cannot act in this environment.
        """
        if self.of_one_layout and self.env.title != among.env.title:
            raise ValueError(
                f"it was trained in {self.env.title!r:.60}, and supports no other layout: choose "
                f"a policy that was trained in {among.env.title!r:.60}."
            )
        env = self._env_for(among, shown)
        policy.check(shown if env is None else env)
        return self.as_played(PolicyPartner(policy, greedy, env))

    def as_played(self, partner: PolicyPartner) -> AbstractPartner:
        """Applies the rules by which policies of this algorithm are played, if it has any."""
        return partner

    def _env_for(self, among: "PolicySettings", shown: AbstractEnv) -> AbstractEnv | None:
        """The environment of a team with the observations of these settings; `None` if the team
        has the same observations, or the world is not a grid world.
        """
        world = unwrap(shown)
        if self.observed == among.observed or not isinstance(
            world, AbstractGridWorld | RandomLayouts
        ):
            return None
        env: Any = among.env
        observation = self.observed["observation"]
        if observation is not None:
            env = dataclasses.replace(env, observation=observation)
        # Builds the world again, only to get the observation function.
        grid: Any = unwrap(env.build(train=False))
        grid = grid.env if isinstance(grid, RandomLayouts) else grid
        return self.observe(world.with_observation(grid.observation))

    @property
    def observed(self) -> Table:
        """The settings that determine the observation, except settings that a script adds."""
        return {"observation": getattr(self.env, "observation", None), **self.appended}

    @property
    def appended(self) -> dict[str, bool]:
        """The settings that append features to the observations of the world."""
        return {name: getattr(self, name, False) for name in ("agent_id",)}

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
