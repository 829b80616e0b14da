"""Partners that are not Python objects of this process."""

from ._program import Program as Program, ProgramPartner as ProgramPartner
