"""Programs that are compiled in a thread, before a run needs them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait


@contextlib.contextmanager
def compiled_ahead(programs: Iterable[Callable[[], object]]) -> Iterator[Callable[[], None]]:
    """Context manager that compiles programs in a thread, while the code inside compiles and runs
    others: XLA does not hold the interpreter's lock. An error in the thread is ignored, since the
    code meets it again when it runs the program.

    **Arguments:**

    - `programs`: functions that compile one program each.

    **Returns:** a function that waits for the program that is compiled now, and begins with the
    next one. The first one begins at once.
    """
    left = iter(programs)
    pool = ThreadPoolExecutor(1, "compiler")
    running = [pool.submit(program) for program in [next(left, None)] if program]

    def begin_next() -> None:
        wait(running)
        running.extend(pool.submit(program) for program in [next(left, None)] if program)

    try:
        yield begin_next
    finally:
        pool.shutdown(wait=False)
