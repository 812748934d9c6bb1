"""scripts/make_pack on recordings: families side by side on two devices, in one cache; what is left for another run.

make_pack.py REPOSITORY MOETUNE
"""
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

repository, moetune = sys.argv[1:]


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

    ended = make(f"{recordings},{recordings}", "--seconds", "0")
    check("no family is begun after --seconds", ended.returncode == 0 and "0 ranges" in ended.stdout
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
    check("what fails on a device fails the run", ended.returncode == 3 and "printed no document" in ended.stderr)
