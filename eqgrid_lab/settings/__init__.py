"""The settings of runs: flags, settings files, and checks of both."""

from ._config import (
    OF_THE_PROCESS as OF_THE_PROCESS,
    changed_by_world as changed_by_world,
    check as check,
    parse as parse,
    read_settings as read_settings,
)
from ._experiment import Experiment as Experiment, check_shaping as check_shaping
from ._flags import (
    LARGEST_SEED as LARGEST_SEED,
    Seed as Seed,
    as_given as as_given,
    at_home as at_home,
    check_limits as check_limits,
    cli as cli,
    flags as flags,
    given as given,
    read_flags as read_flags,
)
from ._policy_settings import PolicySettings as PolicySettings, default_settings as default_settings
from ._script import (
    command_of as command_of,
    file_of as file_of,
    is_shipped as is_shipped,
    script_errors as script_errors,
)
from ._stored import (
    config_from as config_from,
    dump as dump,
    load as load,
    own_flags as own_flags,
    to_table as to_table,
)
from ._training_partners import PartnerSettings as PartnerSettings
