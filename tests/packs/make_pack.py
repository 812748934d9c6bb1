"""scripts/make_pack on recordings: families side by side on two devices, in one cache; what is left for another run;
and the families that it names on a scripted GPU.

make_pack.py REPOSITORY MOETUNE DRIVER
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

repository, moetune, driver = sys.argv[1:]


def check(what, holds):
    if not holds:
        raise SystemExit(f"make_pack: {what}")


with tempfile.TemporaryDirectory() as name:
    cache = pathlib.Path(name) / "cache.db"
    recordings = f"replay:{repository}/replay/recordings"

    def make(device, *more, tool=moetune):
        command = [f"{repository}/scripts/make_pack", f"{name}/one.pack", "--cache", str(cache), "--moetune", tool,
                   "--kernel", "decode_attention", "--preset", "mixtral-8x7b", "qwen3-30b-a3b", "--pages", "0",
                   "--over", "batch=1..128,context=2k..8k", "--device", device, "--no-compile", *more]
        ended = subprocess.run(command, capture_output=True, text=True)
        print(ended.stdout, ended.stderr)
        return ended

    ended = make(f"{recordings},{recordings}", "--time", "0")
    check("no family is begun after --time", ended.returncode == 0 and "0 ranges" in ended.stdout
          and "2 left" in ended.stdout and not cache.exists())

    ended = make(f"{recordings},{recordings}")
    lines = ended.stdout.splitlines()
    check("both families are tuned", ended.returncode == 0 and len(lines) == 3
          and {line.split()[1] for line in lines[:2]} == {"mixtral-8x7b", "qwen3-30b-a3b"})
    check("recordings make no pack", "no pack" in lines[-1] and not (pathlib.Path(name) / "one.pack").exists())
    with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as rows:
        check("both tables are in the cache", rows.execute("SELECT count(*) FROM ranges").fetchone()[0] == 2)

    ended = make("cuda:77")
    check("a device that is not there is said", ended.returncode == 3 and "make_pack: " in ended.stderr)

    ended = make(f"{recordings},{recordings}", tool="/bin/echo")
    check("what moetune prints is read", ended.returncode == 3 and "printed no document" in ended.stderr)

    # Searches that end at once, with their arguments in a file.
    log, tool = pathlib.Path(name) / "log", pathlib.Path(name) / "tool"
    answer = {"cells": [1], "planned": 1, "cubins": [], "worst_regret": 0, "contended": False, "wall_s": 0,
              "certificate": {"shapes": 0, "median": 0, "p95": 0}}
    tool.write_text(f'''#!/bin/sh
if [ "$1" = search ]; then echo "$@" >>{log}; echo '{json.dumps(answer)}'; else exec "{moetune}" "$@"; fi
''')
    tool.chmod(0o755)

    def families(*more, tool=moetune, device="auto"):
        command = [f"{repository}/scripts/make_pack", f"{name}/two.pack", "--cache", f"{name}/two.db", "--moetune",
                   str(tool), "--device", device, *more]
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MOETUNE_LIBCUDA": driver})
        print(ended.stdout, ended.stderr)
        return ended, [line.split() for line in ended.stdout.splitlines()[:-1]]

    given = "--kernel", "moe_experts", "mla_decode", "--preset", "qwen3-30b-a3b", "kimi-k2", "--time", "10m"
    ended, _ = families(*given, "--family-time", "1h", "--over", "tokens=64", tool=tool, device=recordings)
    searches = [line.split() for line in log.read_text().splitlines()]
    seconds = [float(one[one.index("--time") + 1]) for one in searches]
    check("each gets an equal part of what is left", [one[1] for one in searches] == ["moe_experts", "mla_decode"]
          and 290 < seconds[0] < 301 and 580 < seconds[1] < 601)
    check("a point is a range", all("--over tokens=64" in " ".join(one) for one in searches))

    ended, listed = families("--dry-run")
    check("families are named, and nothing is tuned", ended.returncode == 0
          and ended.stdout.endswith(f"\n{len(listed)} families\n") and not (pathlib.Path(name) / "two.pack").exists())
    check("models' families come first, the heaviest at the head", listed[0][:2] == [
        "moe_experts", "hidden=4096,experts=8,top_k=2,intermediate=14336"])
    over = {" ".join(one[:-1]): one[-1] for one in listed}
    check("what a server and a preset both open is tuned over the ranges of both",
          over["decode_attention page=64"] == "batch=1..256,context=128..128k")
    texts = [" ".join(line) for line in listed]
    for wanted in ("few_rows_linear in=4096,out=2048 tokens=1..16", "qk_norm_rope mixtral-8x7b tokens=1..16k",
                   "route_plan experts=128,align=1 tokens=1..16384",
                   "mla_decode deepseek-v3 batch=1..256,context=512..128k",
                   "moe_experts gpt-oss-120b tokens=1..16k", "act_mul mixtral-8x7b tokens=1..16k",
                   "decode_attention qwen3-235b-a22b page=16 batch=1..256,context=128..128k"):
        check(f"{wanted} is listed", texts.count(wanted) == 1)
    for double in ("moe_experts qwen3-30b-a3b", "decode_attention llama-3-70b", "decode_attention gpt-oss-120b"):
        check(f"{double} is another one's family", not any(text.startswith(double) for text in texts))
    ended, listed = families("--dry-run", "--kernel", "route_plan", "--server", "vllm", "--model",
                             f"{repository}/tests/workloads/configs/mixtral-8x7b.json", "--preset", "kimi-k2")
    check("a model for a server and a preset", [line[1] for line in listed] == ["experts=8,top_k=2,align=1", "kimi-k2"])
    for wrong in (("--time", "soon"), ("--preset", "no-such"), ("--model", "/no/such.json")):
        check(f"{wrong} is refused", families("--dry-run", *wrong)[0].returncode in (2, 3))
