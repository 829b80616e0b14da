"""A process that compiles and times the rollouts of one library, on request."""

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from _tasks import NAMES

from eqgrid_lab.base import RunError

WORKER = Path(__file__).parent / "baselines" / "worker.py"


class Worker:
    """A process that runs `baselines/worker.py` for one library.

    - `about`: the device that it computes on, and the version of jax that it uses.
    """

    def __init__(self, library: str, python: str | Path, share: float = 0.9):
        """**Arguments:**

        - `library`: the library, whose environments `baselines/with_<library>.py` builds.
        - `python`: the Python interpreter in which the library is installed.
        - `share`: the fraction of the accelerator's memory that the process may use, since several
            processes can share one accelerator.

        **Raises:** `RunError` when the interpreter cannot be run, or the process ends, such as when
        the library is missing.
        """
        self.library, self.python = library, python
        self.name = NAMES.get(library, library)
        self.env = os.environ | {  # jax raises if XLA_PYTHON_CLIENT_MEM_FRACTION is set as well
            "XLA_CLIENT_MEM_FRACTION": f"{share:.2f}",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
        }
        self._start()

    def _start(self) -> None:
        # A file, since a process that writes many warnings into a pipe would wait for a reader.
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                [str(self.python), "-W", "ignore", str(WORKER), self.library],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env=self.env,
            )
        except OSError as error:
            self.errors.close()
            raise RunError(f"{str(self.python)!r} cannot be run: {error.strerror}.") from error
        self.about = self._answer()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends a request to the process; see `serve` in `baselines/worker.py`. If the process has
        ended, a request with `do="start"` starts a new one.

        **Returns:** the answer: what was measured, or an `error`.
        """
        try:
            if request["do"] == "start" and self.process.poll() is not None:
                self._start_again()
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # why it ended is read below
                print(json.dumps(request), file=self.process.stdin, flush=True)
            return self._answer()
        except RunError as error:
            return {"error": str(error)}

    def _start_again(self) -> None:
        self.close()
        before = self.about
        self._start()
        if self.about != before:
            self.close()
            raise RunError(f"{self.name} now runs on {self.about['device']}")

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            return json.loads(line)
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["it printed no error"])[-1]
        self.close()
        raise RunError(f"The process that measures {self.name} ended: {last}")

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()
        self.errors.close()
