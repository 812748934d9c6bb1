"""What the tests of the fleet look at."""

from pathlib import Path
from typing import Any

from moetune.fleet.command import run_tool


def winners(path: Path) -> list[dict[str, Any]]:
    """What a cache or a pack holds."""
    found: list[dict[str, Any]] = run_tool(["cache", "ls", "--cache", str(path)], 60)["workloads"]
    return found
