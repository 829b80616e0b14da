"""The worlds, each in a package of its own, and `make`, which builds them by name."""

from ._make import ENVIRONMENTS as ENVIRONMENTS, imported as imported, make as make
