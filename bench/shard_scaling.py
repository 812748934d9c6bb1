"""shard_scaling.py MOETUNE [WORKLOADS [BUDGET]]: one list tuned by 1, 2, 4 and 8 processes, each a shard of it.

Replays made-up recordings, so that what takes the time is NVRTC: a process compiles on one core. Every count of
processes starts from nothing, and the shards' caches are merged and counted. Exit code 1 if a workload is missing, or
if two shards have it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from made_up_recordings import BASE, copy_data, write_list, write_recording

PROCESSES = (1, 2, 4, 8)
VALUES: dict[str, list[Any]] = {**BASE, "tile_kib": [8, 16], "stages": [2, 3, 4], "warps": [2, 4, 8]}


class Bench:
    def __init__(self, tool: str, workloads: int, budget: int, folder: Path) -> None:
        self.tool, self.budget, self.folder = tool, budget, folder
        self.sizes = [16384 * (index + 1) for index in range(workloads)]
        data = copy_data(folder / "data", VALUES)
        for index, elements in enumerate(self.sizes):
            times_us = [60.0 + (7 * step + index) % 36 for step in range(36)]
            write_recording(data, "Made-up GPU", elements, times_us, VALUES)
        self.list = write_list(folder / "list.json", self.sizes)
        # No GPU is looked for: this measures recordings wherever it runs.
        self.environment = {**os.environ, "MOETUNE_DATA_DIR": str(data), "MOETUNE_LIBCUDA": "/nowhere"}

    def json(self, *words: str) -> Any:
        return json.loads(subprocess.run([self.tool, *words, "--json"], env=self.environment, check=True,
                                         capture_output=True).stdout)

    def run(self, count: int) -> tuple[float, list[int]]:
        """Seconds until the last has ended, and how many workloads each shard has."""
        caches = [self.folder / f"{shard}_of_{count}.db" for shard in range(1, count + 1)]
        begin = time.monotonic()
        running = [subprocess.Popen(
            [self.tool, "retune", "--workloads", str(self.list), "--shard", f"{shard}/{count}", "--cache", str(cache),
             "--budget", str(self.budget), "--threads", "1"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for shard, cache in enumerate(caches, 1)]
        for process in running:
            said, _ = process.communicate()
            if process.returncode not in (0, 1):
                sys.exit(f"shard_scaling: a shard ended with {process.returncode}: {said.strip()}")
        seconds = time.monotonic() - begin
        parts = [len(self.json("cache", "ls", "--cache", str(each))["workloads"]) if each.exists() else 0
                 for each in caches]
        merged = self.folder / f"all_of_{count}.db"
        self.json("cache", "merge", str(merged), *(str(each) for each in caches if each.exists()))
        found = self.json("cache", "ls", "--cache", str(merged))
        if found["winners"] != len(self.sizes) or sum(parts) != len(self.sizes):
            sys.exit(f"shard_scaling: {len(self.sizes)} workloads, and {count} shards tuned {sum(parts)}, of which"
                     f" {found['winners']} are different")
        return seconds, parts


def main() -> None:
    tool = sys.argv[1]
    workloads, budget = (int(word) for word in (sys.argv[2:] + ["32", "12"][len(sys.argv) - 2:])[:2])
    cores = len(os.sched_getaffinity(0))
    print(f"{workloads} workloads, {budget} trials each, on {cores} cores")
    print("| processes | seconds | times as fast | of what N would be | largest shard |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(tool, workloads, budget, Path(name))
        alone = 0.0
        for count in PROCESSES:
            seconds, parts = bench.run(count)
            alone = alone or seconds
            more = " (more processes than cores)" if count > cores else ""
            print(f"| {count}{more} | {seconds:.1f} | {alone / seconds:.2f} | {100 * alone / seconds / count:.0f}% "
                  f"| {max(parts)} of {workloads} |", flush=True)
    if cores < max(PROCESSES):
        print(f"With {cores} cores this says nothing of more than {cores} processes; it needs {max(PROCESSES)} cores.")


if __name__ == "__main__":
    main()
