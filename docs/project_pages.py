"""The pages of the site about the project, which are made from files of the repository."""

import re
from pathlib import Path

from reference_pages import ROOT, front_matter

PROJECT = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "citation": "CITATION.cff",
    "license": "LICENSE",
}
"""The pages, and the files that they are made from."""


def changelog(text: str) -> str:
    return re.sub(r"^# .*", "# Changelog", text, count=1)


def citation(text: str) -> str:
    """How to cite the project, as BibTeX and as the file itself."""
    known = dict(re.findall(r"^([\w-]+): (.+)$", text, re.M))
    authors = " and ".join(f"{{{x}}}" for x in re.findall(r"^ +- name: (.+)$", text, re.M))
    fields = {
        "title": f"{{{known['title']}}}: {known['abstract'].rstrip('.')}",
        "author": authors,
        "version": known["version"],
        "url": known["repository-code"],
        "license": known["license"],
    }
    bibtex = ",\n".join(f"  {name:<7} = {{{value}}}" for name, value in fields.items())
    return f"""# Citation

{known["message"]}

```bibtex
@software{{{known["title"]},
{bibtex}
}}
```

`CITATION.cff` contains the same data in the Citation File Format:

```yaml
{text.strip()}
```
"""


def licence(text: str) -> str:
    """The licence: its first line is the name of it."""
    name, _, terms = text.strip().partition("\n")
    return f"# License\n\neqgrid has the {name}.\n\n{terms.strip()}\n"


MADE = {"changelog": changelog, "citation": citation, "license": licence}


def project_pages(root: Path = ROOT) -> dict[str, str]:
    """The Markdown of the pages, by name. Their links are relative to the repository."""
    pages: dict[str, str] = {}
    for name, source in PROJECT.items():
        if (root / source).exists():
            text = (root / source).read_text(encoding="utf-8")
            text = MADE[name](text) if name in MADE else text
            pages[name] = front_matter(source) + text
    return pages
