"""The GPUs for which `gpu_programs.py` compiles, and a model of the time of one kernel."""

import dataclasses

NODE_SECONDS = 2e-6
"""Assumed time of a kernel or a copy in a CUDA graph that waits for the one before it."""
MEMORY_SHARE = 0.85
"""Assumed share of the memory bandwidth that a kernel reaches."""
INSTRUCTIONS_PER_CLOCK = 2.5
"""Assumed number of instructions of 32 threads that each multiprocessor completes per clock."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """What XLA and the model need of a GPU, from NVIDIA's data sheets.

    - `capability`: the compute capability.
    - `cores`: the number of multiprocessors.
    - `fpus`: the number of units for 4-byte floats in each multiprocessor.
    - `clock_ghz`, `busy_clock_ghz`: the highest clock, and the assumed one under load.
    - `bandwidth`: bytes per second of the memory.
    - `memory`, `l2_cache`, `shared_per_core`, `shared_per_block`: sizes in bytes.
    """

    name: str
    capability: str
    cores: int
    fpus: int
    clock_ghz: float
    busy_clock_ghz: float
    bandwidth: int
    memory: int
    l2_cache: int
    shared_per_core: int
    shared_per_block: int

    def seconds(self, num_bytes: int, instructions: int) -> float:
        """The predicted time of a kernel.

        **Arguments:**

        - `num_bytes`: the bytes that it reads and writes.
        - `instructions`: the number of its instructions of 32 threads.
        """
        per_second = INSTRUCTIONS_PER_CLOCK * self.cores * self.busy_clock_ghz * 1e9
        memory = num_bytes / (MEMORY_SHARE * self.bandwidth)
        return max(NODE_SECONDS, memory, instructions / per_second)

    def target(self) -> str:
        """The GPU as a target description of XLA (`GpuTargetConfigProto`). Without versions of the
        driver and of CUDA, XLA would write no CUDA graphs.
        """
        major, minor = self.capability.split(".")
        features = "ACCELERATED_FEATURES" if int(major) >= 9 else "NONE"
        return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {self.shared_per_core}
  threads_per_core_limit: 2048
  core_count: {self.cores}
  fpus_per_core: {self.fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {self.bandwidth}
  l2_cache_size: {self.l2_cache}
  clock_rate_ghz: {self.clock_ghz}
  device_memory_size: {self.memory}
  shared_memory_per_block_optin: {self.shared_per_block}
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  driver_version: "13.0.0"
  runtime_version: "12.9.0"
  compile_time_toolkit_version: "12.9.0"
  dnn_version: "9.10.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{self.name}"
"""


GPUS = {
    "h100": Gpu(
        name="NVIDIA H100 80GB HBM3",
        capability="9.0",
        cores=132,
        fpus=128,
        clock_ghz=1.98,
        busy_clock_ghz=1.7,
        bandwidth=3_352_320_000_000,
        memory=84_942_979_072,
        l2_cache=50 * 2**20,
        shared_per_core=228 * 2**10,
        shared_per_block=227 * 2**10,
    ),
    "a100": Gpu(
        name="NVIDIA A100-SXM4-80GB",
        capability="8.0",
        cores=108,
        fpus=64,
        clock_ghz=1.41,
        busy_clock_ghz=1.41,
        bandwidth=2_039_040_000_000,
        memory=85_100_068_864,
        l2_cache=40 * 2**20,
        shared_per_core=164 * 2**10,
        shared_per_block=163 * 2**10,
    ),
}
"""The GPUs by their flag."""
