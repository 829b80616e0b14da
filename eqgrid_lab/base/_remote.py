"""Remote folders: addresses such as `s3://bucket/run`, which fsspec reads and writes.

A program works in a local folder, and a thread copies this folder to the address in snapshots. Each
file becomes an object whose name contains a checksum. The manifest, which names all files, is
written last, so a reader finds a complete snapshot or none. The manifest also names the run that
writes it. A run stops if it finds another run in the manifest.
"""

import atexit
import contextlib
import hashlib
import importlib
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, final

import msgspec

from agents import CheckpointError, write_atomic

from ._errors import RunError, Stopped, UsageError, print_error, warn
from ._run_files import SETTINGS_FILE

SNAPSHOT_SECONDS = 10.0
"""The time between two snapshots, in seconds."""
_MAX_SECONDS = 60.0
"""The longest time between two attempts to write a snapshot, in seconds."""
_KEPT_SNAPSHOTS = 6
"""The number of snapshots for which an object is kept after the manifest stops naming it, since a
reader may still need it.
"""
_LAST_TRIES, _LAST_SECONDS = 5, 300.0
"""The number of attempts to write the last snapshot, and their time limit in seconds."""
_MANIFEST = "eqgrid-manifest.json"
_ADDRESS = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]+://")
_OBJECT = re.compile(r"@[0-9a-f]{12}$")
_READ_FIRST = ("last.safetensors", "seeds.safetensors")
"""Checkpoints from which runs resume. A snapshot reads them first, so logs may be newer: a resumed
run removes the later rows.
"""


@final
class _File(msgspec.Struct, frozen=True):
    size: int
    sha256: str

    def object_of(self, path: str) -> str:
        """The name of the object with the content of the file at a path."""
        return f"{path}@{self.sha256[:12]}"


@final
class _Manifest(msgspec.Struct, frozen=True):
    """The files of a snapshot by their paths, and the id of the run that wrote it.

    `count` is 1 more than in the previous manifest at the address, so it changes as long as a run
    writes there.
    """

    run: str
    count: int
    ended: bool
    files: dict[str, _File]

    def objects(self) -> set[str]:
        """The names of the objects of all files."""
        return {file.object_of(path) for path, file in self.files.items()}


_OPTIONS = {
    "file": {"auto_mkdir": True},
    # s3fs itself tries each request five times.
    "s3": {"config_kwargs": {"retries": {"total_max_attempts": 1}}},
}
"""Options of file systems, by the schemes of addresses."""

_LOCAL: dict[str, Path] = {}
"""The local folder, or file, of each address that this process uses."""
_TEMPORARY: set[Path] = set()
"""The temporary folders that contain them, which are removed when the process ends normally."""
_COPIED: dict[Path, _Manifest] = {}
"""The manifests of the runs that were copied to local folders."""


def is_address(name: str) -> bool:
    """Whether a name is an address such as `s3://bucket/run`. Web pages are not addresses."""
    return _ADDRESS.match(name) is not None


def address_of(path: Path) -> str:
    """The address of a local copy, or of a file in it; the path itself if it is not a copy."""
    for address, local in _LOCAL.items():
        if path == local or local in path.parents:
            return f"{address}/{path.relative_to(local).as_posix()}".removesuffix("/.")
    return str(path)


def check_local(path: Path, flag: str) -> None:
    """**Raises:** `UsageError` when a path is the local copy of an address, for flags that do not
    support addresses.
    """
    if is_address(address_of(path)):
        raise UsageError(f"{flag} does not support {address_of(path)!r}: choose a local folder.")


def working_path(address: str) -> Path:
    """The path of the local folder whose files `mirrored` copies to an address."""
    address = address.rstrip("/")
    if address not in _LOCAL:
        root = Path(tempfile.mkdtemp(prefix="eqgrid-")).resolve()
        _TEMPORARY.add(root)
        # Tables show the last names of paths.
        parts = PurePosixPath(address.partition("://")[2]).parts
        names = [name for name in parts if name not in ("/", "..")]
        _LOCAL[address] = root.joinpath("files", *names[-2:])
    return _LOCAL[address]


@atexit.register
def remove_copies() -> None:
    """Removes the local copies of addresses, except folders that `mirrored` is copying to an
    address, or could not copy.
    """
    for root in _TEMPORARY:
        shutil.rmtree(root, ignore_errors=True)


