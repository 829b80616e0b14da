"""The command `eqgrid`, and the commands that run the scripts of `experiments/`."""

import runpy
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from agents.files import shipped

from .base import UsageError, run_command

COPIED = ("ippo", "mappo", "e3t", "body", "bc", "single_file_ppo")
"""The scripts that `eqgrid new` copies."""
COMMANDS = {
    "Train": {
        "ippo": "Train agents with independent PPO.",
        "mappo": "Train agents with multi-agent PPO, whose critics observe more than one agent.",
        "e3t": "Train agents for partners that they have never met.",
        "pqn-vdn": "Train agents by learning the value of a team's actions.",
        "kick-start": "Train agents with PPO and a teacher.",
        "body": "Train a MuJoCo body.",
        "bc": "Train models of people, from their recorded games.",
    },
    "Evaluate": {
        "evaluate": "Evaluate policies, alone or as a team.",
        "crossplay": "Evaluate each pair of policies.",
        "partners": "Evaluate policies with held-out partners.",
        "strangers": "Train a method, and evaluate it with all held-out partners.",
        "report": "Put many runs into one table and one plot.",
    },
    "Jobs": {
        "submit": "Start many runs as jobs of Slurm or of this machine.",
        "status": "Print which runs wait, run, failed or finished.",
    },
    "Play": {
        "play": "Play in the browser, or run a study.",
        "export-page": "Write a page in which people play without a server.",
    },
    "Compute": {
        "optimum": "Compute the best possible return of a kitchen, and a plan.",
        "best-response": "Compute the best possible return with given partners.",
        "layouts": "Generate layouts, and draw them.",
    },
}
"""All commands except `eqgrid`, by topic: their names without `eqgrid-`, and their purposes."""
SCRIPTS = {
    "ippo": "ippo.py",
    "mappo": "mappo.py",
    "e3t": "e3t.py",
    "body": "body.py",
    "bc": "bc.py",
    "pqn-vdn": "policies/pqn_vdn.py",
    "kick-start": "policies/kick_start.py",
    "optimum": "optimum.py",
    "best-response": "best_response.py",
    "layouts": "layouts.py",
    "strangers": "heldout/strangers.py",
}
"""The paths of the scripts in `experiments/` that commands run, by command."""


def eqgrid() -> None:
    """Lists all commands, runs a command, as in `eqgrid report runs`, or copies a script to a new
    file, as in `eqgrid new ippo my_ippo.py`.
    """
    commands = entry_points(group="console_scripts")
    name = f"eqgrid-{sys.argv[1]}" if len(sys.argv) > 1 else ""
    if name not in commands.names:
        run_command(_list_or_copy, "nothing was written")
    else:
        # The command then reads its name and its flags as if it had been called directly.
        sys.argv[:2] = sys.orig_argv[:2] = [name]
        commands[name].load()()


def _list_or_copy(args: Sequence[str]) -> None:
    """Prints the list of commands, or copies a script.

    **Raises:** `UsageError` for wrong arguments, and `OSError` when a file cannot be written.
    """
    copies = f"eqgrid new SCRIPT FILE.py copies a script, one of {', '.join(COPIED)}."
    if tuple(args) in ((), ("-h",), ("--help",)):
        for topic, commands in COMMANDS.items():
            print(f"{topic}:")
            for name, purpose in commands.items():
                print(f"  {f'eqgrid-{name}':<22}{purpose}")
        print(f"\nEach command lists its flags with --help. {copies}")
        return
    if len(args) != 3 or args[0] != "new" or args[1] not in COPIED:
        raise UsageError(copies)
    target = Path(args[2])
    if target.suffix != ".py" or target.exists():
        why = "exists" if target.exists() else "does not end in .py"
        raise UsageError(f"The file {args[2]!r} {why}: name a new file, such as my_{args[1]}.py.")
    shutil.copyfile(shipped(f"{args[1]}.py"), target)
    print(f"{target}: python {target} --help lists its flags.")


def run_script() -> None:
    """Runs the script of `experiments/` that belongs to the called command."""
    sys.argv[0] = str(shipped(SCRIPTS[Path(sys.argv[0]).stem.removeprefix("eqgrid-")]))
    runpy.run_path(sys.argv[0], run_name="__main__")
