"""Reads trained policies from files, to play with them."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, NotRequired, TypeAlias, TypedDict, final

import msgspec

from agents import (
    AbstractActionHead,
    AbstractCriticInput,
    AbstractNetwork,
    CheckpointError,
    PolicyFile,
    PolicyPartner,
    StuckRule,
    TrainedPolicy,
    find_policies,
    read_policy,
)
from agents.files import POLICY_FILE
from eqgrid import AbstractEnv, AbstractPartner, unwrap
from eqgrid.grid import AbstractGridWorld, RandomLayouts, poses

from ..base import Table, UsageError, as_usage_error, import_file
from ..worlds import WorldSettings, settings_from
from ._place import Place

Parts: TypeAlias = Mapping[str, Callable[..., object]]
"""The user's own parts of policies: classes by their names, as in `load_policy`."""


class _Partner(TypedDict):
    """A partner of training: its name, the checksum of its file, and of the settings of its run."""

    name: str
    sha256: str
    run: NotRequired[str | None]


class _Metadata(TypedDict, total=False):
    """The entries of a policy file that commands use.

    - `run`: the checksum of the settings of its run, the same for all checkpoints of the run.
    - `partners`: its partners in training.
    - `stuck_steps`: `StuckRule.steps` of a model of people; 0 to play without this rule.
    """

    env_steps: int
    run: str
    partners: list[_Partner]
    stuck_steps: int


@final
@dataclasses.dataclass(frozen=True, eq=False)
class SavedPolicy:
    """A policy from a file.

    **Arguments:**

    - `name`: its path on the command line, without `.safetensors`, or without
        `policy.safetensors` in the folder of a run.
    - `file`: the content of the file.
    - `env`: the settings of the world in which it plays.
    - `trained_in`: the settings of the world in its file; `env` may have another layout.
    """

    name: str
    file: PolicyFile
    env: WorldSettings
    trained_in: WorldSettings

    @property
    def policy(self) -> TrainedPolicy:
        """The policy."""
        return self.file.policy

    @property
    def marks(self) -> set[str]:
        """The checksums of the policy and of its run, which identify it."""
        return {self.file.sha256, self.file.metadata.get("run")} - {None}

    def known(self) -> set[str]:
        """The `marks` of the policy itself, and of its partners in training."""
        partners = self.file.metadata.get("partners", [])
        return self.marks | {x.get(key) for x in partners for key in ("sha256", "run")} - {None}

    def place(self) -> Place:
        """The world in which the policy plays, with its observations.

        **Raises:** `ValueError` and `CheckpointError` when it cannot be built.
        """
        return Place.of(self.env, self.file.observe)

    def partner(self, place: Place, *, greedy: bool = False) -> AbstractPartner:
        """The policy as a partner in a world. In a grid world, its observations may differ from
        those of the other agents.

        A model of people has a `StuckRule`.

        **Arguments:**

        - `place`: the world.
        - `greedy`: take the most probable actions instead of sampling them.

        **Raises:** `ValueError` when the policy cannot act in this world.
        """
        inner, env = unwrap(place.env), None
        own = (self.env.observation, self.file.wrappers)
        if own != place.observation and isinstance(inner, AbstractGridWorld | RandomLayouts):
            # Builds the world again, only to get the observation function.
            settings: Any = place.settings
            if own[0] is not None:
                settings = dataclasses.replace(settings, observation=own[0])
            grid = Place.of(settings).grid
            env = self.file.observe(inner.with_observation(grid.observation))
        self.policy.check(place.env if env is None else env)
        partner = PolicyPartner(self.policy, greedy, env)
        steps = self.file.metadata.get("stuck_steps", 0)
        return StuckRule(partner, poses, steps) if steps else partner


def policies_of(path: str | Path) -> list[str]:
    """The policy files of a run with several seeds. If `path` is any other file or folder, it is
    returned.

    **Arguments** and **Raises:** as in `find_policies`.
    """
    found = find_policies(path)
    return [str(x) for x in found] if len(found) > 1 else [str(path)]


def read_saved(
    name: str | Path,
    layout: str | None = None,
    *,
    parts: Parts | None = None,
    own_world: str | None = None,
) -> SavedPolicy:
    """Reads a policy, once.

    **Arguments:**

    - `name`: a policy file, the folder of a run with one seed, or `shipped:NAME`.
    - `layout`: a layout to use instead of the one in which it was trained.
    - `parts`: as in `agents.load_policy`.
    - `own_world`: the world that the command line names, if it is the user's own.

    **Raises:** `CheckpointError` when the policy is missing or damaged, its layout is a file, or
    its world is unknown or a world of the user that the command line does not name; `UsageError`
    when its file names no world, or its world has no layouts.
    """
    file = read_policy(name, parts=parts)
    where = f"The policy {str(file.path)!r}"
    try:
        msgspec.convert(file.metadata, _Metadata)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{where} cannot be used: its metadata: {error!s:.200}.") from error
    if file.world is None:
        raise UsageError(
            f"{where} does not name its world, so evaluate it in Python with agents.evaluate."
        )
    arguments = dict(file.world.arguments)
    try:
        trained_in = settings_from(file.world.name, arguments, own_world, file.parts)
    except UsageError as error:
        raise CheckpointError(f"{where} {error}") from error
    if layout is None and (files := trained_in.layout_files):
        raise CheckpointError(
            f"{where} was trained in the layout {files[0]!r:.200}, which is not a known name, and "
            "files named by a policy are not opened: choose a layout with --layout."
        )
    env = trained_in
    if layout is not None:
        if "layout" not in arguments:
            raise UsageError("The world of this policy has no layouts: leave out --layout.")
        if layout != arguments["layout"]:
            arguments.pop("generated", None)
        with as_usage_error("--layout cannot be used: the world ", UsageError):
            arguments["layout"] = layout
            env = settings_from(file.world.name, arguments, own_world, file.parts)
    path = Path(name)
    shown = str(path.parent if path.name == POLICY_FILE and path.parent.name else path)
    return SavedPolicy(shown.removesuffix(".safetensors"), file, env, trained_in)


def parts_in(module: ModuleType) -> Parts:
    """The networks, action heads, critic inputs, wrappers and worlds that a module defines or
    imports. A world is a class, or a function whose annotation says that it returns one.
    """
    kinds = (AbstractNetwork, AbstractActionHead, AbstractCriticInput, AbstractEnv)
    found: dict[str, Callable[..., object]] = {}
    for x in vars(module).values():
        made = x.__annotations__.get("return") if isfunction(x) else x
        if isinstance(made, type) and issubclass(made, kinds):
            found[x.__name__] = x
    return found


def load_parts(script: Path | None) -> Parts:
    """The `parts_in` the script that a command line names, whose code is run; none without a
    script. **Raises:** as `import_file`.
    """
    return {} if script is None else parts_in(import_file(script))


def run_mark(settings: Table) -> str:
    """The checksum of the settings of a run, which its policy files contain as `run`."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
