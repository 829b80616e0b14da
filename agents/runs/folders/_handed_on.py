"""Texts in files that are handed on to others, without the folders of the person who wrote them."""

import os
import re
from pathlib import Path
from typing import Any


def shown_path(path: str | Path) -> str:
    """A path below the current folder, relative to it; of any other path, the name. Paths that
    commas separate are treated one by one.
    """
    if not os.path.exists(path) and "," in str(path):
        return ",".join(shown_path(part.strip()) for part in str(path).split(","))
    relative = os.path.relpath(path)
    return Path(path).name if relative.startswith(os.pardir) else relative


def without_folders(value: Any) -> Any:
    """A value that JSON can hold, with the names of files in the place of absolute paths."""
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
    """A text from elsewhere as one line of Markdown, without headings, links or HTML in it."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|&~$])", r"\\\1", " ".join(text.split()))
