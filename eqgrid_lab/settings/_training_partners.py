"""The settings of training partners (`--partners.*`), and their policies, read from files."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

from jaxtyping import Array, Float
from msgspec import Meta

from agents import find_policies, load_policy
from agents.files import BUNDLED, shipped
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    OneOf,
    WithPartner,
    iter_wrappers,
)

from ..base import (
    DIFFERENT,
    Table,
    UsageError,
    as_usage_error,
    read_metadata,
)
from ..worlds import Share
from ._policy_settings import PolicySettings
from ._script import SHIPPED, shipped_script
from ._stored import SCRIPT, config_of_policy

Parts: TypeAlias = Mapping[str, Mapping[str, Callable[..., object]]]
"""The user's own parts of policies: for each argument of `load_policy`, classes by their names."""

_PEOPLE = {"clones": "clone", "proxies": "proxy"}
"""The names of the bundled models of people, and the beginnings of their file names."""


@dataclasses.dataclass(frozen=True)
class PartnerSettings:
    """The settings of partners that replace one agent in a share of the training episodes."""

    share: Share = 0.0
    """Share of training episodes in which a partner replaces one agent."""
    share_steps: Annotated[int, Meta(ge=0, le=10**15)] = 0
    """Environment steps over which the share rises from 0; 0 for a constant share."""
    policies: Annotated[tuple[str, ...], DIFFERENT] = ()
    """Policy files, runs with all their seeds, shipped:NAME, clones or proxies; if none, the
    agents' own policy."""
    noise: tuple[Share, Share] = (0.0, 0.0)
    """Range of the probability that an action of a partner is random; each episode samples one."""

    def check(self) -> None:
        """**Raises:** `UsageError` for settings that contradict one another or have no effect."""
        low, high = self.noise
        if low > high:
            raise UsageError(f"--partners.noise {low:g} {high:g} is no range: swap the numbers.")
        if self._is_unused and self != PartnerSettings():
            raise UsageError(
                "Partners are set, but their share of episodes is 0: add --partners.share, such "
                "as 0.5."
            )
        if not (self._is_unused or self.policies or high):
            raise UsageError(
                "--partners.share has no effect alone: add --partners.policies or --partners.noise."
            )

    def around(self, world: AbstractEnv, run: PolicySettings, parts: Parts) -> AbstractEnv:
        """Wraps a world in `WithPartner`, unless the share is 0.

        **Arguments:**

        - `world`: one environment with the observations of the agents, before they are normalised.
        - `run`: the settings of the run.
        - `parts`: the user's own parts of policies, as the arguments of `load_policy`.

        **Raises:** `UsageError` when the world has only one agent or a policy does not fit into it,
        and `CheckpointError` when a policy cannot be read.
        """
        if self._is_unused:
            return world
        if world.num_agents < 2:
            raise UsageError(
                "--partners.share needs a world with at least two agents: leave it out."
            )
        partners = [_read(path, world, run, parts) for path in self.files(run.env.title)]
        among = OneOf(partners) if partners else None
        return WithPartner(world, among, share=self.share, noise=self.noise)

    @property
    def _is_unused(self) -> bool:
        """Whether no episode has a partner."""
        return self.share == 0

    def found(self) -> "PartnerSettings":
        """The same settings with files and folders replaced by the absolute paths of their
        policy files, so that a resumed run has the same partners.

        The names of bundled policies and of models of people are kept, because the files of the
        models differ between kitchens.

        **Raises:** `CheckpointError` when a folder has no policy.
        """
        found: list[str] = []
        for name in self.policies:
            bundled = _is_model_of_people(name) or name.startswith(BUNDLED)
            found += [name] if bundled else [str(x.resolve()) for x in find_policies(name)]
        return dataclasses.replace(self, policies=tuple(found))

    def files(self, layout: str) -> list[Path]:
        """The policy files of the partners.

        **Arguments:**

        - `layout`: the layout of the run, for which models of people are chosen.

        **Raises:** `CheckpointError` when a folder has no policy, and `UsageError` when there are
        no models of people for the layout.
        """
        found: list[Path] = []
        for name in self.policies:
            is_model = _is_model_of_people(name)
            found += models_of_people(name, layout) if is_model else find_policies(name)
        return found


def share_of_partners(env: AbstractEnv) -> Float[Array, ""]:
    """The share of the `WithPartner` in a stack of wrappers."""
    return next(x for x in iter_wrappers(env) if isinstance(x, WithPartner)).share


def _read(path: Path, world: AbstractEnv, run: PolicySettings, parts: Parts) -> AbstractPartner:
    """Reads a partner from a policy file.

    **Arguments:**

    - `path`: the policy file.
    - `world`, `run`, `parts`: as in `PartnerSettings.around`.
    """
    settings: Table = read_metadata(path).get("run") or {}
    arguments: Table = {**parts}
    policy = load_policy(path, **arguments)
    # For a policy of a user's script, the settings of this run are used, which are correct only if
    # the same script trained it.
    config = run
    if settings.get(SCRIPT) is None and settings.get("algorithm") in SHIPPED:
        script = shipped_script(settings["algorithm"])
        with as_usage_error(f"The partner {str(path)!r} ", UsageError):
            config = config_of_policy(settings, script, run.env.name)
    with as_usage_error(f"The partner {str(path)!r} does not fit: "):
        return config.partner(policy, run, world)


def _is_model_of_people(name: str) -> bool:
    """Whether a name stands for models of people, rather than a file or folder of the user."""
    return name in _PEOPLE and not Path(name).exists()


def models_of_people(name: str, layout: str) -> list[Path]:
    """The files of the bundled models of people for one kitchen, one for each seed.

    ```python
    from agents import PolicyPartner, load_policy
    from eqgrid_lab.settings import models_of_people

    people = [PolicyPartner(load_policy(file)) for file in models_of_people("proxies", "ring")]
    ```

    **Arguments:**

    - `name`: `"clones"`, from one half of the people, or `"proxies"`, from the other half.
    - `layout`: the kitchen.

    **Raises:** `UsageError` when there are none for this layout.
    """
    kitchens = sorted(path.name for path in shipped("people").iterdir() if path.is_dir())
    if layout not in kitchens:
        raise UsageError(
            f"There are no human {name} for the layout {layout!r:.60}: choose one of "
            f"{', '.join(kitchens)}."
        )
    return sorted(shipped(f"people/{layout}").glob(f"{_PEOPLE[name]}-*.safetensors"))


def default_model_of_people(name: str, layout: str) -> Path:
    """The file of the model of people with the median return in a kitchen.

    **Arguments** and **Raises:** as `models_of_people`.
    """
    files = models_of_people(name, layout)
    models = json.loads(shipped("people/models.json").read_text(encoding="utf-8"))
    return files[0].parent / models[layout][_PEOPLE[name]]["default"]
