"""Compiles programs for a GPU that need not be there. Only jax and its CUDA plugin are imported."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.experimental.topologies import get_topology_desc
from jax.sharding import SingleDeviceSharding


def compile_for_gpu(
    function: Callable[..., Any],
    shapes: Sequence[Any],
    target: str,
    folder: str | Path,
    donate: Sequence[int] = (),
) -> None:
    """Compiles a function of arrays, without a GPU. `JAX_PLATFORMS` must be `cpu`, and
    `JAX_SKIP_CUDA_CONSTRAINTS_CHECK` must be `1`.

    **Arguments:**

    - `function`, `shapes`: the function, and the shapes of its arguments.
    - `target`: the GPU, as a target description of XLA.
    - `folder`: the folder to which XLA writes the program as text.
    - `donate`: the numbers of the arguments that the function may overwrite.
    """
    topology: Any = get_topology_desc(platform="cuda", target_config=target, topology="1x1x1")
    on_gpu = SingleDeviceSharding(topology.devices[0])

    def place(x: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_gpu)

    program = jax.jit(function, donate_argnums=tuple(donate), keep_unused=True)
    options = {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True}
    program.lower(*jax.tree.map(place, tuple(shapes))).compile(compiler_options=options)
