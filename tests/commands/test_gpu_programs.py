"""Programs for a GPU: their costs are read from what XLA writes, and stay below limits."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import _gpu_dump
import gpu_programs
import pytest
from _gpus import GPUS, NODE_SECONDS

SCRIPT = Path(gpu_programs.__file__)
HLO = """HloModule jit_f

FunctionNames
1 "walk"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%fused (p.0: f32[1000,8], p.1: s32[]) -> f32[8] {
  %p.0 = f32[1000,8]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  ROOT %cut = f32[1,8]{1,0} dynamic-slice(%p.0, %p.1), dynamic_slice_sizes={1,8}
}

%body (t: (f32[1000,8], s32[])) -> (f32[1000,8], s32[]) {
  %t = (f32[1000,8]{1,0}, /*index=1*/s32[]) parameter(0)
  %a = f32[1000,8]{1,0} get-tuple-element(%t), index=0
  %b = s32[] get-tuple-element(%t), index=1
  %loop_fusion = f32[1,8]{1,0} fusion(%a, %b), kind=kLoop, calls=%fused
  ROOT %copy.1 = f32[1000,8]{1,0} copy(%a)
}

ENTRY %main (x: f32[1000,8]) -> f32[1000,8] {
  %x = f32[1000,8]{1,0} parameter(0)
  ROOT %while.1 = (f32[1000,8]{1,0}, s32[]) while(%x), body=%body, metadata={stack_frame_id=1}TRIPS
}
"""
SEQUENCE = """001: kWhile        [source | sink]
condition:
    002: kCustomKernel [source | sink] compare grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0
  body:
    000: kCommandBuffer [source | next=005 (1)]
        003: kCustomKernel [source | sink] loop_fusion grid: [4, 1, 1] threads: [64, 1, 1]  shared
    005: kConditional [prev=000 (1) | sink]
      false_branch:
        004: kCopy [source | sink] kCopy
        006: kCopy [source | sink] kCopy
      true_branch:
        007: kCopy [source | sink] kCopy
"""
PTX = """.visible .entry loop_fusion(
	.param .u64 loop_fusion_param_0
)
{
	.reg .b32 	%r<3>;

	ld.param.b64 	%rd1, [loop_fusion_param_0];
	@%p1 bra 	$L__BB0_2;
	add.s64 	%rd2, %rd1, 1;
	add.s64 	%rd2, %rd1, 2;
	bra.uni 	$L__BB0_3;
$L__BB0_2:
	add.s64 	%rd2, %rd1, 3;
$L__BB0_3:
	ret;
}
"""


@pytest.mark.parametrize("times", [None, 7])
def test_costs_are_read_from_files_of_xla(tmp_path, times):
    known = f', backend_config={{"known_trip_count":{{"n":"{times}"}}}}' if times else ""
    annotated = {1: "while.1", 3: "loop_fusion", 4: "copy.1", 6: "copy.1", 7: "copy.1"}
    metadata = [f'profile_annotation: "{x}"\n thunk_id: {n}\n' for n, x in annotated.items()]
    (tmp_path / "m.gpu_after_optimizations.txt").write_text(HLO.replace("TRIPS", known))
    (tmp_path / "m.thunk_metadata.txt").write_text("".join(metadata))
    (tmp_path / "m.thunk_sequence_after_thunk_passes.txt").write_text(SEQUENCE)
    (tmp_path / "m.1.ptx").write_text(PTX)
    _, loop = _gpu_dump.as_rows(_gpu_dump.Program(tmp_path, GPUS["h100"]).read())
    assert (loop["loop"], loop["times"]) == ("program > walk", times)
    # The host reads the condition inside the loop and, if it is computed, that of the loop.
    assert (loop["conditions"], loop["waits"]) == (1, 1 if times else 2)
    assert (loop["nodes"], loop["longer_nodes"], loop["graphs"]) == (2 if times else 3, 1, 1)
    kernels = {x["name"]: x for x in loop["kernels"]}
    # One row of the array, its index and the result; the longest path has 6 instructions.
    assert kernels["loop_fusion"]["num_bytes"] == 32 + 4 + 32
    assert kernels["loop_fusion"]["instructions"] == 6 * 4 * 2
    assert kernels["copy.1"]["num_bytes"] == 2 * 32_000
    assert loop["seconds"] == pytest.approx(loop["nodes"] * NODE_SECONDS)


@pytest.mark.slow
@pytest.mark.skipif(
    not any(map(importlib.util.find_spec, gpu_programs.PLUGINS)),
    reason="the CUDA plugin of jax is not installed",
)
def test_steps_and_rollouts_launch_little_and_never_wait(tmp_path):
    command = [sys.executable, SCRIPT, "--num-envs", "2048", "--out", tmp_path / "out"]
    command += ["--parts", "step", "rollout", "evaluation"]
    subprocess.run(command, check=True, capture_output=True)
    programs = json.loads((tmp_path / "out" / "gpu_programs.json").read_text())["programs"]
    step, rollout, evaluation = programs.values()
    for rows, limit in ((step, 24), (rollout, 60)):
        assert rows[1]["nodes"] <= limit
        assert rows[1]["outside"] == 0
        assert sum(row["waits"] for row in rows) == 0
    assert [row["waits"] for row in evaluation] == [0, 1, 0]  # before each block of steps
    assert evaluation[2]["times"] == 10
