"""Runs: the command-line layer around a learner: settings, folders, logs, checkpoints and plots."""

from ..files._shipped import shipped_policies as shipped_policies
from ._program import run_experiment as run_experiment
from .cloning._program import run_cloning as run_cloning
from .cloning._settings import Cloning as Cloning
from .settings._experiment import Experiment as Experiment
from .settings._own_network import NetworkName as NetworkName, OwnNetwork as OwnNetwork
from .settings._shaping import check_shaping as check_shaping
from .settings._training_partners import (
    PartnerSettings as PartnerSettings,
    models_of_people as models_of_people,
)
from .worlds._bodies import BodyWorld as BodyWorld
from .worlds._world_config import AbstractWorldConfig as AbstractWorldConfig
from .worlds._worlds import Kitchen as Kitchen
