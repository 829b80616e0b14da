"""Uploading a folder to the Hugging Face hub."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from ..base import RunError, UsageError


def upload(folder: Path, repo: str, client: Any = None) -> str:
    """Uploads all files of a folder to a model repository, which is created if needed.

    **Arguments:**

    - `folder`: the folder that `write_card` wrote.
    - `repo`: the repository, such as `name/cooks`.
    - `client`: an object with `create_repo` and `upload_folder`; unless given, `HfApi` of
        huggingface_hub, with the token that `hf auth login` stores.

    **Returns:** the address of the uploaded folder.

    **Raises:** `UsageError` when the extra `[hub]` is not installed, `RunError` when the upload
    fails.
    """
    client = _client() if client is None else client
    try:
        client.create_repo(repo_id=repo, repo_type="model", exist_ok=True)
        return str(client.upload_folder(folder_path=str(folder), repo_id=repo, repo_type="model"))
    except (OSError, ValueError) as error:  # errors of huggingface_hub are one or the other
        why = str(error).strip().partition("\n")[0]
        raise RunError(
            f"The folder {str(folder)!r} cannot be uploaded to {repo!r}: {why:.300}"
        ) from error


def _client() -> Any:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise UsageError("--upload needs huggingface_hub: pip install 'eqgrid[hub]'.")
    # Imported late, since it comes with an extra that few people install.
    return importlib.import_module("huggingface_hub").HfApi()
