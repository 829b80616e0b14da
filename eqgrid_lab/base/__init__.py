"""Shared by all parts of the program: errors, processes, file names, and imports of user code."""

from ._command import (
    StopSignals as StopSignals,
    exit_at_once as exit_at_once,
    expected_errors as expected_errors,
    explain as explain,
    is_shared as is_shared,
    keep_compiled_programs as keep_compiled_programs,
    quiet_libraries as quiet_libraries,
    run_command as run_command,
    use_cores_as_devices as use_cores_as_devices,
)
from ._errors import (
    Failures as Failures,
    RunError as RunError,
    Stopped as Stopped,
    UsageError as UsageError,
    as_usage_error as as_usage_error,
    print_error as print_error,
    reason as reason,
    warn as warn,
    with_note as with_note,
)
from ._named import (
    DIFFERENT as DIFFERENT,
    Hint as Hint,
    Setting as Setting,
    Table as Table,
    check_storable as check_storable,
    dataclass_of as dataclass_of,
    file_named as file_named,
    folder_first as folder_first,
    import_file as import_file,
    import_named as import_named,
    is_own as is_own,
    settings_of as settings_of,
    without_none as without_none,
)
from ._run_files import (
    CHECKPOINT as CHECKPOINT,
    RESULTS as RESULTS,
    SETTINGS_FILE as SETTINGS_FILE,
    VIDEO_FILE as VIDEO_FILE,
    WANDB_ID as WANDB_ID,
    digest as digest,
    has_checkpoint as has_checkpoint,
)
from ._tables import (
    fill as fill,
    read_toml as read_toml,
    table_of as table_of,
    values_of as values_of,
)
