"""What the tests of the fleet share: problems of decode_kernel in a small space, and a look into packs."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moetune.fleet.command import run_tool

SMALL = ("loader == 'cp_async' && vector_bytes == 16 && tile_kib == 16 && stages == 2 && warps == 4 && producers == 0"
         " && blocks_per_sm == 1")


def problem(elements: int) -> str:
    return f"elements={elements},dtype=f32,write=all,passes=1"


def write_list(path: Path, elements: Sequence[int]) -> Path:
    """A list of workloads, of which the first weighs most."""
    entries = [{"kernel": "decode_kernel", "problem": problem(each), "weight": len(elements) - index}
               for index, each in enumerate(elements)]
    path.write_text(json.dumps({"moetune_workloads": 1, "workloads": entries}))
    return path


def copy_data(folder: Path) -> Path:
    """Templates and spaces for MOETUNE_DATA_DIR, in which a search of decode_kernel is soon done."""
    for name in ("templates", "spaces"):
        shutil.copytree(Path(os.environ["MOETUNE_SOURCE"]) / name, folder / name)
    space = folder / "templates/decode_kernel/kernel.json"
    text = json.loads(space.read_text())
    text["constraints"].append({"expr": SMALL, "why": "a small space"})
    space.write_text(json.dumps(text))
    return folder


def winners(path: Path) -> list[dict[str, Any]]:
    """What a cache or a pack holds."""
    found: list[dict[str, Any]] = run_tool(["cache", "ls", "--cache", str(path)], 60)["workloads"]
    return found
