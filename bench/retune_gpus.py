"""What nights cost on the GPUs of this machine.

retune_gpus.py MOETUNE host [--gpus N...] [--workloads N] [--budget N] [--bar RATIO] [--threads N]
    tunes the same workloads on one GPU and then on N, each from an empty cache; the ratio of the wall times, of several
    N the last one's
retune_gpus.py MOETUNE night [--workloads N] [--budget N] [--bar RATIO]
    tunes the workloads, then examines all of them, unchanged, in a second night; the ratio of the wall times

`host` prints how long each GPU's searches took. --json FILE: both nights' documents and the ratio. Exit code 1 if the
ratio is above the bar (0.55 and 0.2). --limit: seconds after which a night is ended, which fails (500). --threads:
compilers of each GPU. --kernel decode_kernel takes little memory and time.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BARS = {"host": 0.55, "night": 0.2}


def shapes(kernel, count):
    """Problems of like cost; the first ones are what servers ask most."""
    if kernel == "decode_kernel":
        return [f"elements={1024 * (i + 1)}" for i in range(count)]
    grid = [(batch, context) for context in (4096, 8192, 2048, 16384, 1024) for batch in (8, 16, 4, 32, 2, 64, 1, 12, 24, 48)]
    if count > len(grid):
        raise SystemExit(f"retune_gpus: at most {len(grid)} workloads of {kernel}")
    return [f"batch={batch},q_heads=32,kv_heads=8,context={context}" for batch, context in grid[:count]]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moetune")
    parser.add_argument("measure", choices=BARS)
    parser.add_argument("--gpus", type=int, nargs="+", default=[2])
    parser.add_argument("--workloads", type=int, default=8)
    parser.add_argument("--budget", type=int, default=150)
    parser.add_argument("--kernel", default="decode_attention")
    parser.add_argument("--bar", type=float)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=500)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.bar = BARS[options.measure] if options.bar is None else options.bar
    return options


class Nights:
    def __init__(self, options, folder):
        self.options, self.folder, self.nights = options, folder, []
        self.list = folder / "w.json"
        self.list.write_text(json.dumps({"moetune_workloads": 1, "workloads": [
            {"kernel": options.kernel, "shapes": shapes(options.kernel, options.workloads)}]}))

    def run(self, cache, devices, *more):
        """One night. Returns its wall time and its document."""
        command = [os.path.abspath(self.options.moetune), "retune", "--workloads", str(self.list), "--device", devices,
                   "--cache", str(self.folder / cache), "--budget", str(self.options.budget), "--threads",
                   str(self.options.threads), "--json", *more]
        begin = time.monotonic()
        try:
            ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=self.options.limit,
                                   env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "xdg")})
        except subprocess.TimeoutExpired:
            raise SystemExit(f"retune_gpus: a night took longer than {self.options.limit:.0f} s") from None
        seconds = time.monotonic() - begin
        if ended.returncode != 0:
            raise SystemExit(f"retune_gpus: {' '.join(command[1:])} ended with {ended.returncode}")
        done = json.loads(ended.stdout)
        self.nights.append({"devices": devices, "seconds": seconds, "night": done})
        return seconds, done

    def tune(self, cache, devices):
        seconds, done = self.run(cache, devices)
        verdicts = [one["verdict"] for one in done["reworked"]]
        if verdicts != ["tuned"] * self.options.workloads or done["left_out_devices"]:
            raise SystemExit(f"retune_gpus: {verdicts}, left out: {done['left_out_devices']}")
        return seconds, done


def print_devices(seconds, done):
    """What each device did, in seconds."""
    print(f"wall {seconds:.1f} s\n| device | searches | together |\n|---|---|---|")
    for device in done["devices"]:
        lengths = [one["seconds"] for one in done["reworked"] if one["device"] == device]
        print(f"| {device} | {', '.join(f'{each:.1f}' for each in lengths)} | {sum(lengths):.1f} |")


def measure_host(nights, options):
    one, alone = nights.tune("one.db", "cuda:0")
    print_devices(one, alone)
    for count in options.gpus:
        many, done = nights.tune(f"{count}.db", ",".join(f"cuda:{i}" for i in range(count)))
        print_devices(many, done)
        print(f"one GPU {one:.1f} s, {count} GPUs {many:.1f} s: {one / many:.2f} times as fast")
    return many / one


def measure_night(nights, options):
    tuning, _ = nights.tune("night.db", "cuda:0")
    time.sleep(1.1)  # everything is older than a second then
    second, done = nights.run("night.db", "cuda:0", "--max-age", "1s")
    verdicts = [one["verdict"] for one in done["reworked"]]
    if len(verdicts) != options.workloads:
        raise SystemExit(f"retune_gpus: of {options.workloads} workloads {len(verdicts)} were examined")
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts)))
    remedies = [one.get("remedy", "none") for one in done["reworked"]]
    print(f"tuning {tuning:.1f} s, a night without a change {second:.1f} s: {counts}; "
          + ", ".join(f"{remedies.count(remedy)} {remedy}" for remedy in sorted(set(remedies))))
    return second / tuning


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(options, pathlib.Path(folder))
        print(f"{options.workloads} workloads of {options.kernel}, {options.budget} trials each, empty caches")
        ratio = {"host": measure_host, "night": measure_night}[options.measure](nights, options)
    print(f"ratio {ratio:.3f} (bar: at most {options.bar})")
    if options.json:
        options.json.write_text(json.dumps({"measure": options.measure, "ratio": ratio, "bar": options.bar,
                                            "workloads": options.workloads, "budget": options.budget,
                                            "cores": len(os.sched_getaffinity(0)), "nights": nights.nights}, indent=1))
    return 0 if ratio <= options.bar else 1


sys.exit(main())
