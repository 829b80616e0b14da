"""Held-out partners, described in a TOML file so that other people can evaluate with the same
partners.
"""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, final, get_args

from msgspec import Meta

from agents import find_policy
from agents.files import BUNDLED, shipped
from eqgrid import AbstractEnv, AbstractPartner, ConstantPartner, NoisyPartner, RandomPartner
from eqgrid.envs.overcooked import STAY, ScriptedCook

from ..base import Table, UsageError, as_usage_error, read_metadata
from ..folders import short_name
from ..runs import SavedPolicy, marks, read_policy
from ..settings import PolicySettings, Seed, check_limits, fill, read_toml
from ..worlds import Kitchen, Share, WorldSettings, check_same_game, kitchen_layout
from ._policies import PolicyFlags

T = TypeVar("T")

HELD_OUT = shipped("heldout/kitchens.toml")
"""The bundled file of partners."""
PEOPLE = shipped("heldout/people.toml")
"""The bundled file of human proxies, which the word `people` on command lines stands for."""

Kind: TypeAlias = Literal["stay", "random", "greedy", "onion", "dish", "policy"]


@final
@dataclasses.dataclass(frozen=True)
class HeldOut:
    """The description of a partner, which is an entry in a file of partners.

    **Arguments:**

    - `name`: the name of the partner, and of the folder of its policy.
    - `kind`: a script, or `"policy"`.
    - `noise`: the probability that an action is replaced by a random one.
    - `algorithm`, `seed`, `steps`: the settings that train the policy.
    - `file`: the file of a policy that was trained otherwise. The path is relative to the folder of
        the file of partners, and `{layout}` in it stands for the layout.
    """

    name: str
    kind: Kind
    noise: Share = 0.0
    algorithm: Literal["ippo", "mappo"] = "ippo"
    seed: Seed = 0
    steps: Annotated[int, Meta(ge=0, le=10**15)] = 0
    # Not in `repr`, by which stored best responses identify partners.
    file: str = dataclasses.field(default="", repr=False)

    def place(self, file: Path, layout: str) -> Path:
        """The file or the folder of the policy. The default is the folder `FILE/LAYOUT/NAME`, where
        `FILE` is the path of the file of partners without suffix.
        """
        if self.file.startswith(BUNDLED):
            return find_policy(self.file.replace("{layout}", layout))
        if self.file:
            return file.parent / self.file.replace("{layout}", layout)
        return file.with_suffix("") / layout / self.name

    def command(self, file: Path, world: WorldSettings) -> str:
        """The command that trains the policy."""
        layout = short_name(world.title)
        flags = [] if world.name == Kitchen.name else ["--env.name", world.name]
        flags += ["--env.layout", layout] if hasattr(world, "layout") else []
        flags += ["--env.dynamics", world.rules] if world.rules else []
        # The partners must stay the same when defaults change.
        flags += ["--ppo.entropy-coefficient", "0.01"]
        flags += ["--seed", str(self.seed), "--total-steps", str(self.steps)]
        flags += ["--out", str(self.place(file, layout))]
        return shlex.join(["python", f"experiments/{self.algorithm}.py", *flags])


@dataclasses.dataclass(frozen=True)
class _File:
    """The contents of a file of partners."""

    seed: Seed = 0
    partner: Annotated[tuple[Table, ...], Meta(min_length=1)] = ()


def read_held_out(file: Path) -> tuple[list[HeldOut], int]:
    """Reads a file of partners.

    **Returns:** the partners, and the seed of the episodes with them.

    **Raises:** `UsageError` when the file cannot be used.
    """
    where = f"The file of partners {str(file)!r}"
    with as_usage_error(f"{where} ", UsageError):
        table = read_toml(file)
    contents = _filled(_File(), table, where)
    partners = [_read_entry(file, entry) for entry in contents.partner]
    names = [partner.name for partner in partners]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where} has two partners {name!r}.")
    return partners, contents.seed


def _read_entry(file: Path, entry: Table) -> HeldOut:
    where = f"In the file of partners {str(file)!r}, the partner {entry.get('name')!r:.60}"
    partner = _filled(HeldOut("", "stay"), entry, where)
    if "/" in partner.name or partner.name in ("", ".", ".."):
        raise UsageError(f"{where} needs a `name` that can be the name of a folder.")
    if "kind" not in entry:
        raise UsageError(f"{where} needs a `kind`: one of {', '.join(get_args(Kind))}.")
    if partner.kind == "policy" and partner.steps < 1 and not partner.file:
        raise UsageError(
            f"{where} needs `steps`, for how long its policy is trained, or the `file` of a policy."
        )
    return partner


