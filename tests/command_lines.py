"""The command lines of training, called in a test's own process."""

import pytest

from experiments import _program, _seeds, _sweep


def call(*args: object) -> int:
    """Calls `ippo.py` with these arguments, without a cache of compiled programs.

    **Returns:** the exit code.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["prog", *map(str, args)])
        for module in (_program, _seeds, _sweep):
            patch.setattr(module, "keep_compiled_programs", lambda: "")
        return _program.run_command_line("ippo", _program.Process())


def call_and_hear(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    """The same.

    **Returns:** the exit code, and what was said: the errors, where there are any.
    """
    code = call(*args)
    said = capsys.readouterr()
    return code, said.err or said.out
