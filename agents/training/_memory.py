"""A check that a compiled program fits into memory, before the program runs."""

from typing import Any, final

import jax
import psutil


@final
class OutOfMemory(Exception):
    """Raised before a program runs that needs more memory than is free.

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

    On a CPU, allocating too much memory does not fail. The system kills the process later, without
    an error message, so the check comes before the program runs.

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
    # JAX has no statistics of a CPU, which uses the memory of the machine.
    return psutil.virtual_memory().available
