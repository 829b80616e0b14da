"""Adapters to other libraries. Each imports its library, so none is imported by `eqgrid` itself."""

from ._adapters import __getattr__ as __getattr__
