"""The program around worlds and learners: settings, runs, commands, and play in a browser.

These names are for scripts that define an experiment, such as `experiments/ippo.py`.
"""

from . import _interrupts as _interrupts, _own_agents as _own_agents
from .partners import (
    PARTNERS as PARTNERS,
    Partners as Partners,
    Place as Place,
    SavedPolicy as SavedPolicy,
    models_of_people as models_of_people,
    read_saved as read_saved,
)
from .runs import Evaluation as Evaluation, Run as Run
from .settings import (
    Experiment as Experiment,
    PartnerSettings as PartnerSettings,
    check_shaping as check_shaping,
    parse as parse,
)
from .worlds import (
    Kitchen as Kitchen,
    World as World,
    WorldSettings as WorldSettings,
    world_settings as world_settings,
)

_interrupts.restore()
