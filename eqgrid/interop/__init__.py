"""Adapters to other libraries, each imported only when it is used."""

from ._adapters import __getattr__ as __getattr__
