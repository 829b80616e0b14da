"""The programs of the documentation."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def python_blocks(page):
    """The programs of a page of docs/."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.M | re.S)


def text_blocks(title):
    """The programs in the section of docs/interop.md with this title, of libraries that not every
    test can import.
    """
    page = (DOCS / "interop.md").read_text("utf-8")
    section = page.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"```text\n(.*?)```", section, re.S)
