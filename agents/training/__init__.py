"""The training loop: compiled blocks of updates, hooks, devices and processes."""

from ._processes import (
    ProcessFailed as ProcessFailed,
    fail as fail,
    from_first as from_first,
    gather as gather,
    is_first as is_first,
)
from ._sharding import (
    OutOfMemory as OutOfMemory,
    check_even as check_even,
    check_memory as check_memory,
    device_mesh as device_mesh,
    num_runs as num_runs,
    on_each_device as on_each_device,
    pick_run as pick_run,
    place_runs as place_runs,
    stack_runs as stack_runs,
)
from ._train import (
    Hook as Hook,
    NonFiniteLoss as NonFiniteLoss,
    StopTraining as StopTraining,
    TrainProgress as TrainProgress,
    call_hooks as call_hooks,
    init_train_state as init_train_state,
    scan_updates as scan_updates,
    trace_block as trace_block,
    train as train,
)
from ._transfer import PARTS as PARTS, Part as Part, transfer as transfer
