"""Runs the command line tool for the fleet, on a node or on the driver: bounded in time and in what it may print."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from moetune._tool import TOOL, environment

LARGEST_OUTPUT = 64 << 20


class FleetError(Exception):
    """What went wrong, in one sentence."""


class BadOption(FleetError):
    """A wrong option, or a wrong file that an option names."""


class ToolFailed(FleetError):
    """The tool ended with another exit code than was allowed, or not in time, or printed what it should not."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code  # None: it was killed


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it said nothing"


def run_tool(arguments: list[str], timeout_s: float, allowed: tuple[int, ...] = (0,)) -> Any:
    """The JSON document of a command. Raises ToolFailed, and FleetError if it cannot run at all."""
    words = " ".join(arguments[:2])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            ended = subprocess.run([str(TOOL), *arguments, "--json"], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   timeout=timeout_s, env=environment(), check=False)
        except subprocess.TimeoutExpired:
            raise ToolFailed(f"moetune {words} did not end within {timeout_s:.0f} s", None) from None
        except OSError as error:
            raise FleetError(f"moetune {words} cannot run: {error}") from None
        err.seek(0)
        said = err.read(1 << 20).decode(errors="replace")
        if ended.returncode not in allowed:
            raise ToolFailed(f"moetune {words} ended with {ended.returncode}: {_last_line(said)}", ended.returncode)
        out.seek(0)
        text = out.read(LARGEST_OUTPUT + 1)
    if len(text) > LARGEST_OUTPUT:
        raise ToolFailed(f"moetune {words} printed more than {LARGEST_OUTPUT >> 20} MiB", ended.returncode)
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        raise ToolFailed(f"moetune {words} printed no JSON document: {_last_line(said)}", ended.returncode) from None


def tool_version() -> str:
    """As `moetune --version` prints it."""
    try:
        said = subprocess.run([str(TOOL), "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise FleetError(f"the command line tool is not in this package: {error}") from None
    return said.stdout.strip()[:200]


def read_bounded(path: Path, largest: int) -> bytes:
    """The file's bytes, or FleetError if there are more than `largest`."""
    with path.open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FleetError(f"{path.name} has more than the {largest} bytes that a result may have")
    return data
