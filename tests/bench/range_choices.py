"""bench/range_choices on a made-up search whose times follow from its waves of blocks, so that all is known.

range_choices.py REPOSITORY
"""
import importlib.machinery
import importlib.util
import itertools
import json
import math
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

repository = pathlib.Path(sys.argv[1])
script = repository / "bench/range_choices"
MATHS, SPLITS = ("mma16", "swap"), (1, 2)


def check(what, holds):
    if not holds:
        raise SystemExit(f"range_choices: {what}")


def problem(batch, lengths="full"):
    return (f"batch={batch},q_heads=32,kv_heads=4,head_dim=128,context=4096,page=64,window=0,lengths={lengths},q_len=1,"
            f"kv_dtype=same")


def config(math_name, splits):
    return (f"body=tma,math={math_name},schedule=grid,residents=0,tile=128,warps=4,stages=2,producers=1,row_tiles=1,"
            f"query=registers,l2=evict_first,splits={splits},combine={'none' if splits == 1 else 'kernel'},ahead=0")


def time_of(batch, math_name, splits):
    """Whole waves of blocks on 132 SMs, and a share of their work; swap is a tenth faster."""
    blocks = 4 * batch * splits
    return (math.ceil(blocks / 132) / splits + blocks / 1000) * (0.9 if math_name == "swap" else 1)


def write_cache(file, trials, served):
    """`trials` of (batch, math, splits); `served` a configuration by batch."""
    connection = sqlite3.connect(file)
    connection.executescript(
        "CREATE TABLE workloads (id INTEGER PRIMARY KEY, problem TEXT); CREATE TABLE range_cubins (config TEXT);"
        "CREATE TABLE ranges (plan TEXT);"
        "CREATE TABLE trials (workload INTEGER, config TEXT, outcome TEXT, time_us REAL, facts TEXT,"
        " contended INTEGER)")
    for batch, math_name, splits in trials:
        connection.execute("INSERT OR IGNORE INTO workloads VALUES (?, ?)", (batch, problem(batch)))
        connection.execute("INSERT INTO trials VALUES (?, ?, 'ok', ?, '{\"registers\": 150}', 0)",
                           (batch, config(math_name, splits), time_of(batch, math_name, splits)))
    connection.executemany("INSERT INTO range_cubins VALUES (?)", [(config(name, 1),) for name in MATHS])
    cells = [{"problem": problem(batch), "config": one} for batch, one in served.items()]
    connection.execute("INSERT INTO ranges VALUES (?)", (json.dumps({"cells": cells}),))
    connection.commit()
    connection.close()


def shape_at(batch):
    """A shape that is served two splits of mma16."""
    own = min((time_of(batch, name, splits), config(name, splits)) for name in MATHS for splits in SPLITS)
    served = {"config": config("mma16", 2), "us": time_of(batch, "mma16", 2), "right": True}
    return {"problem": problem(batch), "contended": False, "own": own[1], "own_us": own[0], "tables": [served]}


def run(folder, shapes):
    (folder / "result.json").write_text(json.dumps([{"family": "made-up", "tables": {"1": {}}, "shapes": shapes}]))
    ended = subprocess.run([script, "--cache", folder, "--json", folder / "result.json", "--family", "made-up"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(ended.stdout)
    return ended


loader = importlib.machinery.SourceFileLoader("range_choices", str(script))
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("range_choices", loader))
sys.dont_write_bytecode = True
loader.exec_module(module)
check("the standard's 10,000th number of its default seed",
      next(itertools.islice(module.mt19937_64(5489), 9999, None)) == 9981545732273789042)
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    batches = [8, 11, 14, 16, 20, 23, 26, 30, 32, 34, 38, 43, 46, 50, 56, 60, 64]
    trials = [(batch, "mma16", splits) for batch in batches for splits in SPLITS]
    trials += [(batch, "swap", splits) for batch in (8, 32, 46) for splits in SPLITS]
    write_cache(folder / "made-up-1.db", trials, {batch: config("mma16", 2) for batch in batches})
    unseen = [18, 36, 53]
    write_cache(folder / "made-up-shapes-0.db",
                [(batch, name, splits) for batch in unseen for name in MATHS for splits in SPLITS], {})
    ended = run(folder, [shape_at(batch) for batch in unseen])
    check("it ends well", ended.returncode == 0)
    lines = [[part.strip() for part in line.split("|")] for line in ended.stdout.splitlines()]
    rows = {line[3]: line[9] for line in lines if line[2:3] == ["shapes, full"]}
    own = [shape_at(batch)["own_us"] for batch in unseen]
    served = max(time_of(batch, "mma16", 2) / time for batch, time in zip(unseen, own)) - 1
    of_mma16 = [min(time_of(batch, "mma16", splits) for splits in SPLITS) for batch in unseen]
    values = max(one / time for one, time in zip(of_mma16, own)) - 1
    check("what was served", rows["served"] == f"{served:.1%}")
    check("the nearest cell's choice, which is that", rows["nearest"] == rows["served"])
    check("other run-time values of its cubin", rows["values"] == f"{values:.1%}" != rows["served"])
    check("all cubins of the table", rows["best"] == "0.0%")
    check("the cause is a cubin that the cell did not try", "lost more than 3% at 3, cubin not tried" in ended.stdout)
    (folder / "made-up-shapes-0.db").unlink()
    ended = run(folder, [shape_at(18)])
    check("without the shapes' caches it says so", ended.returncode == 2 and "nothing of made-up" in ended.stdout)
