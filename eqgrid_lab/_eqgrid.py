"""The command `eqgrid`: one table of commands, each a function or a script of `experiments/`."""

import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple, final

from agents.files import shipped

from .base import UsageError, reason, run_command

COPIED = ("ippo", "mappo", "e3t", "body", "bc", "single_file_ppo")
"""The scripts that `eqgrid new` copies."""


@final
class Command(NamedTuple):
    """A command of `eqgrid`.

    - `purpose`: a sentence for the list of commands.
    - `target`: the path of its script in `experiments/`, or its function as `MODULE:NAME`.
    """

    purpose: str
    target: str


COMMANDS = {
    "Train": {
        "ippo": Command("Train agents with independent PPO.", "ippo.py"),
        "mappo": Command(
            "Train agents with multi-agent PPO, whose critics observe more than one agent.",
            "mappo.py",
        ),
        "e3t": Command("Train agents for partners that they have never met.", "e3t.py"),
        "pqn-vdn": Command(
            "Train agents by learning the value of a team's actions.", "policies/pqn_vdn.py"
        ),
        "kick-start": Command("Train agents with PPO and a teacher.", "policies/kick_start.py"),
        "upd": Command("Train agents with designed partners.", "upd.py"),
        "body": Command("Train a MuJoCo body.", "body.py"),
        "bc": Command("Train models of people, from their recorded games.", "bc.py"),
        "curriculum": Command("Train agents with IPPO in stages.", "curriculum.py"),
        "sweep": Command("Search for settings of IPPO with Optuna.", "sweep.py"),
    },
    "Evaluate": {
        "evaluate": Command(
            "Evaluate policies, alone or as a team.", "eqgrid_lab.commands:evaluate_command"
        ),
        "crossplay": Command(
            "Evaluate each pair of policies.", "eqgrid_lab.commands:crossplay_command"
        ),
        "partners": Command(
            "Evaluate policies with held-out partners.", "eqgrid_lab.commands:partners_command"
        ),
        "report": Command(
            "List runs, and put complete ones into one table and one plot.",
            "eqgrid_lab.commands:report_command",
        ),
    },
    "Jobs": {
        "submit": Command(
            "Start one command many times, with other seeds or settings, on Slurm or this machine.",
            "eqgrid_lab.commands:submit_command",
        ),
    },
    "Play": {
        "play": Command("Play in the browser.", "eqgrid_play.web:play_command"),
        "watch": Command("Watch recorded games in the browser.", "eqgrid_play.web:watch_command"),
        "study": Command(
            "Run a study with people: run, try, report, export, forget.",
            "eqgrid_play.web:study_command",
        ),
        "export-page": Command(
            "Write a page in which people play without a server.",
            "eqgrid_play.static:export_page_command",
        ),
    },
    "Compute": {
        "optimum": Command(
            "Compute the best possible return of a kitchen, and a plan.",
            "eqgrid_exact.commands:optimum_command",
        ),
        "best-response": Command(
            "Compute the best possible return with given partners.",
            "eqgrid_exact.commands:best_response_command",
        ),
        "layouts": Command("Generate layouts, and draw them.", "layouts.py"),
    },
}
"""All commands by topic and name."""


def eqgrid() -> None:
    """Runs a command, as in `eqgrid report runs`. Without a command, it lists all commands; `eqgrid
    new ippo my_ippo.py` copies a script to a new file.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    known = {name: command for topic in COMMANDS.values() for name, command in topic.items()}
    if name not in known:
        run_command(list_or_copy, "nothing was written")
        return
    target = known[name].target
    sys.argv[:2] = [f"eqgrid {name}"]
    if target.endswith(".py"):
        script = shipped(target)
        sys.path.insert(0, str(script.parent))  # as Python does, for imports of other scripts
        runpy.run_path(str(script), run_name="__main__")
    else:
        resolve_name(target)()


def list_or_copy(args: Sequence[str]) -> None:
    """Prints the list of commands, or copies a script.

    **Raises:** `UsageError` for wrong arguments, or when the file cannot be written.
    """
    copies = f"eqgrid new SCRIPT FILE.py copies a script, one of {', '.join(COPIED)}."
    if tuple(args) in ((), ("-h",), ("--help",)):
        for topic, commands in COMMANDS.items():
            print(f"{topic}:")
            for name, command in commands.items():
                print(f"  eqgrid {name:<15}{command.purpose}")
        print(f"\nEach command lists its flags with --help. {copies}")
        return
    if args[0] != "new":
        raise UsageError(f"There is no command {args[0]!r}: eqgrid --help lists all commands.")
    if len(args) != 3 or args[1] not in COPIED:
        raise UsageError(copies)
    target = Path(args[2])
    if target.suffix != ".py" or target.exists():
        why = "exists" if target.exists() else "does not end in .py"
        raise UsageError(f"The file {args[2]!r} {why}: name a new file, such as my_{args[1]}.py.")
    try:
        shutil.copyfile(shipped(f"{args[1]}.py"), target)
    except OSError as error:
        raise UsageError(f"The file {args[2]!r} cannot be written: {reason(error)}.") from error
    print(f"{target}: python {target} --help lists its flags.")
