"""Checkpoints, policies and trajectories on disk."""

from ._checkpoint import (
    NEWER as NEWER,
    CheckpointError as CheckpointError,
    checksum as checksum,
    is_key as is_key,
    is_newer as is_newer,
    read_metadata as read_metadata,
    restore as restore,
    save as save,
)
from ._description import describe_wrappers as describe_wrappers
from ._files import expand_home as expand_home, write_atomic as write_atomic
from ._policy_file import (
    BUNDLED as BUNDLED,
    POLICY_FILE as POLICY_FILE,
    PolicyFile as PolicyFile,
    PolicyWorld as PolicyWorld,
    file_of_seed as file_of_seed,
    find_policies as find_policies,
    find_policy as find_policy,
    load_policy as load_policy,
    read_policy as read_policy,
    save_policy as save_policy,
    shipped as shipped,
    shipped_policies as shipped_policies,
)
from ._trajectory_files import (
    load_trajectories as load_trajectories,
    save_trajectories as save_trajectories,
)
