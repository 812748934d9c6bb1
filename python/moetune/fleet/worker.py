"""Runs on a node: names its GPU, and tunes one workload there. Knows nothing of Ray.

An answer has a `status`: "ok", "left_out" (the workload is why) or "broken" (the node is); the driver checks it.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from moetune._version import __version__
from moetune.fleet.command import LARGEST_RESULT, FleetError, run_tool

GPU = "cuda:0"  # the one that Ray shows to this task
QUERY_S = 300.0


def hardware() -> str:
    """The GPU's hardware key. Raises FleetError if no search could succeed there."""
    found = run_tool(["devices"], QUERY_S)
    if not found["gpus"]:
        raise FleetError("there is no GPU that moetune can use")
    if found["why_no_compiler"]:
        raise FleetError(f"nothing can be compiled there: {found['why_no_compiler']}")
    return str(found["gpus"][0]["hardware"])


def probe() -> dict[str, Any]:
    """The node's hardware key and its version of moetune."""
    try:
        return {"status": "ok", "version": __version__, "hardware": hardware()}
    except (FleetError, KeyError, TypeError) as error:
        return {"status": "broken", "why": str(error) or repr(error)}


def tune(task: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Tunes one workload; with status "ok" the bytes are a pack of its winner."""
    try:
        with tempfile.TemporaryDirectory(prefix="moetune-fleet-") as name:
            listed, cache, pack = (str(Path(name, each)) for each in ("list.json", "result.db", "result.pack"))
            entry = {"kernel": task["kernel"], "problem": task["problem"]}
            Path(listed).write_text(json.dumps({"moetune_workloads": 1, "workloads": [entry]}))
            before = hardware()
            (point,) = run_tool(
                ["tune", "--workloads", listed, "--cache", cache, "--device", GPU, "--budget", str(task["budget"]),
                 "--time", f"{max(1, task['time_s']):.0f}s", "--threads", str(task["threads"])],
                task["time_s"] + QUERY_S, allowed=(0, 1))["points"]
            if point["state"] != "tuned":
                why = point.get("why") or str(point["state"]).replace("_", " ")
                return {"status": "broken" if point["state"] == "not_reached" else "left_out", "why": why}, b""
            run_tool(["cache", "export", pack, "--cache", cache], QUERY_S)
            if Path(pack).stat().st_size > LARGEST_RESULT:
                raise FleetError(f"the result has more than {LARGEST_RESULT >> 20} MiB")
            if (before, hardware()) != (task["hardware"], task["hardware"]):
                raise FleetError(f"the GPU is another one than {task['hardware']}")
            return {"status": "ok", "time_us": point.get("time_us")}, Path(pack).read_bytes()
    except (FleetError, OSError, KeyError, TypeError, ValueError) as error:
        return {"status": "broken", "why": str(error) or repr(error)}, b""
