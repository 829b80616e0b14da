"""Runs many command lines in one process, so that what they need is imported and compiled once.

python many_runs.py FILE

The file has a list of `{"folder": ..., "args": [...]}`. What is printed is a list of `{"code": ...,
"out": ..., "error": ...}`.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from eqgrid_lab import parse
from agents.files import shipped
from eqgrid_lab.base import import_file

IPPO = import_file(shipped("ippo.py")).IPPO
main = vars(sys.modules[IPPO.__module__])["main"]


def run(folder: str, args: list[str]) -> dict[str, int | str]:
    """Runs `ippo.py` in a folder, with streams that also catch what libraries say."""
    os.chdir(folder)
    kept = [os.dup(number) for number in (1, 2)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        for number, file in ((1, out), (2, error)):
            os.dup2(file.fileno(), number)
        try:
            code = main(parse(IPPO, args))
        except SystemExit as stop:
            code = int(stop.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        for number, stream in zip((1, 2), kept, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        said = [_read(file) for file in (out, error)]
    return {"code": code, "out": said[0], "error": said[1]}


def _read(file) -> str:
    file.seek(0)
    return file.read().decode(errors="backslashreplace")


if __name__ == "__main__":
    lines = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([run(**line) for line in lines]))
