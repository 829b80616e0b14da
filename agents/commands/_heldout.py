"""Held-out partners, described in a file of settings, so that others can use the same ones."""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

from agents import PolicyPartner
from agents.runs._shipped import shipped
from agents.runs.display._errors import UsageError
from agents.runs.folders._folder import short_name
from agents.runs.settings._file import read_toml
from agents.runs.single._policies import read_policy
from agents.runs.worlds._world_config import AbstractWorldConfig, check_same_game
from eqgrid import AbstractEnv, AbstractPartner, NoisyPartner, RandomPartner, StayPartner, unwrap
from eqgrid.envs.overcooked import KINDS, STAY, ScriptedCook
from eqgrid.grid import GridWorld, Layout

HELD_OUT = shipped("heldout/kitchens.toml")
"""The set that comes with eqgrid."""

Kind: TypeAlias = Literal["stay", "random", "greedy", "onion", "dish", "policy"]

_KEYS = {
    "name": str,
    "kind": str,
    "noise": (int, float),
    "algorithm": str,
    "seed": int,
    "steps": int,
}


@final
@dataclasses.dataclass(frozen=True)
class HeldOut:
    """A partner, as it is described in a file.

    **Arguments:**

    - `name`: what a person calls it.
    - `kind`: a script, or `"policy"`.
    - `noise`: the probability with which an action is replaced by a random one.
    - `algorithm`, `seed`, `steps`: how a policy is trained.
    """

    name: str
    kind: Kind
    noise: float = 0.0
    algorithm: str = "ippo"
    seed: int = 0
    steps: int = 0

    def folder(self, file: Path, layout: str) -> Path:
        """Where the policy is: in a folder beside the file, named after the file and the layout."""
        return file.with_suffix("") / layout / self.name

    def command(self, file: Path, world: AbstractWorldConfig) -> str:
        """What trains the policy."""
        layout = short_name(world.title)
        flags = ["--env.layout", layout, *(["--env.dynamics", world.rules] if world.rules else [])]
        # Defaults may change, and the partners not.
        flags += ["--ppo.entropy-coefficient", "0.01"]
        flags += ["--seed", str(self.seed), "--total-steps", str(self.steps)]
        flags += ["--out", str(self.folder(file, layout))]
        return shlex.join(["python", f"experiments/{self.algorithm}.py", *flags])


def read_held_out(file: Path) -> tuple[list[HeldOut], int]:
    """Reads a file of partners.

    **Returns:** the partners, and the seed of the episodes with them.

    **Raises:** `UsageError` with one sentence when the file cannot be used.
    """
    try:
        settings = read_toml(file)
    except UsageError as error:
        raise UsageError(f"The file of partners {str(file)!r} {error}") from error
    seed, entries = settings.get("seed", 0), settings.get("partner", [])
    if set(settings) - {"seed", "partner"} or not (_is_seed(seed) and _are_tables(entries)):
        raise UsageError(
            f"The file of partners {str(file)!r} must have tables [[partner]], and perhaps a "
            "`seed` from 0 to 4294967295, and nothing else."
        )
    partners = [_read_entry(file, entry) for entry in entries]
    names = [partner.name for partner in partners]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The file of partners {str(file)!r} has two partners {name!r}.")
    return partners, seed


def _is_seed(seed: Any) -> bool:
    return type(seed) is int and 0 <= seed < 2**32  # what a jax key holds


def _are_tables(entries: Any) -> bool:
    return isinstance(entries, list) and entries != [] and all(type(x) is dict for x in entries)


def _read_entry(file: Path, entry: dict[str, Any]) -> HeldOut:
    where = f"In the file of partners {str(file)!r}, the partner {entry.get('name')!r:.60}"
    for key, value in entry.items():
        if key not in _KEYS:
            raise UsageError(f"{where} has the key {key!r:.60}: known are {', '.join(_KEYS)}.")
        if isinstance(value, bool) or not isinstance(value, _KEYS[key]):
            raise UsageError(f"{where} has a {key} of the wrong type: {value!r:.60}.")
    if "name" not in entry or "/" in entry["name"] or entry["name"] in ("", ".", ".."):
        raise UsageError(f"{where} needs a `name` that can be the name of a folder.")
    if entry.get("kind") not in get_args(Kind):
        raise UsageError(f"{where} needs a `kind`: one of {', '.join(get_args(Kind))}.")
    if not 0 <= entry.get("noise", 0) <= 1:
        raise UsageError(f"{where} needs a `noise` between 0 and 1.")
    if entry["kind"] == "policy" and (
        entry.get("algorithm", "ippo") not in ("ippo", "mappo") or entry.get("steps", 0) < 1
    ):
        raise UsageError(f"{where} needs `steps`, and ippo or mappo as its `algorithm`.")
    return HeldOut(**entry)


def build_partners(
    partners: Sequence[HeldOut], file: Path, world: AbstractWorldConfig, env: AbstractEnv
) -> list[AbstractPartner]:
    """Builds partners for a world.

    **Arguments:**

    - `partners`: those of a file.
    - `file`: that file, beside which policies are.
    - `world`: the settings of the world.
    - `env`: the world itself.

    **Returns:** a partner each. All have a level of noise, so that fewer structures differ.

    **Raises:** `UsageError` when a policy is missing, does not fit or learned another game, or a
    cook is asked for in another world; `CheckpointError` when a policy is damaged.
    """
    return [
        NoisyPartner(_build(partner, file, world, env), partner.noise, env.action_space)
        for partner in partners
    ]


def _build(
    partner: HeldOut, file: Path, world: AbstractWorldConfig, env: AbstractEnv
) -> AbstractPartner:
    if partner.kind == "random":
        return RandomPartner(env.action_space)
    if partner.kind == "policy":
        return PolicyPartner(_read(partner, file, world, env))
    kitchen = _kitchen(partner, env)
    if partner.kind == "stay":
        return StayPartner(STAY)
    return ScriptedCook(kitchen, partner.kind)


def _kitchen(partner: HeldOut, env: AbstractEnv) -> Layout:
    world = unwrap(env)
    if not isinstance(world, GridWorld) or world.layout.kinds != KINDS:
        raise UsageError(
            f"The partner {partner.name!r} is a cook, for one kitchen of the world overcooked: "
            "name runs that were trained in one, or other --partners."
        )
    return world.layout


def _read(partner: HeldOut, file: Path, world: AbstractWorldConfig, env: AbstractEnv) -> Any:
    folder = partner.folder(file, short_name(world.title))
    if not folder.exists():
        raise UsageError(
            f"The partner {partner.name!r} is not trained yet: run `"
            f"{partner.command(file, world)}`, or leave policies out with --scripts-only."
        )
    saved = read_policy(folder, None)
    name = f"The partner {partner.name!r}"
    check_same_game(name, saved.config.env, "the policies that are judged", world)
    try:
        saved.policy.check(env)
    except ValueError as error:
        raise UsageError(f"{name} cannot play here: {error}") from error
    return saved.policy
