"""shard_scaling.py MOETUNE [--gpus N [--kernel K]] [--json FILE] [--limit SECONDS] [WORKLOADS [BUDGET]]

One list tuned by 1, 2, 4 and 8 processes, each a shard. Replays made-up recordings, so that what takes the time is
NVRTC: a process compiles on one core, and no workload can use another's cubins. With --gpus 1 and N processes measure
K, decode_attention by default, each on a GPU of its own and with its share of the cores. Every count of processes
starts from nothing, and the shards' caches are merged and counted. Prints a table, and writes the same to --json.
Exit code 1 if a workload is missing, if two shards have it, or if all together takes longer than --limit (150): what
runs is killed then.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from made_up_recordings import BASE, copy_data, problem, write_recording

PROCESSES = (1, 2, 4, 8)
VALUES: dict[str, list[Any]] = {**BASE, "tile_kib": [8, 16], "stages": [2, 3, 4], "warps": [2, 4, 8]}


class Bench:
    """From recordings; `devices` is empty then, or names a GPU for each shard."""

    def __init__(self, tool: str, workloads: int, budget: int, folder: Path, gpus: int = 0,
                 limit: float = 150, kernel: str = "decode_attention") -> None:
        self.end = time.monotonic() + limit
        self.tool, self.workloads, self.budget, self.folder = tool, workloads, budget, folder
        self.devices = [f"cuda:{index}" for index in range(gpus)]
        self.cores = len(os.sched_getaffinity(0))
        self.list = folder / "list.json"
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "home")}
        if gpus:
            self.write_gpu_list(kernel)
        else:
            self.write_recordings()

    def write_gpu_list(self, kernel: str) -> None:
        shapes = [f"elements={1024 * (index + 1)}" for index in range(self.workloads)]
        if kernel == "decode_attention":
            shapes = [f"batch={batch},q_heads=32,kv_heads=8,head_dim=128,context={context}"
                      for context in (2048, 4096, 1024, 8192) for batch in (1, 4, 8, 16, 32, 2, 64, 24)]
        entries = [{"kernel": kernel, "problem": each} for each in shapes[:self.workloads]]
        self.workloads = len(entries)
        self.write_entries(entries)

    def write_entries(self, entries: list[dict[str, str]]) -> None:
        self.list.write_text(json.dumps({"moetune_workloads": 1, "workloads": entries}))

    def write_recordings(self) -> None:
        passes = range(1, self.workloads + 1)
        data = copy_data(self.folder / "data", VALUES)
        for each in passes:
            times_us = [60.0 + (7 * step + each) % 36 for step in range(36)]
            write_recording(data, "Made-up GPU", 16384, times_us, VALUES, each)
        self.write_entries([{"kernel": "decode_kernel", "problem": problem(16384, each)} for each in passes])
        # No GPU is looked for: this measures recordings wherever it runs.
        self.environment.update(MOETUNE_DATA_DIR=str(data), MOETUNE_LIBCUDA="/nowhere")

    def where(self, shard: int, count: int) -> list[str]:
        if not self.devices:
            return ["--device", "replay:shipped", "--threads", "1"]
        return ["--device", self.devices[shard - 1], "--threads", str(max(1, self.cores // count))]

    def json(self, *words: str) -> Any:
        return json.loads(subprocess.run([self.tool, *words, "--json"], env=self.environment, check=True,
                                         capture_output=True, timeout=self.left()).stdout)

    def left(self) -> float:
        return max(0.1, self.end - time.monotonic())

    def run(self, count: int) -> tuple[float, list[int]]:
        """Seconds until the last has ended, and how many workloads each shard has."""
        caches = [self.folder / f"{shard}_of_{count}.db" for shard in range(1, count + 1)]
        begin = time.monotonic()
        running = [subprocess.Popen(
            [self.tool, "retune", "--workloads", str(self.list), "--shard", f"{shard}/{count}", "--cache", str(cache),
             "--budget", str(self.budget), *self.where(shard, count)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for shard, cache in enumerate(caches, 1)]
        try:
            for process in running:
                said, _ = process.communicate(timeout=self.left())
                if process.returncode not in (0, 1):
                    sys.exit(f"shard_scaling: a shard ended with {process.returncode}: {said.strip()}")
        finally:
            for process in running:  # its workers and compilers die with it
                process.kill()
                process.wait()
        seconds = time.monotonic() - begin
        parts = [len(self.json("cache", "ls", "--cache", str(each))["workloads"]) if each.exists() else 0
                 for each in caches]
        merged = self.folder / f"all_of_{count}.db"
        self.json("cache", "merge", str(merged), *(str(each) for each in caches if each.exists()))
        found = self.json("cache", "ls", "--cache", str(merged))
        if found["winners"] != self.workloads or sum(parts) != self.workloads:
            sys.exit(f"shard_scaling: {self.workloads} workloads, and {count} shards tuned {sum(parts)}, of which"
                     f" {found['winners']} are different")
        return seconds, parts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--kernel", default="decode_attention", choices=("decode_attention", "decode_kernel"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=150)
    parser.add_argument("workloads", type=int, nargs="?")
    parser.add_argument("budget", type=int, nargs="?")
    options = parser.parse_intermixed_args()
    workloads = options.workloads or (8 if options.gpus else 32)
    budget = options.budget or (60 if options.gpus else 6)
    counts = (1, options.gpus) if options.gpus else PROCESSES
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(options.tool, workloads, budget, Path(name), options.gpus, options.limit, options.kernel)
        print(f"{bench.workloads} workloads, {budget} trials each, on {bench.cores} cores"
              + (f" and {options.gpus} GPUs" if options.gpus else ""))
        print("| processes | seconds | times as fast | of what N would be | largest shard |")
        print("|---|---|---|---|---|")
        alone = 0.0
        for count in counts:
            try:
                seconds, parts = bench.run(count)
            except subprocess.TimeoutExpired:
                sys.exit(f"shard_scaling: {count} processes were not done {options.limit:.0f} s after the beginning")
            alone = alone or seconds
            more = " (more processes than cores)" if count > bench.cores else ""
            print(f"| {count}{more} | {seconds:.1f} | {alone / seconds:.2f} | {100 * alone / seconds / count:.0f}% "
                  f"| {max(parts)} of {bench.workloads} |", flush=True)
            rows.append({"processes": count, "seconds": seconds, "speedup": alone / seconds,
                         "efficiency": alone / seconds / count, "workloads": parts})
            if options.json:
                options.json.write_text(json.dumps({
                    "workloads": bench.workloads, "budget": budget, "cores": bench.cores, "gpus": options.gpus,
                    "rows": rows}, indent=1))
    if bench.cores < max(counts):
        print(f"With {bench.cores} cores this says nothing of more than {bench.cores} processes; it needs "
              f"{max(counts)} cores.")


if __name__ == "__main__":
    main()
