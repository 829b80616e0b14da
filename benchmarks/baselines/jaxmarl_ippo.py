"""Runs JaxMARL's own `ippo_ff_overcooked` with its own settings, and prints its metrics.

The script is not part of JaxMARL's package, so the first argument is a checkout of its repository.
The others are the number of steps, the seed and, optionally, JaxMARL's name of the layout
(`cramped_room` by default). What the script would log to wandb is printed as a line of JSON for
each update.
"""

import time

started = time.perf_counter()

import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import types  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402  # pyright: ignore[reportMissingImports]


def log(metrics: dict[str, Any]) -> None:
    """Replaces `wandb.log`; ends the process once enough steps have been made."""
    row = {
        "env_steps": int(metrics["env_step"]),
        "return": float(metrics["returned_episode_returns"]),
        "seconds": time.perf_counter() - started,
    }
    print(json.dumps(row), flush=True)
    if row["env_steps"] >= int(sys.argv[2]):
        os._exit(0)


def load(checkout: Path) -> tuple[Any, dict[str, Any]]:
    """Loads the training script, and the settings in the folder beside it."""
    folder = checkout / "baselines" / "IPPO"
    wandb = types.ModuleType("wandb")
    wandb.log = log  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["wandb"] = wandb
    spec = importlib.util.spec_from_file_location("script", folder / "ippo_ff_overcooked.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    settings = OmegaConf.load(folder / "config" / "ippo_ff_overcooked.yaml")
    return script, OmegaConf.to_container(settings)


if __name__ == "__main__":
    script, settings = load(Path(sys.argv[1]))
    layout = sys.argv[4] if len(sys.argv) > 4 else "cramped_room"
    settings["ENV_KWARGS"] = {"layout": script.overcooked_layouts[layout]}
    settings["SEED"] = int(sys.argv[3])
    keys = jax.random.split(jax.random.PRNGKey(settings["SEED"]), settings["NUM_SEEDS"])
    jax.block_until_ready(jax.vmap(jax.jit(script.make_train(settings)))(keys))
