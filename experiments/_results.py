"""Results for other programs to read."""

import json
import math
from pathlib import Path
from typing import Any

from agents import write_whole


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes a result; a number that is not finite becomes `null`, as JSON knows none."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in result.items()
    }
    write_whole(path, (json.dumps(finite, indent=2) + "\n").encode())
