"""Reads trained policies from files, together with the settings of their training."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax

from agents import (
    CheckpointError,
    TrainedPolicy,
    checksum,
    find_policies,
    find_policy,
    load_policy,
)
from agents.files import POLICY_FILE
from eqgrid import AbstractEnv, AbstractPartner, read_regular_text

from ..base import (
    PARTNERS,
    NotNamed,
    Table,
    UsageError,
    as_usage_error,
    is_own,
    read_metadata,
)
from ..settings import (
    SCRIPT,
    SHIPPED,
    Experiment,
    PolicySettings,
    check_limits,
    config_of_policy,
    script_errors,
    shipped_script,
    world_from,
    world_name_in,
)
from ..worlds import Kitchen, WorldSettings, check_same_game, check_same_world


@final
@dataclasses.dataclass(frozen=True)
class SavedPolicy:
    """A policy from a file.

    **Arguments:**

    - `name`: its path on the command line, without `.safetensors`, or without
        `policy.safetensors` in the folder of a run.
    - `path`: the file.
    - `policy`: the policy, with its observation statistics.
    - `metadata`: the metadata of the file.
    - `config`: the settings with which it was trained, possibly with another layout.
    - `trained_in`: the settings of the world in which it was trained.
    """

    name: str
    path: Path
    policy: TrainedPolicy
    metadata: Table
    config: PolicySettings
    trained_in: WorldSettings

    def known(self) -> set[str]:
        """The `marks` of the policy itself, and of its partners in training.

        **Raises:** `CheckpointError` when its file cannot be read.
        """
        partners = self.metadata.get(PARTNERS, [])
        of_partners = {x.get(key) for x in partners for key in ("sha256", "run")} - {None}
        return marks(self.path, self.metadata) | of_partners

    def partner(
        self, among: PolicySettings, shown: AbstractEnv, *, greedy: bool = False
    ) -> AbstractPartner:
        """The policy as a partner among agents with other settings.

        **Arguments** and **Raises:** as in `PolicySettings.partner`.
        """
        config = dataclasses.replace(self.config, env=self.trained_in)
        return config.partner(self.policy, among, shown, greedy=greedy)


def policies_of(path: Path) -> list[Path]:
    """The policy files of a run with several seeds. If `path` is any other file or folder, it is
    returned.

    **Arguments** and **Raises:** as in `find_policies`.
    """
    found = find_policies(path)
    return found if len(found) > 1 else [path]


def read_policy(
    name: Path,
    layout: str | None = None,
    own_script: type[PolicySettings] | None = None,
    own_world: str | None = None,
) -> SavedPolicy:
    """Reads a policy.

    **Arguments:**

    - `name`: a policy file, or the folder of a run with one seed.
    - `layout`: a layout to use instead of the one in which it was trained.
    - `own_script`: the custom script that trained it; `None` for a bundled script.
    - `own_world`: the world that the command line names, if it is the user's own.

    **Returns:** the policy.

    **Raises:** `CheckpointError` when the policy is missing or damaged, or its layout is a file;
    `UsageError` when its file has no settings, its world has no layouts, or the command line does
    not name its custom script or its world of the user.
    """
    path = find_policy(name)
    metadata = read_metadata(path)
    settings = metadata.get("run")
    if settings is None:
        load_policy(path)  # raises an error if the file is damaged
        raise UsageError(
            f"The policy {str(path)!r} does not contain its world, since it was not saved by a "
            "command: evaluate it in Python with agents.evaluate."
        )
    experiment = _experiment_of(path, settings, own_script)
    with _settings_of(path):
        config = config_of_policy(settings, experiment, own_world)
        with as_usage_error("cannot be used: ", UsageError):
            check_limits(config)
    is_custom, files = settings.get(SCRIPT) is not None, config.env.layout_files
    policy = None if is_custom else load_policy(path)
    if layout is None and files:
        raise CheckpointError(
            f"The policy {str(path)!r} was trained in the layout {files[0]!r:.200}, which is not "
            "a known name, and files named by a policy are not opened: choose a layout with "
            "--layout."
        )
    used = config
    if layout is not None:
        env = settings.get("env", {})
        if "layout" not in env:
            raise UsageError("The world of this policy has no layouts: leave out --layout.")
        if layout != env["layout"]:  # settings for generated layouts have their defaults
            kept = {x: y for x, y in env.items() if x not in ("generated", "practice")}
            settings = {**settings, "env": {**kept, "layout": layout}}
        with as_usage_error("--layout cannot be used: the world ", UsageError):
            used = config_of_policy(settings, experiment, own_world)
    if policy is None:  # the custom script builds the networks, which the file does not describe
        buildable = used if files else config  # a layout file of the policy is not opened
        assert isinstance(buildable, Experiment)
        with script_errors(type(buildable)):
            env = buildable.eval_env(buildable.env.build(train=False), 1)
        like = eqx.filter_eval_shape(buildable.policy, env, jax.random.key(0))
        policy = load_policy(path, like=like)
    shown = str(name.parent if name.name == POLICY_FILE and name.parent.name else name)
    shown = shown.removesuffix(".safetensors")
    return SavedPolicy(shown, path, policy, metadata, used, config.env)


def _experiment_of(
    path: Path, settings: Table, own_script: type[PolicySettings] | None
) -> type[PolicySettings]:
    """The script that trained a policy.

    **Raises:** `UsageError` when it is a custom script and `own_script` is `None`, and
    `CheckpointError` when the algorithm is unknown.
    """
    script = settings.get(SCRIPT)
    if script is not None and own_script is None:
        raise UsageError(
            f"The policy {str(path)!r} was trained by your own script {script!r:.100}: add "
            "--script with this file."
        )
    if script is not None and own_script is not None:
        return own_script
    if settings.get("algorithm") not in SHIPPED:
        raise CheckpointError(
            f"The settings in the policy {str(path)!r} have the unknown algorithm "
            f"{settings.get('algorithm')!r:.100}."
        )
    return shipped_script(settings["algorithm"])


def check_trained_here(path: Path, config: Experiment) -> dict[str, str | None]:
    """Checks that a partner was trained in the world of a run with the same rules; layouts may
    differ.

    **Arguments:**

    - `path`: the policy file. It is not checked if it has no settings.
    - `config`: the settings of the run.

    **Returns:** the name and the `checksum` of the file, and its `run_digest`.

    **Raises:** `UsageError` when the worlds or their rules differ, and `CheckpointError` when the
    file or its settings are damaged.
    """
    metadata = read_metadata(path)
    about = {
        "name": "/".join(path.parts[-2:]),
        "sha256": checksum(path),
        "run": run_digest(metadata),
    }
    if (settings := metadata.get("run")) is None:
        return about
    name = world_name_in(settings)
    partner = f"The partner {str(path)!r}"
    if name is not None and is_own(name):  # no other world of the user is imported
        check_same_world(partner, name, "this run", config.env.name)
    with _settings_of(path):
        env = world_from(settings, type(config), config.env.name)
        check_limits(env, "--env.")
    check_same_game(partner, env, "this run", config.env)
    return about


@contextlib.contextmanager
def _settings_of(path: Path) -> Iterator[None]:
    """Context manager for reading the settings in a policy file.

    **Raises:** `CheckpointError` when the settings are invalid, and `UsageError` when they have
    a world of the user that the command line does not name.
    """
    try:
        yield
    except NotNamed as error:
        raise UsageError(f"The policy {str(path)!r} {error}") from error
    except UsageError as error:
        raise CheckpointError(f"The settings in the policy {str(path)!r} {error}") from error


def portable(env: WorldSettings) -> WorldSettings:
    """The settings of a world as a policy file stores them.

    A layout file is replaced by its text, and `Kitchen.practice` is omitted.
    """
    if isinstance(env, Kitchen) and env.practice:
        env = dataclasses.replace(env, practice=())
    return written_out(env)


def written_out(env: WorldSettings) -> WorldSettings:
    """The settings of a world with the path of a layout file replaced by the text of the file.

    The settings are unchanged if the layout is not a file, or the text would build another world.
    """
    layout = getattr(env, "layout", None)
    if not isinstance(layout, str) or "\n" in layout:
        return env
    try:
        text = read_regular_text(layout)
        with_text: Any = dataclasses.replace(env, layout=text)  # pyright: ignore[reportArgumentType]
        same = eqx.tree_equal(*(x.build(train=False) for x in (env, with_text)))
    except Exception:  # the layout is a name, its file is not a text, or the world reads no texts
        return env
    return with_text if same is True or bool(same) else env


def run_digest(metadata: Mapping[str, object]) -> str | None:
    """A checksum of the settings of the run that trained a policy, the same for all checkpoints of
    the run; `None` if the file of the policy contains no settings.

    **Arguments:**

    - `metadata`: the metadata of the file.
    """
    settings = metadata.get("run")
    if settings is None:
        return None
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def marks(path: Path, metadata: Mapping[str, object]) -> set[str]:
    """The checksums that identify a policy: the checksums of its content and of its run.

    **Arguments:**

    - `path`, `metadata`: the file and its metadata.

    **Raises:** `CheckpointError` when the file cannot be read.
    """
    run = run_digest(metadata)
    return {checksum(path)} if run is None else {checksum(path), run}


def digest(path: Path) -> str:
    """The checksum (SHA-256) of a file. **Raises:** `OSError` when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
