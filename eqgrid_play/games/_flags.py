"""The flags of games with policies, which several commands have."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from msgspec import Meta

from eqgrid_lab.base import as_usage_error
from eqgrid_lab.partners import Partners, is_policy, load_parts, policies_of
from eqgrid_lab.settings import at_home, cli, given, read_flags
from eqgrid_lab.worlds import Kitchen, WorldSettings, world_settings

from ._menu import Menu

_WITH_VALUE = re.compile(r"--env\.(?!no-)[^=]+")
"""A flag of a world, with its value in the next word unless the flag is a switch."""


@dataclasses.dataclass(frozen=True)
class GameFlags:
    """The flags of games with policies: the world, and the speed of the games and partners."""

    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script with the networks of policies, if any; its code is run."""
    ticks_per_second: Annotated[float, Meta(gt=0, le=60)] = 6.0
    """Steps per second."""

    def menu(self, names: Mapping[str, str], partners: Partners) -> Menu:
        """The worlds and partners.

        **Arguments:**

        - `names`: as in `Menu`.
        - `partners`: builds the partners.

        **Raises:** `UsageError` when the world cannot be built, or a partner cannot act in it, and
        `CheckpointError` when a policy is missing or damaged.
        """
        with as_usage_error():
            self.env.check()
        menu = Menu(self.env, names, partners)
        menu.check()
        return menu


@dataclasses.dataclass(frozen=True)
class PartnerFlags(GameFlags):
    """The flags of games with partners that the command line names."""

    partners: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN|FILE|PARTNER ...")]
    ] = ()
    """Partners to offer first: folders of runs, policy files, shipped:NAME, or others, such as
    greedy+noise=0.2+delay=2."""


T = TypeVar("T", bound=PartnerFlags)


def read_partner_flags(default: T, args: Sequence[str], command: str) -> tuple[T, Partners]:
    """Parses a command line, whose world is `--env.name`, or else the world of the first policy.

    **Arguments:** as for `read_flags`.

    **Returns:** the flags, and what builds the partners; it has read the first policy.

    **Raises:** as `read_flags`, `world_settings` and `read_saved`.
    """
    args = at_home(args)
    name = given(args).get("--env.name")
    # The policies must be known before the flags of their world.
    known = cli(default, _without_world(args), command, "")
    partners = Partners(load_parts(known.script), name)
    env = world_settings(name)
    if name is None and (policies := [x for x in known.partners if is_policy(x)]):
        env = partners.read(policies_of(policies[0])[0]).env
    return read_flags(dataclasses.replace(default, env=env), args, command), partners


def _without_world(args: Sequence[str]) -> list[str]:
    """A command line without `--help` and the flags of the world, each with at most one value."""
    kept: list[str] = []
    for before, arg in pairwise(("", *args)):
        is_value = _WITH_VALUE.fullmatch(before) and not arg.startswith("--")
        if not (is_value or arg.startswith("--env.") or arg in ("-h", "--help")):
            kept.append(arg)
    return kept
