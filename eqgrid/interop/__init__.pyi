# What `__getattr__` finds, for type checkers and editors.
from ._gymnasium import to_gymnasium as to_gymnasium, to_gymnasium_vector as to_gymnasium_vector
from ._jaxmarl import from_jaxmarl as from_jaxmarl, to_jaxmarl as to_jaxmarl
from ._pettingzoo import to_pettingzoo as to_pettingzoo
