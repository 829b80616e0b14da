"""Whether a compiled program fits into memory, before it runs."""

from typing import Any, final

import jax
import psutil


@final
class OutOfMemory(Exception):
    """Raised before a program runs that needs more memory than there is.

    **Arguments:**

    - `needed`, `free`: in bytes.
    """

    def __init__(self, needed: int, free: int):
        self.needed, self.free = needed, free
        super().__init__(
            f"The program needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are free"
        )


def check_memory(program: Any) -> None:
    """Compares what a program that `eqx.filter_jit` compiled allocates with what is free.

    A CPU hands out memory that it does not have, and the system then ends the process without an
    error. So the need is compared beforehand.

    **Raises:** `OutOfMemory`.
    """
    analysis = program.compiled.memory_analysis()
    if analysis is None:
        return  # some backends have no such analysis
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    needed -= analysis.alias_size_in_bytes  # what is donated is there already
    free = _free_memory()
    if needed > free:
        raise OutOfMemory(needed, free)


def _free_memory() -> int:
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return statistics["bytes_limit"] - statistics["bytes_in_use"]
    return psutil.virtual_memory().available
