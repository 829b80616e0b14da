"""What is handed on to others says nothing of the folders of whoever made it."""

import os
import re
from pathlib import Path
from typing import Any


def shown_path(path: str | Path) -> str:
    """A path below the current folder, relative to it; of any other path, the name."""
    relative = os.path.relpath(path)
    return Path(path).name if relative.startswith(os.pardir) else relative


def without_folders(value: Any) -> Any:
    """A value that JSON can hold, with the names of files in the place of absolute paths."""
    if isinstance(value, dict):
        return {key: without_folders(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(x) for x in value]
    is_path = isinstance(value, str) and os.path.isabs(value) and "\n" not in value
    return Path(value).name if is_path else value


def escape_markdown(text: str) -> str:
    """A text of others in one line of Markdown, without headings, links or HTML in it."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|&~$])", r"\\\1", " ".join(text.split()))
