"""The world `body` of the command lines, whose library is slow to import."""

import importlib.util
from typing import Any, Literal

from eqgrid import AbstractEnv, TimeLimit
from eqgrid.envs import imported

from ..base import UsageError

Task = Literal["balance", "swing_up", "walk", "reach"]
_CONSTRUCTORS = {"cartpole": "CartPole", "biped": "Biped"}
_TASKS = {"cartpole": ("balance", "swing_up"), "biped": ("balance", "walk", "reach")}


def body(
    *, model: Literal["cartpole", "biped"] = "cartpole", task: Task = "balance", horizon: int = 500
) -> AbstractEnv:
    """Builds a MuJoCo body with a task.

    **Arguments:**

    - `model`: the body to control.
    - `task`: the task; `swing_up` is for the cartpole, `walk` and `reach` are for the biped.
    - `horizon`: the number of steps after which an episode is truncated.

    **Raises:** `UsageError` when a part of MuJoCo cannot be imported.
    """
    try:
        make = imported(f"eqgrid.envs.bodies:{_CONSTRUCTORS[model]}")
    except ImportError as error:
        raise UsageError(f"--env.name body cannot be used: {error}") from error
    return TimeLimit(make(task), horizon)


def check_body(settings: Any) -> None:
    """Checks the settings of a body.

    **Raises:** `UsageError` when MuJoCo is not installed, or the body has no such task.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise UsageError("--env.name body needs MuJoCo MJX: pip install -e '.[mjx]'.")
    if settings.task not in _TASKS[settings.model]:
        raise UsageError(
            f"--env.task {settings.task} is no task of the {settings.model}: choose "
            f"{' or '.join(_TASKS[settings.model])}."
        )
