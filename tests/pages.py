"""What the documentation says of libraries that not every test can import."""

import re
from pathlib import Path


def text_blocks(title):
    """The programs in the section of docs/interop.md with this title, without their fences."""
    page = Path(__file__).parents[1] / "docs" / "interop.md"
    section = page.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"```text\n(.*?)```", section, re.S)
