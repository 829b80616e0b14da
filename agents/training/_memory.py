"""Checks that a compiled program fits into memory before it runs."""

from typing import Any, final

import jax
import psutil


@final
class OutOfMemory(Exception):
    """Raised when a program needs more memory than is free, before it runs.

    **Arguments:**

    - `needed`, `free`: the memory that the program needs, and the free memory, in bytes.
    """

    def __init__(self, needed: int, free: int):
        self.needed, self.free = needed, free
        super().__init__(
            f"The program needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are free"
        )


def check_memory(program: Any) -> None:
    """Checks that a compiled program fits into the free memory of the device.

    On a CPU, allocating more memory than there is does not fail; the system kills the process
    later, without an error message. So the check comes before the program runs.

    **Arguments:**

    - `program`: the program, as `eqx.filter_jit(...).lower(...).compile()` returns it.

    **Raises:** `OutOfMemory` when the program needs more memory than is free.
    """
    analysis = program.compiled.memory_analysis()
    if analysis is None:
        return  # some backends have no such analysis
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    needed -= analysis.alias_size_in_bytes  # donated arrays are allocated already
    free = _free_memory()
    if needed > free:
        raise OutOfMemory(needed, free)


def _free_memory() -> int:
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return statistics["bytes_limit"] - statistics["bytes_in_use"]
    # The statistics of a CPU are empty, but its memory is that of the machine.
    return psutil.virtual_memory().available
