"""How often something is compiled."""

from contextlib import contextmanager

import jax


@contextmanager
def counted():
    """The names of the compilations inside the block, as they happen."""
    names = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **__: names.append(name) if "backend_compile" in name else None
    )
    try:
        yield names
    finally:
        jax.monitoring.clear_event_listeners()
