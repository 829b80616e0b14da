"""The persistent compilation cache of JAX."""

import tempfile
from typing import Any

import jax
from platformdirs import user_cache_path

_MAX_BYTES = 2**30


def keep_compiled_programs() -> str:
    """Turns on JAX's persistent compilation cache, in a user cache folder of at most 1 GiB.

    JAX's own settings take precedence: a folder that they name is used unchanged, and a cache
    that they disable stays disabled. When the folder is full, the least recently used programs
    are removed first.

    **Returns:** a message that says where compiled programs are kept, or why they are not.
    """
    # The attributes of `jax.config` have no type annotations.
    settings: Any = jax.config
    if not settings.jax_enable_compilation_cache:
        return "compiled programs are not kept: JAX's compilation cache is turned off"
    if settings.jax_compilation_cache_dir is None:
        try:
            folder = user_cache_path("eqgrid") / "compiled"
        except RuntimeError:  # the user has no home folder, as in some containers
            return "compiled programs are not kept: there is no home folder; set XDG_CACHE_HOME"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            return f"compiled programs are not kept: {folder} cannot be used ({error.strerror})"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", _MAX_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    return f"compiled programs are kept in {settings.jax_compilation_cache_dir}"
