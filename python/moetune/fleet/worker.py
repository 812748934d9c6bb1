"""What the fleet does on a node: say what GPU is there, tune one workload, install a pack. Knows nothing of Ray.

Answers are plain dictionaries; whoever takes one checks it (results.py). A failure is an answer too, with `status`.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moetune.fleet.command import FleetError, ToolFailed, read_bounded, run_tool, tool_version

GPU = "cuda:0"  # the one that Ray shows to this task
QUERY_S = 300.0
SIGNATURE_HEAD = "moetune signature 1\n"
SIGNERS = 16  # lines that a signature file may have after its head


def _gpu_key() -> str:
    gpus = run_tool(["devices"], QUERY_S)["gpus"]
    if not gpus:
        raise FleetError("there is no GPU that moetune can use")
    return str(gpus[0]["hardware"])


def _recordings() -> list[dict[str, Any]]:
    """Those of this node (MOETUNE_DATA_DIR), which must be of one GPU."""
    found = [each for each in run_tool(["devices"], QUERY_S)["recordings"] if "error" not in each]
    if len({each["gpu"] for each in found}) != 1:
        raise FleetError("the recordings of this node are not of one GPU")
    return found


def hardware(recorded: bool) -> str:
    """What results of this node are true of: the hardware key, or the name of the recorded GPU."""
    return f"recorded {_recordings()[0]['gpu']}" if recorded else _gpu_key()


def _require_compiler() -> None:
    why = run_tool(["devices"], QUERY_S)["why_no_compiler"]
    if why:
        raise FleetError(f"nothing can be compiled there: {why}")


def probe(recorded: bool) -> dict[str, Any]:
    """The node's hardware and moetune's version there; broken if no search could succeed."""
    try:
        found = {"status": "ok", "version": tool_version(), "hardware": hardware(recorded)}
        _require_compiler()
        return found
    except FleetError as error:
        return {"status": "broken", "why": str(error)}


def _device(task: dict[str, Any]) -> str:
    """Where to tune it."""
    if not task["recorded"]:
        return GPU
    for each in _recordings():
        if each["kernel"] == task["kernel"] and each["problem"] == task["problem"]:
            return str(each["id"])
    raise LookupError(f"no recording of this node is of {task['kernel']} {task['problem']}")


def _require_hardware(task: dict[str, Any], when: str) -> None:
    found = hardware(task["recorded"])
    if found != task["hardware"]:
        raise FleetError(f"{when} the search the GPU was {found}, not {task['hardware']}")


def _tune(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The point of `moetune tune`'s document; the winner is in folder/result.db."""
    entry = {"kernel": task["kernel"], "problem": task["problem"]}
    (folder / "list.json").write_text(json.dumps({"moetune_workloads": 1, "workloads": [entry]}))
    arguments = ["tune", "--workloads", str(folder / "list.json"), "--cache", str(folder / "result.db"),
                 "--device", _device(task), "--budget", str(task["budget"]), "--time", f"{max(1, task['time_s']):.0f}s",
                 "--threads", str(task["threads"])]
    document = run_tool(arguments, task["time_s"] + QUERY_S, allowed=(0, 1))
    point: dict[str, Any] = document["points"][0]
    return point


def _packed(task: dict[str, Any], folder: Path) -> bytes:
    """A pack. Winners of recordings go into no pack: of them it is the cache, where they stay marked as recorded."""
    cache, pack = folder / "result.db", folder / "result.pack"
    if task["recorded"]:
        run_tool(["cache", "gc", "--keep-builds", "0", "--cache", str(cache)], QUERY_S)
        return read_bounded(cache, task["largest_bytes"])
    run_tool(["cache", "export", str(pack), "--cache", str(cache)], QUERY_S)
    return read_bounded(pack, task["largest_bytes"])


