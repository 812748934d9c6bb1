"""bench/prefill_attention holds its bars: run with a moetune whose times are scripted.

    prefill_bars.py REPOSITORY FOLDER
"""
import json
import pathlib
import stat
import subprocess
import sys

REPOSITORY, FOLDER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
SCRIPTED = """#!{python}
import json, sys
times = json.load(open({times!r}))
if sys.argv[1] == "bench":
    time = times.get(sys.argv[sys.argv.index("--problem") + 1])
    rows = [dict(what=what, time_us=time * factor if time else None)
            for what, factor in (("winner", 1), ("winner alone", 1.5), ("default", 2))]
    print(json.dumps(dict(rows=rows)))
else:
    print(sys.argv[sys.argv.index("--problem") + 1], file=open({searched!r}, "a"))
    print("null")
"""


def problem(new, tokens, more=""):
    return f"batch=1,q_heads=32,kv_heads=8,head_dim=128,seqlen_q={new},seqlen_kv={tokens}{more}"


def run(times, only):
    """The exit code, the lines of the table, and what was said of bars."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "times.json").write_text(json.dumps(times))
    moetune, searched = FOLDER / "scripted_moetune", FOLDER / "searched.txt"
    searched.write_text("")
    moetune.write_text(SCRIPTED.format(python=sys.executable, times=str(FOLDER / "times.json"), searched=str(searched)))
    moetune.chmod(moetune.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run([sys.executable, str(REPOSITORY / "bench" / "prefill_attention"), "--moetune", str(moetune),
                           "--peers", "none", "--only", only], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[2:], done.stderr


E4M3 = "seqlen_q=4096,seqlen_kv=4096,kv_dtype=e4m3"
CHUNK = "seqlen_q=512,seqlen_kv=32768"
NARROW_CHUNK = problem(512, 32768, ",kv_dtype=e4m3")


def check(found, code, last_cells, said):
    assert found[0] == code, found
    for line, cells in zip(found[1], last_cells, strict=True):
        assert line.endswith(cells), (line, cells)
    assert found[2] == said, found


NARROW, BYTES = problem(4096, 4096, ",kv_dtype=e4m3"), problem(4096, 4096, ",kv_dtype=e4m3,q_dtype=e4m3")
FAST = {problem(4096, 4096): 200.0, NARROW: 250.0, BYTES: 140.0}
SLOW = {problem(4096, 4096): 200.0, NARROW: 280.0, BYTES: 160.0}
ONLY = "batch=1,q_heads=32,kv_heads=8,head_dim=128," + E4M3
SAID = "bench/prefill_attention: 1,32,8,128,4096,4096 kv_dtype=e4m3"
check(run(FAST, ONLY), 0, ["| 375.00 | 500.00 | bf16 | 200.00 | 0.800 | 0.75 |",
                           "| 210.00 | 280.00 | bf16 | 200.00 | 1.429 | 1.40 |"], "")
check(run(SLOW, ONLY), 1, ["| 420.00 | 560.00 | bf16 | 200.00 | 0.714 | 0.75 |",
                           "| 240.00 | 320.00 | bf16 | 200.00 | 1.250 | 1.40 |"],
      f"{SAID} reached 0.714 times bf16, below 0.75\n{SAID} q_dtype=e4m3 reached 1.250 times bf16, below 1.40\n")
check(run({}, ONLY), 1, ["| - | - | - | - | - | - | - | - |"] * 2,
      f"{SAID} has no winner\n{SAID} q_dtype=e4m3 has no winner\n")

# New tokens behind a cache beside a prompt of as many FLOPs, in whole blocks of 128 rows. A row without a bar does not
# count.
CHUNKS = {problem(512, 32768): 400.0, problem(5760, 5760): 390.0, NARROW_CHUNK: 4000.0}
check(run(CHUNKS, CHUNK), 0, ["| unchunked | 391.29 | 0.978 | 0.95 |", "| bf16 | 400.00 | 0.100 | - |"], "")
CHUNKS[problem(5760, 5760)] = 377.0
check(run(CHUNKS, CHUNK), 1, ["| unchunked | 378.24 | 0.946 | 0.95 |", "| bf16 | 400.00 | 0.100 | - |"],
      "bench/prefill_attention: 1,32,8,128,512,32768 reached 0.946 times unchunked, below 0.95\n")

# What is a row and another's companion is searched once.
assert (FOLDER / "searched.txt").read_text().splitlines().count(problem(512, 32768)) == 1
