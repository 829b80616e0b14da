"""The commands `eqgrid optimum` and `eqgrid best-response`."""

from ._best_response import best_response_command as best_response_command
from ._optimum import optimum_command as optimum_command
