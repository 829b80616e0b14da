"""Partners that agents learn with: their settings, as flags, and their policies."""

import dataclasses
from pathlib import Path

from agents import PolicyPartner, find_policy, load_policy
from agents.runs._metadata import read_metadata
from agents.runs._run_files import seed_folders
from agents.runs.display._errors import UsageError
from agents.runs.worlds._world_config import Share
from eqgrid import AbstractEnv, OneOf, WithPartner


@dataclasses.dataclass(frozen=True)
class PartnerSettings:
    """Partners that act for one of the agents in a share of the training episodes."""

    share: Share = 0.0
    """Share of training episodes in which a partner acts for one of the agents."""
    policies: tuple[str, ...] = ()
    """Runs, with all their checkpoints, or policy files; the agents themselves if none."""
    least_noise: Share = 0.0
    """Smallest share of a partner's actions that are random."""
    most_noise: Share = 0.0
    """Largest share; every episode draws one between the two."""

    def check(self) -> None:
        """**Raises:** `UsageError` for settings that contradict one another, or that do nothing."""
        if self.least_noise > self.most_noise:
            raise UsageError(
                f"--partners.least-noise {self.least_noise:g} is more than --partners.most-noise "
                f"{self.most_noise:g}."
            )
        if self.share == 0 and self != PartnerSettings():
            raise UsageError("Partners take part in no episode: add --partners.share, such as 0.5.")
        if self.share > 0 and not self.policies and self.most_noise == 0:
            raise UsageError(
                "--partners.share alone changes nothing: add --partners.policies, or "
                "--partners.most-noise."
            )

    def around(self, world: AbstractEnv) -> AbstractEnv:
        """A world in which these partners take part.

        **Arguments:**

        - `world`: with the observations of the agents, before any `NormalizeObservation`.

        **Raises:** `UsageError` when a policy does not fit into it, and `CheckpointError` when one
        cannot be read.
        """
        if self.share == 0:
            return world
        if world.num_agents < 2:
            raise UsageError(
                "--partners.share needs a world with at least two agents: leave it out."
            )
        noise = (self.least_noise, self.most_noise)
        partners = [self._partner(Path(name), world) for name in self.found().policies]
        return WithPartner(
            world, OneOf(partners) if partners else None, share=self.share, noise=noise
        )

    def found(self) -> "PartnerSettings":
        """The same settings with the file of every policy in place of folders, so that a run that
        goes on has the same partners.

        **Raises:** `CheckpointError` when there is none in a folder.
        """
        files = [path for name in self.policies for path in _files_of(Path(name))]
        return dataclasses.replace(self, policies=tuple(str(path.resolve()) for path in files))

    def _partner(self, path: Path, world: AbstractEnv) -> PolicyPartner:
        policy = load_policy(path)
        try:
            policy.check(world)
        except ValueError as error:
            raise UsageError(f"The partner {str(path)!r} does not fit: {error}") from error
        return PolicyPartner(policy)


@dataclasses.dataclass(frozen=True)
class GivenPartners(PartnerSettings):
    """Partners from Python, one of whom takes part in every episode."""

    given: OneOf | None = None

    def around(self, world: AbstractEnv) -> AbstractEnv:
        return WithPartner(world, self.given)


def _files_of(path: Path) -> list[Path]:
    """A policy file alone, or all checkpoints of a run, or of each of its seeds; one of those after
    equally many steps, such as the best and the last one.
    """
    if not path.is_dir():
        return [find_policy(path)]
    found: list[Path] = []
    for run in seed_folders(path) or [path]:
        files = sorted(run.glob("checkpoints/*.safetensors"))
        found += {read_metadata(file).get("env_steps", file): file for file in files}.values()
    return found or [find_policy(path)]
