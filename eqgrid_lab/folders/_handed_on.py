"""Texts for files that are shared with others: paths without the user's own folders."""

import os
import re
from pathlib import Path
from typing import Any


def shown_path(path: str | Path) -> str:
    """A path relative to the current folder if it is inside, and only its name otherwise.

    Each path in a comma-separated list is shortened in this way.
    """
    if not os.path.exists(path) and "," in str(path):
        return ",".join(shown_path(part.strip()) for part in str(path).split(","))
    relative = os.path.relpath(path)
    return Path(path).name if relative.startswith(os.pardir) else relative


def without_folders(value: Any) -> Any:
    """A JSON value in which every absolute path is replaced by its name, at any depth."""
    if isinstance(value, dict):
        return {key: without_folders(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(x) for x in value]
    if not isinstance(value, str) or "\n" in value:
        return value
    parts = [value] if os.path.exists(value) else value.split(",")
    is_path = any(os.path.isabs(part.strip()) for part in parts)
    return ",".join(Path(part.strip()).name for part in parts) if is_path else value


def escape_markdown(text: str) -> str:
    """Escapes an untrusted text for one line of Markdown, so that it has no markup or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|&~$])", r"\\\1", " ".join(text.split()))
