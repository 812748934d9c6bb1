"""How much faster a night is on two devices of one host than on one.

retune_host.py MOETUNE LIBFAKECUDA [--workloads N] [--budget N] [--pace-ms MS] [--bar RATIO] [--no-compile]

Records a few dozen configurations of N problems on a scripted GPU, and lets these recordings stand for one GPU and for
two. Compiling is real, from an empty build cache; measuring is simulated: a trial takes MS milliseconds. Prints wall
times and their ratio; exit code 1 if it is above the bar.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FEW = ("loader == 'cp_async' && vector_bytes == 16 && tile_kib == 16 && stages >= 2 && stages <= 4 && warps >= 4 &&"
       " blocks_per_sm >= 1")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("moetune")
    parser.add_argument("libfakecuda")
    parser.add_argument("--workloads", type=int, default=8)
    parser.add_argument("--budget", type=int, default=16)
    parser.add_argument("--pace-ms", type=int, default=250)
    parser.add_argument("--bar", type=float, default=0.55)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


class Host:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        source = pathlib.Path(__file__).resolve().parent.parent
        for name in ("templates", "spaces"):
            shutil.copytree(source / name, folder / "data" / name)
        file = folder / "data/spaces/decode_kernel.json"
        space = json.loads(file.read_text())
        space["constraints"].append({"expr": FEW, "why": "few, for a simulation"})
        file.write_text(json.dumps(space))
        self.problems = [f"elements={1024 * (i + 1)}" for i in range(options.workloads)]
        (folder / "w.json").write_text(json.dumps({
            "moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel", "shapes": self.problems}]}))
        (folder / "recordings").mkdir()

    def run(self, *words, **environment):
        known = {**os.environ, "MOETUNE_DATA_DIR": str(self.folder / "data"), "XDG_CACHE_HOME": str(self.folder / "xdg"),
                 "MOETUNE_LIBCUDA": os.path.abspath(self.options.libfakecuda), "MOETUNE_FAKE_CUDA": "memory=4194304"}
        begin = time.monotonic()
        ended = subprocess.run([os.path.abspath(self.options.moetune), *words], env={**known, **environment},
                               capture_output=True, text=True)
        if ended.returncode != 0:
            raise SystemExit(f"retune_host: {' '.join(words)}: {ended.stderr}")
        return time.monotonic() - begin, ended.stdout

    def record(self):
        for i, problem in enumerate(self.problems):
            self.run("record", "decode_kernel", "--problem", problem, "--output", str(self.folder / f"recordings/{i}.json"),
                     "--cache", str(self.folder / "recording.db"))

    def night(self, devices):
        cache = self.folder / f"{devices}.db"
        device = ",".join(["replay:" + str(self.folder / "recordings")] * devices)
        more = ["--no-compile"] if self.options.no_compile else []
        seconds, text = self.run("retune", "--workloads", str(self.folder / "w.json"), "--device", device, "--cache",
                                 str(cache), "--budget", str(self.options.budget), "--json", *more,
                                 MOETUNE_REPLAY_PACE_MS=str(self.options.pace_ms))
        done = json.loads(text)
        verdicts = [one["verdict"] for one in done["reworked"]]
        if verdicts != ["tuned"] * len(self.problems):
            raise SystemExit(f"retune_host: {verdicts}")
        return seconds, len(done["confirmed"])


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        host = Host(options, pathlib.Path(folder))
        host.record()
        one, _ = host.night(1)
        two, checks = host.night(2)
    ratio = two / one
    print(f"{options.workloads} workloads, {options.budget} trials each of {options.pace_ms} ms, "
          f"{'recordings alone' if options.no_compile else 'compiled from an empty build cache'}")
    print(f"one device {one:.1f} s, two devices {two:.1f} s with {checks} checks of winners: {ratio:.3f} "
          f"(bar: at most {options.bar})")
    return 0 if ratio <= options.bar else 1


sys.exit(main())
