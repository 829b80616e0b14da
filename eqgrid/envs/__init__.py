"""The worlds, by name."""

from ._make import ENVIRONMENTS as ENVIRONMENTS, make as make
from .commons import Cleanup as Cleanup, Harvest as Harvest
from .foraging import Foraging as Foraging
from .goals import Goals as Goals
from .minigrid import MiniGrid as MiniGrid
from .overcooked import Overcooked as Overcooked
from .overcooked_v2 import OvercookedV2 as OvercookedV2
from .rescue import Rescue as Rescue
from .warehouse import Warehouse as Warehouse
