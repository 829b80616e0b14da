"""Type aliases of PyTrees of arrays, by the axes that lead in every array."""

from typing import TypeAlias

import jax
from jaxtyping import Array, PyTree, Shaped

Arrays: TypeAlias = PyTree[Shaped[Array, "..."]]
"""Arrays of any shape, such as what one agent observes or remembers."""

ArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time ..."]]
"""The same for consecutive steps."""

AgentArrays: TypeAlias = PyTree[Shaped[Array, "agents ..."]]
"""Arrays of all agents of one environment."""

AgentArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time agents ..."]]
"""The same for consecutive steps."""

EnvArrays: TypeAlias = PyTree[Shaped[Array, "envs agents ..."]]
"""Arrays of all agents of all environments."""

Shapes: TypeAlias = PyTree[jax.ShapeDtypeStruct]
"""Shapes and dtypes of arrays."""
