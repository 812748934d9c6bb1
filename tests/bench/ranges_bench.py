"""bench/ranges on two scripted GPUs: two searches side by side, shapes on both, what is left when time is up.

ranges_bench.py REPOSITORY MOETUNE RANGE_SHAPES, with the scripted driver in the environment.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

repository, moetune, range_shapes = sys.argv[1:]


def run(folder, *more):
    file = folder / "result.json"
    file.unlink(missing_ok=True)
    begin = time.monotonic()
    ended = subprocess.run(
        [f"{repository}/bench/ranges", "--moetune", moetune, "--range-shapes", range_shapes, "--cache",
         str(folder / "caches"), "--devices", "cuda:0,cuda:1", "--kernel", "decode_kernel", "--over",
         "elements=1024..16384", "--budget", "2", "--certificate", "1", "--shape-budget", "2", "--json", str(file),
         *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(ended.stdout)
    rows = json.loads(file.read_text()) if file.exists() else []
    return ended, rows, time.monotonic() - begin


def check(what, holds):
    if not holds:
        raise SystemExit(f"ranges_bench: {what}")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    ended, rows, _ = run(folder, "--time", "25", "--shapes", "3")
    check("the bars are met where all configurations take the same time", ended.returncode == 0 and len(rows) == 1)
    row = rows[0]
    check("each seed's table is of a GPU of its own",
          {row["tables"]["1"]["on"], row["tables"]["2"]["on"]} == {"cuda:0", "cuda:1"})
    check("both tables meet at each of three shapes, which are no cells of either",
          len(row["shapes"]) == 3 and all(len(shape["tables"]) == 2 for shape in row["shapes"]))
    check("the same configuration runs once in a duel", all(
        one["us"] == shape["own_us"] for shape in row["shapes"] for one in shape["tables"]
        if one["config"] == shape["own"]))
    check("choices are verified", all(one["right"] for shape in row["shapes"] for one in shape["tables"]))
    check("the two tables are compared", row["seeds"] and row["unseen"]["2"]["shapes"] == 3)

    # Of a cache's tables the one that was asked for: here one is chained, as bench/ranges asks, and one alone.
    table = folder / "caches" / "decode_kernel-1.db"
    over = "elements=1024..16384"
    subprocess.run([moetune, "search", "decode_kernel", "--over", over, "--timing", "alone", "--budget", "2",
                    "--shapes", "1", "--device", "cuda:0", "--cache", str(table)],
                   check=True, stdout=subprocess.DEVNULL)

    def listed(timing):
        request = {"kernel": "decode_kernel", "over": over, "tables": [str(table)], "device": "cuda:0",
                   "cache": str(folder / "listed.db"), "shapes": 2, "timing": timing}
        return subprocess.run([range_shapes, json.dumps(request)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)

    for timing in ("chained", "alone"):
        ended = listed(timing)
        check(f"the {timing} table is found: {ended.stderr}", ended.returncode == 0)
    ended = listed("overlapped")
    check(f"no table of another timing is taken: {ended.stderr}",
          ended.returncode == 2 and "overlapped, only for others" in ended.stderr)

    ended, rows, seconds = run(folder, "--time", "5", "--until", "15", "--shapes", "900")
    check("a missed bar is named when the time is up", ended.returncode == 1 and "unseen shapes count" in ended.stdout)
    check(f"the end is near the time ({seconds:.1f} s)", seconds < 30)
    check("what was measured by then is there", 0 < len(rows[0]["shapes"]) < 900 and rows[0]["planned_shapes"] == 900)

    for file in folder.glob("caches/*-shapes-*"):
        file.unlink()
    ended, rows, _ = run(folder, "--moetune", "/bin/false", "--time", "5")
    check("a tool that cannot run ends it", ended.returncode == 3 and rows == [])
