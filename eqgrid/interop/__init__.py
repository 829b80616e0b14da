"""Doors to other libraries. Each imports its library, so none is imported by `eqgrid` itself."""

from ._doors import __getattr__ as __getattr__
