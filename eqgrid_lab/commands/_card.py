"""Model cards: pages that describe a policy, and their upload to the Hugging Face hub."""

import importlib
import importlib.util
import json
import shlex
import shutil
from pathlib import Path
from typing import Protocol

from agents import save_policy, write_atomic

from ..base import RunError, Table, UsageError
from ..folders import escape_markdown, short_name, without_folders
from ..runs import SavedPolicy
from ..settings import own_flags
from ..show import return_texts, with_deviation


class Hub(Protocol):
    """The methods of `huggingface_hub.HfApi` that make a repository and upload a folder."""

    def create_repo(self, *, repo_id: str, repo_type: str, exist_ok: bool) -> object: ...

    def upload_folder(self, *, folder_path: str, repo_id: str, repo_type: str) -> object: ...


def upload(folder: Path, repo: str, client: Hub | None = None) -> str:
    """Uploads all files of a folder to a model repository, which is created if needed.

    **Arguments:**

    - `folder`: the folder that `write_card` wrote.
    - `repo`: the repository, such as `name/cooks`.
    - `client`: the client; by default `HfApi` of huggingface_hub, with the token that
        `hf auth login` stores.

    **Returns:** the address of the uploaded folder.

    **Raises:** `UsageError` when the extra `[hub]` is not installed; `RunError` when the upload
    fails.
    """
    if client is None and importlib.util.find_spec("huggingface_hub") is None:
        raise UsageError("--upload needs huggingface_hub: pip install 'eqgrid[hub]'.")
    # Imported late, since the library is an optional extra.
    hub: Hub = client or importlib.import_module("huggingface_hub").HfApi()
    try:
        hub.create_repo(repo_id=repo, repo_type="model", exist_ok=True)
        return str(hub.upload_folder(folder_path=str(folder), repo_id=repo, repo_type="model"))
    except (OSError, ValueError) as error:  # the base classes of huggingface_hub's errors
        why = str(error).strip().partition("\n")[0]
        raise RunError(
            f"The folder {str(folder)!r} cannot be uploaded to {repo!r}: {why:.300}"
        ) from error


_PICTURES = {
    "episode.gif": "One episode, with sampled actions",
    "curve.png": "The evaluation return in training",
}


def write_card(folder: Path, saved: SavedPolicy, evaluation: Table, results: Path) -> None:
    """Writes a folder for sharing a policy: its file, the model card `README.md`, and results.

    **Arguments:**

    - `folder`: the folder, which is created if needed.
    - `saved`: the policy.
    - `evaluation`: the contents of `evaluation.json`.
    - `results`: the folder with `evaluation.json` and the video.

    **Raises:** `OSError` or `CheckpointError` when the folder cannot be written.
    """
    run = saved.path.parent
    run = run.parent if run.name == "checkpoints" else run
    sources = {"episode.gif": results / "episode.gif", "curve.png": run / "curve.png"}
    shown = {name: title for name, title in _PICTURES.items() if sources[name].is_file()}
    text = _front_matter(saved, evaluation) + _body(saved, evaluation, shown)
    content = text.encode(errors="backslashreplace")
    metadata = {name: value for name, value in saved.metadata.items() if name != "policy"}
    folder.mkdir(parents=True, exist_ok=True)
    save_policy(folder / "policy.safetensors", saved.policy, without_folders(metadata))
    shutil.copyfile(results / "evaluation.json", folder / "evaluation.json")
    for name in shown:
        shutil.copyfile(sources[name], folder / name)
    write_atomic(folder / "README.md", content)


def _front_matter(saved: SavedPolicy, evaluation: Table) -> str:
    """The metadata for the hub, in YAML. Values are written as JSON, which is valid YAML."""
    env, layout = saved.config.env, short_name(evaluation["layout"])
    metrics = [
        {
            "type": "mean_reward",
            "name": f"return, actions {result['actions']}",
            "value": " +/- ".join(return_texts((result["return_mean"], result["return_std"]))),
            "verified": False,
        }
        for result in evaluation["results"]
    ]
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    dataset = {"name": f"{env.name}, {layout}", "type": f"{env.name}-{layout}"}
    scores = {"task": task, "dataset": dataset, "metrics": metrics}
    algorithm = saved.config.algorithm
    entries = {
        "library_name": "eqgrid",
        "pipeline_tag": "reinforcement-learning",
        "tags": [task["type"], "multi-agent", "jax", "equinox", env.name, algorithm],
        "metrics": ["mean_reward"],
        "model-index": [{"name": _title(saved, evaluation), "results": [scores]}],
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items()]
    return "---\n" + "\n".join(lines) + "\n---\n\n"


def _title(saved: SavedPolicy, evaluation: Table) -> str:
    layout = short_name(evaluation["layout"])
    return f"{saved.config.algorithm.upper()} in {saved.config.env.name}, {layout}"


def _body(saved: SavedPolicy, evaluation: Table, shown: dict[str, str]) -> str:
    """The text of the card. `shown` has the caption of each picture, by its file."""
    steps, policy = saved.metadata.get("env_steps"), saved.metadata["policy"]
    trained = f"It was trained for {steps:,} environment steps" if steps else "It was trained"
    versions = ", ".join(f"{name} {number}" for name, number in policy["versions"].items())
    flags = ["--episodes", str(evaluation["episodes"]), "--seed", str(evaluation["seed"])]
    if saved.config.env.title != saved.trained_in.title:
        flags += ["--layout", evaluation["layout"]]
    flags += own_flags(saved.config).split()
    # The path of the policy is relative to the folder of the card.
    command = shlex.join(["python", "experiments/evaluate.py", "policy.safetensors", *flags])
    scores = ["| team | actions | return | steps |", "|---|---|---|---|"]
    scores += [
        f"| {x['team']} | {x['actions']} | "
        f"{with_deviation(x['return_mean'], x['return_std'])} | {x['length_mean']:.1f} |"
        for x in evaluation["results"]
    ]
    parts = [
        f"# {escape_markdown(_title(saved, evaluation))}",
        f"A policy for {policy['num_agents']} agents. {trained} with eqgrid "
        f"({escape_markdown(versions)}).",
        *(f"![{title}]({name})" for name, title in shown.items()),
        "\n".join(["## Scores\n", *scores]),
        f"{evaluation['episodes']} episodes each; the return of an episode is the mean over the "
        "agents. All numbers are in [evaluation.json](evaluation.json). This reproduces them:",
        f"```text\n{command}\n```",
        "## Use\n\n```python\nimport jax\nfrom agents import load_policy\n\n"
        'policy = load_policy("policy.safetensors")\ncarry = policy.initial_carry()\n'
        "# In every step of an episode, with the observations of all agents:\n"
        "# action, carry = policy.act(observation, carry, jax.random.key(0))\n```",
        "[policy.safetensors](policy.safetensors) contains the settings of the run as metadata. "
        "Loading it runs no code from the file.",
    ]
    return "\n\n".join(parts) + "\n"
