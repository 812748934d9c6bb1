"""Recordings of GPUs that nobody has, of decode_kernel in a small space: for tests, and for scripts that need many
workloads without a GPU. Every candidate is still compiled by NVRTC.
"""

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BASE: dict[str, list[Any]] = {
    "loader": ["cp_async"], "vector_bytes": [16], "tile_kib": [16], "stages": [2], "warps": [4], "producers": [0],
    "blocks_per_sm": [1], "l2": ["normal", "evict_first"]}


def problem(elements: int, passes: int = 1) -> str:
    """Sizes share their cubins; every number of passes has cubins of its own."""
    return f"elements={elements},dtype=f32,write=all,passes={passes}"


def write_list(path: Path, elements: Sequence[int]) -> Path:
    """A list of workloads, of which the first weighs most."""
    entries = [{"kernel": "decode_kernel", "problem": f"elements={each}", "weight": len(elements) - index}
               for index, each in enumerate(elements)]
    path.write_text(json.dumps({"moetune_workloads": 1, "workloads": entries}))
    return path


def copy_data(folder: Path, values: Mapping[str, list[Any]] = BASE) -> Path:
    """Templates and spaces for MOETUNE_DATA_DIR; decode_kernel may have these values alone."""
    for name in ("templates", "spaces"):
        shutil.copytree(ROOT / name, folder / name)
    space = folder / "spaces/decode_kernel.json"
    text = json.loads(space.read_text())
    for name, domain in values.items():
        words = [f"{name} == {each!r}" for each in domain]
        text["constraints"].append({"expr": "(" + " || ".join(words) + ")", "why": "a small space"})
    space.write_text(json.dumps(text))
    (folder / "replay/recordings").mkdir(parents=True)
    return folder


def write_recording(data: Path, gpu: str, elements: int, times_us: Sequence[float],
                    values: Mapping[str, list[Any]] = BASE, passes: int = 1) -> None:
    """As `moetune record` writes it, with these times for the configurations in order, from the start again at the end.
    """
    limits = {"compute_capability": 90, "sm_count": 4, "l2_bytes": 1 << 20, "memory_bytes": 1 << 22}
    indices = list(itertools.product(*(range(len(domain)) for domain in values.values())))
    times = [times_us[index % len(times_us)] for index in range(len(indices))]
    header = {
        "moetune_recording": 1, "kernel": "decode_kernel", "problem": problem(elements, passes), "recorded_at": "2026-11-23",
        "hardware": {"name": gpu, **limits, "sm_clock_khz": 10**6, "memory_clock_khz": 2 * 10**6,
                     "driver": "CUDA 13.0"},
        "limits": {**limits, "shared_per_block": 232448, "shared_per_sm": 233472, "registers_per_sm": 65536,
                   "threads_per_sm": 2048},
        "read_tb_s": 0.2, "launch_us": 1.0, "source_digest": "0" * 32, "toolchain": "nvrtc 13.0.88",
        "parameters": [{"name": name, "doc": "", "values": domain} for name, domain in values.items()],
        "rows": len(indices)}
    rows = {"positions": [list(column) for column in zip(*indices)], "outcomes": ["ok"] * len(indices),
            "time_us": times, "samples_us": [[each] * 5 for each in times], "messages": []}
    path = data / "replay/recordings" / f"elements_{elements}_{passes}.json.zst"  # which need not be compressed
    path.write_text(json.dumps(header) + "\n" + json.dumps(rows) + "\n")
