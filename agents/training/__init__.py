"""The training loop: compiled blocks of updates, several runs and devices."""

from ._block import Block as Block, NonFiniteLoss as NonFiniteLoss
from ._sharding import (
    OutOfMemory as OutOfMemory,
    check_memory as check_memory,
    device_mesh as device_mesh,
    map_runs as map_runs,
    on_each_device as on_each_device,
    pick_run as pick_run,
    stack_runs as stack_runs,
)
from ._train import (
    Trained as Trained,
    init_train_state as init_train_state,
    scan_updates as scan_updates,
    train as train,
)
from ._transfer import transfer as transfer
