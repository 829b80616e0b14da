"""Compiled programs, kept from one run to the next."""

import tempfile
from typing import Any

import jax
from platformdirs import user_cache_path

_MAX_BYTES = 2**30


def keep_compiled_programs() -> str:
    """Makes jax keep compiled programs in a folder, unless its own settings name one, or turn its
    cache off. The programs that were used least recently are removed first when it is full.

    **Returns:** a sentence about where that is.
    """
    # The settings of `jax.config` have no types.
    settings: Any = jax.config
    if not settings.jax_enable_compilation_cache:
        return "compiled programs are not kept: jax is told not to"
    if settings.jax_compilation_cache_dir is None:
        folder = user_cache_path("eqgrid") / "compiled"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            return f"compiled programs are not kept: {folder} cannot be used ({error.strerror})"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", _MAX_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    return f"compiled programs are kept in {settings.jax_compilation_cache_dir}"
