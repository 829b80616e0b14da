"""The identity of a run: its settings, and checksums of their files and of the user's code.

Every checkpoint stores the identity. Since `config.toml` and layout files can be edited between two
commands, the identity of a resumed run is compared with the one in its checkpoint.
"""

import hashlib
import json
import os
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from beartype.door import is_bearable

from agents import CheckpointError, checksum

from ..base import IDENTITY, Table, UsageError, file_named, warn
from ..settings import OF_THE_PROCESS, Experiment, file_of, is_shipped, own_world_in, to_table

_NAME_FILES = ("env.layout", "env.practice", "partners.policies")
"""The settings whose values may be paths of files."""
_MOST_NAMES = 8  # in a message
_LARGEST_FILE = 2**30  # bytes; larger files have no checksum


Digests: TypeAlias = dict[str, dict[str, str]]
"""Checksums (SHA-256): of the `files` that the settings name, by flag, and of the user's `code`, by
file and flag, if there is any.
"""


def identity(table: Table, found: Digests) -> Table:
    """The entry of a checkpoint that identifies its run.

    **Arguments:**

    - `table`: the settings of the whole run, from `to_table`.
    - `found`: the `digests` of the settings, taken before anything was built.
    """
    settings = {flag: x for flag, x in _settings(table) if flag not in OF_THE_PROCESS}
    return {"settings": settings, **found}


def digests(config: Experiment) -> Digests:
    """The checksums of the files that the settings name, and of the user's code.

    **Raises:** `OSError` or `CheckpointError` when a file cannot be read, and the errors of
    `PartnerSettings.files`.
    """
    found = {}
    for flag, value in _settings(to_table(config)):
        if flag.endswith(_NAME_FILES):
            names = [value] if isinstance(value, str) else value
            digest_of = digest
            if flag == "--partners.policies":
                # Values may be names of bundled human models, which `files` resolves to paths.
                digest_of = checksum
                names = [str(path) for path in config.partners.files(config.env.title)]
            parts = [  # a layout may be a comma-separated list
                part.strip()
                for name in names
                for part in ([name] if os.path.exists(name) else name.split(","))
            ]
            files = (x for x in parts if os.path.isfile(x) and os.path.getsize(x) <= _LARGEST_FILE)
            of_files = [digest_of(Path(file)) for file in files]
            if of_files:
                found[flag] = hashlib.sha256("".join(of_files).encode()).hexdigest()
    code = {f"{path.name} ({flag})": digest(path) for flag, path in _code_of(config)}
    return {"files": found, **({"code": code} if code else {})}


def _code_of(config: Experiment) -> Iterator[tuple[str, Path]]:
    """The files of the user's world and script, after the flags that name them."""
    world = own_world_in(to_table(config))
    if world is not None and (path := file_named(world)) is not None:
        yield "--env.name", path
    script = file_of(type(config))
    if script is not None and not is_shipped(type(config)):
        yield "--script", script


def check_same_run(folder: Path, metadata: Mapping[str, object], now: Table) -> None:
    """Checks that a resumed run has the identity that its checkpoint stores.

    **Arguments:**

    - `folder`: the folder of the run.
    - `metadata`: the metadata of its checkpoint.
    - `now`: its current `identity`.

    Code of the user that has changed prints a warning, since the change may be a mended fault.

    **Raises:** `UsageError` with the settings and files that differ, and `CheckpointError` when the
    checkpoint stores no identity.
    """
    before = metadata.get(IDENTITY)
    if (
        not is_bearable(before, dict[str, Table])
        or before.keys() - {"code"} != now.keys() - {"code"}
        or "update" not in metadata
    ):
        raise CheckpointError(
            f"The checkpoint of the run {str(folder)!r} does not contain its number of updates or "
            "its settings: start a new run."
        )
    names = [
        f"{flag} (was {_shown(old)}, is {_shown(new)})"
        for flag, old, new in _differences(before["settings"], now["settings"])
    ]
    names += [f"the file of {flag}" for flag, *_ in _differences(before["files"], now["files"])]
    for file, *_ in _differences(before.get("code", {}), now.get("code", {})):
        warn(
            f"{file} has changed since the run {str(folder)!r} started, so its log may mix two "
            "versions: restore the file and resume again, or start a new run."
        )
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        raise UsageError(
            f"The run {str(folder)!r} was trained with other settings than its config.toml now "
            f"contains: {', '.join(names[:_MOST_NAMES])}{more}. Restore these settings, or start "
            "a new run."
        )


def check_updates(folder: Path, metadata: Mapping[str, object], updates: int) -> None:
    """Checks that the metadata and the state of a checkpoint belong to the same update.

    **Arguments:**

    - `folder`: the folder of the run.
    - `metadata`: the metadata of its checkpoint.
    - `updates`: the number of updates in the state of its checkpoint.

    **Raises:** `CheckpointError` when the numbers differ.
    """
    if metadata["update"] != updates:
        raise CheckpointError(
            f"The metadata in the checkpoint of the run {str(folder)!r} belongs to update "
            f"{metadata['update']}, but its state to update {updates}: start a new run."
        )


def _differences(
    before: Mapping[str, object], now: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    """The names of values that differ, with the old and the new value."""
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield name, before.get(name), now.get(name)


def _shown(value: object) -> str:
    return "not given" if value is None else reprlib.repr(value)


def _settings(table: Table) -> Iterator[tuple[str, Any]]:
    """All settings, by flag. The flags of a stage begin with its number, as in `stage 1: `."""
    for number, stage in enumerate(table.get("stage", []), start=1):
        yield from _flat(stage, f"stage {number}: ")
    yield from _flat({name: x for name, x in table.items() if name != "stage"}, "--")


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        flag = prefix + name.replace("_", "-")
        if isinstance(value, dict):
            yield from _flat(value, f"{flag}.")
        else:
            yield flag, value


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