def tune(task: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Tunes one workload. Status `ok` with the result's bytes, else `left_out` (the workload is why) or `broken`."""
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="moetune-fleet-") as name:
            folder = Path(name)
            _require_hardware(task, "before")
            point = _tune(task, folder)
            if point["state"] != "tuned":
                why = point.get("why") or str(point["state"]).replace("_", " ")
                return {"status": "broken" if point["state"] == "not_reached" else "left_out", "why": why}, b""
            data = _packed(task, folder)
            _require_hardware(task, "after")
    except LookupError as error:
        return {"status": "left_out", "why": str(error)}, b""
    except (FleetError, OSError, KeyError, TypeError) as error:
        return {"status": "broken", "why": str(error) or repr(error)}, b""
    return {"status": "ok", "key": task["key"], "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
            "time_us": point.get("time_us"), "seconds": time.monotonic() - begin}, data


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _config_of(pack: Path, kernel: str, problem: str, key: str) -> str | None:
    """The winner's configuration in a pack, or None if it has none."""
    for each in run_tool(["cache", "ls", "--cache", str(pack)], QUERY_S)["workloads"]:
        if (each["kernel"], each["problem"], each["hardware"]["key"]) == (kernel, problem, key) and each["winner"]:
            return str(each["config"])
    return None


def _duel(kernel: str, problem: str, cache: Path, before: str | None) -> str:
    """Verifies the winner and times it beside the default and what was installed before. "" or why it loses."""
    named = f"{kernel} {problem}"
    target = [kernel, "--problem", problem, "--device", GPU, "--cache", str(cache)]
    try:
        run_tool(["verify", *target, "--seeds", "1"], QUERY_S)
        config = ["--config", before] if before else []
        bench = run_tool(["bench", *target, *config], QUERY_S)
    except ToolFailed as error:
        return f"{named}: {error}"
    if bench["contended"]:
        return f"{named}: somebody else uses the GPU, so that nothing can be decided"
    times = {row["what"]: row for row in bench["rows"] if row.get("time_us")}
    winner = times["winner"]
    for other in ("default", "config"):
        if other in times and winner["interval_us"][0] > 1.003 * times[other]["interval_us"][1]:
            against = "the default" if other == "default" else "what was installed before"
            return f"{named}: {winner['time_us']:.4g} us is slower than {against}, {times[other]['time_us']:.4g} us"
    return ""


def _duels(request: dict[str, Any], pack: Path, before: Path) -> list[str]:
    """Why winners of the pack lose on this GPU; empty if all agree."""
    key = _gpu_key()
    lost = []
    with tempfile.TemporaryDirectory(prefix="moetune-fleet-") as name:
        cache = Path(name) / "pack.db"  # a pack is only read, and bench measures ceilings into its cache
        run_tool(["cache", "merge", str(cache), str(pack)], QUERY_S)
        for kernel, problem in request["duels"]:
            if _config_of(pack, kernel, problem, key) is None:
                continue
            old = _config_of(before, kernel, problem, key) if before.exists() else None
            why = _duel(kernel, problem, cache, old)
            if why:
                lost.append(why)
    return lost


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hosts that share the folder change it in turn."""
    with path.with_name(path.name + ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_at(path: Path, digest: str) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _before(path: Path) -> Path:
    return path.with_name(path.name + ".before")


def _path_of(request: dict[str, Any]) -> Path:
    """`~` and $NAME are this node's."""
    path = Path(os.path.expandvars(request["path"])).expanduser()
    if not path.is_absolute():
        raise FleetError(f"{path} is no absolute path")
    return path


def _trial(path: Path) -> Path:
    """Names the pack that is at `path` on trial: it was put there, and its duels have not ended."""
    return path.with_name(path.name + ".trial")


def _on_trial(path: Path, digest: str) -> bool:
    return _trial(path).exists() and _trial(path).read_text() == digest


def signature_path(pack: Path) -> Path:
    """As moetune names it."""
    return pack.with_name(pack.name + ".sig")


def _signature_of(path: Path) -> str:
    signature = signature_path(path)
    return signature.read_text("ascii") if signature.exists() else ""