def _filled(default: T, table: Table, where: str) -> T:
    """Replaces fields of a dataclass by the entries of a table.

    **Raises:** `UsageError` for an unknown key, and for a value of a wrong type or out of range.
    The message begins with `where`.
    """
    with as_usage_error(f"{where} ", UsageError):
        filled = fill(default, table, "")
    with as_usage_error(f"{where} cannot be used: ", UsageError):
        check_limits(filled, "")
    return filled


def build_partners(
    partners: Sequence[HeldOut],
    file: Path,
    among: PolicySettings,
    env: AbstractEnv,
    flags: PolicyFlags,
) -> list[AbstractPartner]:
    """Builds partners for a world.

    **Arguments:**

    - `partners`: the descriptions of the partners.
    - `file`: the file of the partners, next to their policies.
    - `among`: the settings of the policies that are evaluated.
    - `env`: the environment of these policies, with their observations.
    - `flags`: the command line, which may name user code that the partners' policies need.

    **Returns:** the partners. Each is wrapped in a `NoisyPartner`, even without noise, so that
    partners have fewer different structures to compile.

    **Raises:** `UsageError` when a policy is missing, does not fit the world or was trained in
    another game, or when a scripted cook or a bundled file is used outside of Overcooked;
    `CheckpointError` when a policy is damaged.
    """
    if file in (HELD_OUT, PEOPLE) and among.env.name != Kitchen.name:
        raise UsageError(
            f"eqgrid has no held-out partners for the world {among.env.name}: name a file of your "
            "own partners with --partners."
        )
    return [
        NoisyPartner(_build(partner, file, among, env, flags), partner.noise, env.action_space)
        for partner in partners
    ]


def _build(
    partner: HeldOut, file: Path, among: PolicySettings, env: AbstractEnv, flags: PolicyFlags
) -> AbstractPartner:
    if partner.kind == "random":
        return RandomPartner(env.action_space)
    if partner.kind == "policy":
        return _read_partner(partner, file, among, env, flags)
    kitchen = kitchen_layout(env)
    if kitchen is None:
        raise UsageError(
            f"The partner {partner.name!r} is for one kitchen of the world overcooked: choose a "
            "kitchen with --layout, or other runs or --partners."
        )
    return ConstantPartner(STAY) if partner.kind == "stay" else ScriptedCook(kitchen, partner.kind)


def _read_partner(
    partner: HeldOut, file: Path, among: PolicySettings, env: AbstractEnv, flags: PolicyFlags
) -> AbstractPartner:
    layout = short_name(among.env.title)
    place = partner.place(file, layout)
    if partner.file and not place.exists():
        raise UsageError(
            f"The partner {partner.name!r} does not exist for the layout {layout!r}: "
            f"{str(place)!r} is missing, so choose other --partners, or leave policies out with "
            "--scripts-only."
        )
    if not place.exists():
        raise UsageError(
            f"The partner {partner.name!r} is not trained yet: run `"
            f"{partner.command(file, among.env)}`, or leave policies out with --scripts-only."
        )
    saved = read_policy(place, None, flags.own_script(), flags.own_world)
    name = f"The partner {partner.name!r}"
    try:
        check_same_game(name, saved.config.env, "the policies that are judged", among.env)
    except UsageError as error:
        raise UsageError(f"{error} Leave policies out with --scripts-only.") from error
    with as_usage_error(f"{name} cannot play here: "):
        return saved.partner(among, env)


def known_before(
    policies: Sequence[SavedPolicy], partners: Sequence[HeldOut], file: Path, layout: str
) -> dict[str, list[str]]:
    """Finds the partners with which policies were trained, and partners that are one of these
    policies.

    **Arguments:**

    - `policies`: the policies that are evaluated.
    - `partners`, `file`: as in `build_partners`, which has checked that their files exist.
    - `layout`: the title of the world.

    **Returns:** the names of these partners, by the name of the policy. Policies without such
    partners are left out.
    """
    places = {x.name: x.place(file, short_name(layout)) for x in partners if x.kind == "policy"}
    files = {name: find_policy(place) for name, place in places.items()}
    marks_of = {name: marks(path, read_metadata(path)) for name, path in files.items()}
    known_to = {saved.name: saved.known() for saved in policies}
    found = {
        policy: [name for name, own in marks_of.items() if own & known]
        for policy, known in known_to.items()
    }
    return {policy: names for policy, names in found.items() if names}