def local_path(name: str) -> Path:
    """The path of a file or a run. The files at an address are copied once.

    **Raises:** `UsageError` when there is no file at the address, and as `copied`.
    """
    if not is_address(name):
        return Path(name)
    if not (local := copied(name)).exists():
        raise UsageError(f"{name!r} does not contain a run or a policy.")
    return local


def copied(address: str) -> Path:
    """The path of the local copy of the files at an address. It does not exist if the address has
    no files.

    **Raises:** `UsageError` when no installed library supports the address, `RunError` when it
    cannot be read, and `CheckpointError` when a file is damaged.
    """
    local, remote = working_path(address), _Remote(address)
    for is_last in (False, False, True):
        if local.exists():
            break
        try:
            with remote.errors("read", FileNotFoundError):
                remote.copy_to(local)
        except FileNotFoundError as error:  # a run may replace objects while they are read
            if is_last:
                raise RunError(f"An object of {address!r} is missing: {error}.") from error
    return local


@contextlib.contextmanager
def mirrored(
    folder: Path, overwrite: bool = False, check: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Context manager that copies a folder to an address, if it is the local copy of one.

    A thread writes snapshots of the folder, and retries if the connection fails. At the end, the
    last snapshot is written and the local folder is removed.

    **Arguments:**

    - `folder`: a folder from `working_path` or `local_path`; nothing happens for other folders.
    - `overwrite`: whether to replace the run at the address.
    - `check`: called repeatedly while it waits for a change by another run; may raise an exception.

    **Raises:** `UsageError` when another run writes to the address, or it has files and `overwrite`
    is false, and `RunError` when it cannot be written at the start or at the end, or when another
    run begins to write to it.
    """
    address = next((address for address, local in _LOCAL.items() if local == folder), None)
    if address is None:
        yield
        return
    mirror = _Mirror(_Remote(address), folder, overwrite, check)
    try:
        yield
    except BaseException:
        if sentence := mirror.close():
            print_error(sentence, 1)
        raise
    if sentence := mirror.close():
        raise RunError(sentence)


@final
class _Remote:
    """The file system of an address, and the path in it."""

    def __init__(self, address: str):
        """**Raises:** `UsageError` when no installed library supports the address, and `RunError`
        when it cannot be reached.
        """
        self.address = address.rstrip("/")
        scheme = address.partition("://")[0]
        try:
            fsspec: Any = importlib.import_module("fsspec")
            options = _OPTIONS.get(scheme, {})
            self.fs, self.root = fsspec.core.url_to_fs(self.address, **options)
        except (ImportError, ValueError) as error:
            is_s3 = isinstance(error, ImportError) and scheme == "s3"
            hint = "pip install 'eqgrid[remote]'" if is_s3 else str(error)
            raise UsageError(f"The address {address!r} is not supported: {hint}.") from error
        except Exception as error:  # some file systems connect here, with errors of any class
            raise RunError(f"{address!r} cannot be reached: {error}.") from error

    @contextlib.contextmanager
    def errors(self, verb: str, *passing: type[Exception]) -> Iterator[None]:
        """**Raises:** `RunError` for the errors of a file system, which may be of any class."""
        try:
            yield
        except (RunError, UsageError, CheckpointError, Stopped, *passing):
            raise
        except Exception as error:
            why = str(error).partition("\n")[0].rstrip(". ") or type(error).__name__
            hint = " Check the credentials." if isinstance(error, PermissionError) else ""
            raise RunError(f"{self.address!r} cannot be {verb}: {why}.{hint}") from error

    def manifest(self, root: str) -> _Manifest | None:
        """The manifest in a folder of the file system; `None` if there is none.

        **Raises:** `CheckpointError` when it is damaged.
        """
        try:
            manifest = msgspec.json.decode(self.fs.cat_file(f"{root}/{_MANIFEST}"), type=_Manifest)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckpointError(f"The manifest of {self.address!r} is damaged.") from error
        for path in map(PurePosixPath, manifest.files):
            if path.is_absolute() or ".." in path.parts or "\\" in str(path):
                raise CheckpointError(f"The manifest of {self.address!r} has a path outside of it.")
        return manifest

    def copy_to(self, local: Path) -> None:
        """Copies a run, a file of a run, or any other file, if it exists. If this fails, `local`
        does not exist.
        """
        copy = local.parent / f"{local.name}.partial"
        shutil.rmtree(copy, ignore_errors=True)
        # The address may be a file or a folder of a run, whose manifest is then in a parent folder.
        for root in (self.root, *(str(x) for x in PurePosixPath(self.root).parents if x.name)):
            if (manifest := self.manifest(root)) is None:
                continue
            inside = self.root.removeprefix(root).strip("/")
            for path, file in manifest.files.items():
                if PurePosixPath(path).is_relative_to(inside):
                    name = file.object_of(path)
                    target = copy / PurePosixPath(path).relative_to(inside)
                    self._copy(f"{root}/{name}", target)
                    if _size_and_checksum(target) != file:
                        raise CheckpointError(
                            f"The object {name!r} of {self.address!r} is damaged."
                        )
            if not inside:
                _COPIED[local] = manifest
            break
        else:
            if self.fs.isfile(self.root):
                self._copy(self.root, copy)
        if copy.exists():
            copy.rename(local)

    def _copy(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        self.fs.get_file(name, str(target))


def _size_and_checksum(path: Path) -> _File:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return _File(path.stat().st_size, digest)


@final
class _Mirror:
    """Copies a local folder to an address, in a thread."""

    def __init__(self, remote: _Remote, folder: Path, overwrite: bool, check: Callable[[], object]):
        """Writes a manifest with the id of this run, and starts the thread.

        **Raises:** as `mirrored`.
        """
        self.remote, self.folder, self.run = remote, folder, secrets.token_hex(8)
        with remote.errors("written"):
            self.manifest = self._check_free(overwrite, check)
            names = {x.removeprefix(remote.root).strip("/") for x in remote.fs.find(remote.root)}
            # Folders of other runs below this address.
            others = tuple(x.removesuffix(_MANIFEST) for x in names if x.endswith(f"/{_MANIFEST}"))
            objects = {x for x in names if _OBJECT.search(x) and not x.startswith(others)}
            # The objects at the address, and the files of the run that is resumed or replaced.
            self.stored = objects if self.manifest else set[str]()
            self.older = self.manifest.files if self.manifest else {}
            self._write(self.older, ended=False)
        self.has_result = False
        # For each object that the manifest does not name, the count of the first such manifest.
        self.unnamed_at: dict[str, int] = {}
        # For each file, its version on this machine when it was written, and its object.
        self.last_written: dict[str, tuple[object, _File]] = {}
        self.root = next(root for root in _TEMPORARY if root in folder.parents)
        self.error: str | None = None
        self.ending = threading.Event()
        _TEMPORARY.discard(self.root)  # from now on, its files may exist nowhere else
        self.thread = threading.Thread(target=self._write_snapshots, daemon=True)
        self.thread.start()

    def _check_free(self, overwrite: bool, check: Callable[[], object]) -> _Manifest | None:
        """Checks that no other run writes to the address. **Returns:** the manifest there."""
        remote, address = self.remote, self.remote.address
        found = remote.manifest(remote.root)
        resumed = _COPIED.pop(self.folder, None)
        existing = found.files if found else remote.fs.find(remote.root)
        if existing and resumed is None and not overwrite:
            raise UsageError(
                f"The folder {address!r} exists and is not empty: choose another --out. Training "
                "commands replace an older run with --overwrite."
            )
        before = resumed or found
        if before is not None and not before.ended:
            seconds = 3 * SNAPSHOT_SECONDS
            print(f"waiting {seconds:g} s: another run may still write to {address}", flush=True)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                check()
                time.sleep(0.1)
            found = remote.manifest(remote.root)
        if found != before:
            raise UsageError(
                f"Another run is writing to {address!r}, or has changed it: choose another folder."
            )
        return before

    def close(self) -> str | None:
        """Writes the last snapshot, and removes the local folder.

        **Returns:** a sentence if the snapshot could not be written; the local folder then stays.
        """
        self.ending.set()
        self.thread.join(_LAST_SECONDS)
        _LOCAL.pop(self.remote.address, None)  # another run begins with a new folder
        if self.error is None and self.manifest is not None and not self.manifest.ended:
            self.error = f"{self.remote.address!r} was not written in {_LAST_SECONDS:g} seconds."
        if self.error is not None:
            return (
                f"{self.error} All files are in {str(self.folder)!r}: copy this folder, or resume "
                "the run there with --resume."
            )
        shutil.rmtree(self.root, ignore_errors=True)
        if self.has_result:
            print(f"all files are in {self.remote.address}", flush=True)
        return None

    def _write_snapshots(self) -> None:
        failures = 0
        try:
            while not self.ending.wait(min(SNAPSHOT_SECONDS * 2 ** min(failures, 6), _MAX_SECONDS)):
                failures = 0 if self._try_to_write() else failures + 1
                if failures == 1:
                    warn(f"{self.error} The run continues and will retry.")
            for attempt in range(_LAST_TRIES):
                time.sleep(2**attempt - 1)
                if self._try_to_write(is_last=True):
                    break
        except UsageError as error:  # another run writes to the address
            self.error = str(error)
            # The run ends as after a signal, and `close` returns the error.
            if callable(signal.getsignal(signal.SIGTERM)):
                signal.raise_signal(signal.SIGTERM)

    def _try_to_write(self, is_last: bool = False) -> bool:
        """Writes a snapshot. **Returns:** whether this succeeded; `error` has the reason if not."""
        try:
            with self.remote.errors("written"):
                self._write_snapshot(is_last)
        except (RunError, CheckpointError) as error:
            self.error = str(error)
            return False
        if self.error is not None:
            print(f"{self.remote.address} can be written again", file=sys.stderr, flush=True)
        self.error = None
        return True

    def _write_snapshot(self, is_last: bool) -> None:
        """Writes the files that have changed, and then the manifest."""
        paths = {path.relative_to(self.folder).as_posix(): path for path in self._paths()}
        # The files of an older run are kept until this run has a result, which is any file except
        # its settings and the logs that begin with the run.
        results = (x for x in map(PurePosixPath, paths) if x.name != SETTINGS_FILE)
        self.has_result |= any(not {"tensorboard", "wandb"} & {*x.parts} for x in results)
        files = self.older
        if self.has_result:
            written = {name: self._write_file(path, name) for name, path in paths.items()}
            files = {name: file for name, file in written.items() if file is not None}
        manifest = self._write(files, is_last)
        unnamed = self.stored - manifest.objects()
        self.unnamed_at = {name: self.unnamed_at.get(name, manifest.count) for name in unnamed}
        for name, count in self.unnamed_at.items():
            if is_last or manifest.count - count >= _KEPT_SNAPSHOTS:
                # An object that cannot be removed stays: everything is stored.
                with contextlib.suppress(Exception):
                    self.remote.fs.rm_file(f"{self.remote.root}/{name}")
                self.stored.discard(name)

    def _paths(self) -> list[Path]:
        """The files of the folder, in the order in which they are read."""
        found = [Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names]
        own = (x for x in found if x.suffix not in (".partial", ".lock") and not x.is_symlink())
        return sorted(own, key=lambda path: (path.name not in _READ_FIRST, path))

    def _write_file(self, path: Path, name: str) -> _File | None:
        """Writes a file if it has changed. **Returns:** `None` if the file no longer exists."""
        copy = self.root / "copy"  # a run may change the file while it is written
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            before, file = self.last_written.get(name, (None, None))
            if file is not None and before == version and file.object_of(name) in self.stored:
                return file
            shutil.copyfile(path, copy)
        except FileNotFoundError:
            return None
        file = _size_and_checksum(copy)
        if (target := file.object_of(name)) not in self.stored:
            self.remote.fs.put_file(str(copy), f"{self.remote.root}/{target}")
            self.stored.add(target)
        self.last_written[name] = version, file
        return file

    def _write(self, files: Mapping[str, _File], ended: bool) -> _Manifest:
        """Writes the manifest.

        **Raises:** `UsageError` when another run has written one, and `RunError` when the files at
        the address were removed.
        """
        remote, path = self.remote, f"{self.remote.root}/{_MANIFEST}"
        found, before = remote.manifest(remote.root), self.manifest
        if found is None and before is not None:
            self.manifest, self.last_written = None, {}
            self.stored.clear()
            raise RunError(f"The files in {remote.address!r} were removed.")
        if before is not None and before.run == self.run:
            expected = found is not None and found.run == self.run
        else:  # the manifest of an older run, or none
            expected = found == before
        if not expected:
            raise UsageError(f"Another run is writing to {remote.address!r}, so this run stops.")
        count = before.count + 1 if before else 0
        manifest = _Manifest(self.run, count, ended, dict(files))
        content = msgspec.json.encode(manifest)
        if "file" in remote.fs.protocol:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            # Unlike `pipe_file`, this writes the manifest completely or not at all.
            write_atomic(Path(path), content)
        else:
            remote.fs.pipe_file(path, content)
        self.manifest = manifest
        if ended and not files:
            remote.fs.rm_file(path)
            self.manifest = None
        return manifest
