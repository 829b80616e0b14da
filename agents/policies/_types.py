"""Type aliases for PyTrees of arrays, by the leading axes that all of their arrays share."""

from typing import TypeAlias

import jax
from jaxtyping import Array, Shaped

from eqgrid import PyTree

Arrays: TypeAlias = PyTree[Shaped[Array, "..."]]
"""Arrays of any shape, such as the observation or the carry of one agent."""

ArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time ..."]]
"""`Arrays` of consecutive steps."""

AgentArrays: TypeAlias = PyTree[Shaped[Array, "agents ..."]]
"""Arrays of all agents of one environment."""

AgentArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time agents ..."]]
"""`AgentArrays` of consecutive steps."""

EnvArrays: TypeAlias = PyTree[Shaped[Array, "envs agents ..."]]
"""Arrays of all agents of all environments."""

Shapes: TypeAlias = PyTree[jax.ShapeDtypeStruct]
"""Shapes and dtypes of arrays."""
