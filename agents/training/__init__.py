"""The training loop: compiled blocks of updates, hooks and devices."""

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
    init_train_state as init_train_state,
    scan_updates as scan_updates,
    trace_block as trace_block,
    train as train,
)
from ._transfer import PARTS as PARTS, Part as Part, transfer as transfer
