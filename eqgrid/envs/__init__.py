from ._make import make as make
from .overcooked import Overcooked as Overcooked