def _put_signature(path: Path, text: str) -> None:
    """The pack's signature file, in one step; none for an empty text."""
    signature = signature_path(path)
    if not text:
        signature.unlink(missing_ok=True)
        return
    part = signature.with_name(signature.name + ".part")
    _write_durably(part, text.encode("ascii"))
    os.replace(part, signature)


def _both(new: str, old: str) -> str:
    """For the moment in which a pack is replaced: a reader finds the signature of either."""
    lines = new.splitlines() or old.splitlines()
    lines += [line for line in old.splitlines() if line not in lines]
    return "".join(line + "\n" for line in lines[:1 + SIGNERS])


def _replace(part: Path, path: Path, signature: str) -> None:
    """The pack at `path` by the one at `part`, with its signature."""
    _put_signature(path, _both(signature, _signature_of(path)))
    os.replace(part, path)
    _put_signature(path, signature)


def _put(path: Path, data: bytes, digest: str, signature: str) -> bool:
    """The pack at `path`, in one step; what was there before is beside it. Checked before a server could open it.

    Its signature goes beside it, or none if it has none: the one of another pack would make a server refuse this one.

    Whether this put it there, now or before it was killed: only then may it be taken away again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        if _is_at(path, digest):
            if signature:
                _put_signature(path, signature)
            return _on_trial(path, digest)  # else it was there, or is of another host of the same folder
        part = path.with_name(path.name + ".part")
        try:
            _write_durably(part, data)
            run_tool(["cache", "check", "--cache", str(part)], QUERY_S)
            _before(path).unlink(missing_ok=True)
            _put_signature(_before(path), _signature_of(path) if path.exists() else "")
            if path.exists():
                os.link(path, _before(path))
            _write_durably(_trial(path), digest.encode())
            _replace(part, path, signature)
        finally:
            part.unlink(missing_ok=True)
    return True


def _go_back(path: Path, digest: str) -> None:
    """To the pack of before, or to none if there was none. Does nothing if the pack is not there any more."""
    with _locked(path):
        if _is_at(path, digest):
            if _before(path).exists():
                _replace(_before(path), path, _signature_of(_before(path)))
            else:
                path.unlink()
                _put_signature(path, "")
            _put_signature(_before(path), "")
        _trial(path).unlink(missing_ok=True)


def _signature_in(request: dict[str, Any]) -> str:
    text = request.get("signature", "")
    if not isinstance(text, str) or (text and not text.startswith(SIGNATURE_HEAD)):
        raise FleetError("the pack's signature arrived damaged")
    return text


def install(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Puts a pack at request["path"], with its signature if it has one; with duels, goes back to what was there if one
    of its winners loses.

    `changed` in the answer: it was not there before, so that restore() may take it away.
    """
    try:
        if hashlib.sha256(data).hexdigest() != request["sha256"]:
            raise FleetError("the pack arrived damaged")
        path = _path_of(request)
        changed = _put(path, data, request["sha256"], _signature_in(request))
    except (FleetError, OSError, ValueError) as error:
        return {"status": "broken", "why": str(error)}
    try:
        lost = _duels(request, path, _before(path)) if request["duels"] else []
    except (FleetError, OSError, KeyError, TypeError) as error:
        lost = [str(error) or repr(error)]
    try:
        if lost and changed:
            _go_back(path, request["sha256"])
        _trial(path).unlink(missing_ok=True)
    except OSError as error:
        lost.append(str(error))
    if lost:
        return {"status": "lost", "changed": changed, "why": "; ".join(lost)[:2000]}
    return {"status": "ok", "changed": changed}


def restore(request: dict[str, Any]) -> dict[str, Any]:
    """Goes back to the pack of before, or to none if there was none. For hosts whose install() changed something."""
    try:
        _go_back(_path_of(request), request["sha256"])
        return {"status": "ok"}
    except (FleetError, OSError) as error:
        return {"status": "broken", "why": str(error)}
