"""Runs the command line tool for the fleet, on a node or on the driver, bounded in time."""

import json
import subprocess
from typing import Any

from moetune._tool import TOOL, environment

LARGEST_RESULT = 64 << 20  # bytes


class FleetError(Exception):
    """What went wrong, in one sentence."""


class BadOption(FleetError):
    """A wrong option, or a wrong file that an option names."""


class ToolFailed(FleetError):
    """The tool ended with another exit code than was allowed, or not in time, or printed no JSON document."""


def run_tool(arguments: list[str], timeout_s: float, allowed: tuple[int, ...] = (0,)) -> Any:
    """The JSON document of a command. Raises ToolFailed, and FleetError if it cannot run at all."""
    words = "moetune " + " ".join(arguments[:2])
    try:
        ended = subprocess.run([str(TOOL), *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=timeout_s, env=environment(), check=False)
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{words} did not end within {timeout_s:.0f} s") from None
    except OSError as error:
        raise FleetError(f"{words} cannot run: {error}") from None
    said = (ended.stderr.decode(errors="replace").strip() or "it said nothing").splitlines()[-1].strip()[:500]
    failure = ToolFailed(f"{words} ended with {ended.returncode}: {said}")
    if ended.returncode not in allowed:
        raise failure
    try:
        return json.loads(ended.stdout)
    except (ValueError, RecursionError):
        raise failure from None
