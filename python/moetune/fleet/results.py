"""Brings results home: each is checked, kept in a folder, and merged into one pack by `moetune cache merge`.

The tool, which takes any file for an enemy's, must find one sound winner in it, of the workload and the hardware that
were asked for. Nothing of a result becomes a file name, an option or a path.
"""

import contextlib
import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from moetune.fleet.command import LARGEST_RESULT, BadOption, FleetError, ToolFailed, run_tool
from moetune.fleet.placement import Shard

CHECK_S = 300.0
MERGE_S = 3600.0
FILES_A_MERGE = 100  # all of them are open at once


class BadResult(FleetError):
    """A result that is not what was asked for."""


def read_workloads(path: Path) -> list[tuple[str, str]]:
    """The (kernel, problem) pairs of a list, heaviest first, as `moetune workloads show` has them."""
    try:
        shapes = run_tool(["workloads", "show", str(path)], CHECK_S)["shapes"]
    except ToolFailed as error:
        raise BadOption("--workloads: " + str(error).partition(": ")[2].removeprefix("moetune: ")) from None
    if not shapes:
        raise BadOption(f"--workloads: {path} holds no workload")
    return [(str(each["kernel"]), str(each["problem"])) for each in shapes]


def check_file(path: Path, shard: Shard) -> None:
    """Raises BadResult unless the file is sound and holds the shard's winner and nothing else."""
    try:
        run_tool(["cache", "check", "--cache", str(path)], CHECK_S)
        document = run_tool(["cache", "ls", "--cache", str(path)], CHECK_S)
    except ToolFailed as error:
        raise BadResult(f"the result is no sound pack: {error}") from None
    found = document["workloads"]
    if len(found) != 1 or not found[0]["winner"] or found[0]["damaged"]:
        raise BadResult(f"the result holds {document.get('winners', 0)} winners of {len(found)} workloads, not one")
    one = found[0]
    if (one["kernel"], one["problem"]) != (shard.kernel, shard.problem):
        raise BadResult(f"the result is of {str(one['kernel'])[:80]} {str(one['problem'])[:300]}")
    if one["recording"] or one["hardware"]["origin"] != "gpu" or one["hardware"]["key"] != shard.hardware:
        raise BadResult(f"the result is of {str(one['hardware']['key'])[:300]}, not of {shard.hardware}")


class ResultFolder:
    """INTO.fleet beside the pack: a file for each result. One driver at a time owns it."""

    def __init__(self, into: Path, settings: str) -> None:
        self.into = into
        self.settings = settings  # what results depend on beside workload and hardware
        self.folder = into.with_name(into.name + ".fleet")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """For as long as a run goes on. Raises FleetError if another does."""
        with contextlib.ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context((self.folder / "lock").open("a"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FleetError(f"another driver works on {self.into}; wait until it has ended") from None
            except OSError as error:
                raise BadOption(f"--into: cannot write and lock in {self.folder}: {error.strerror}") from None
            yield

    def require_pack(self) -> None:
        """Raises BadOption if there is something else than a sound pack at `into`."""
        if not self.into.exists():
            return
        try:
            run_tool(["cache", "check", "--cache", str(self.into)], MERGE_S)
        except ToolFailed as error:
            raise BadOption(f"--into: {error}") from None
        uri = f"file:{quote(str(self.into.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            manifest = database.execute("SELECT count(*) FROM pack").fetchone()[0]  # packs alone have one
        if not manifest:
            raise BadOption(f"--into: {self.into} is a cache, not a pack; name another file")

    def path(self, shard: Shard) -> Path:
        """Equal work has equal names, so that a driver that goes on finds what was done."""
        work = "\n".join((shard.kernel, shard.problem, shard.hardware, self.settings))
        return self.folder / f"{hashlib.sha256(work.encode()).hexdigest()[:32]}.result"

    def keep(self, shard: Shard, data: Any) -> None:
        """Checks a result and keeps it. Raises BadResult, and FleetError if the folder cannot be written."""
        if not isinstance(data, bytes):
            raise BadResult(f"the result is a {type(data).__name__[:40]}, not bytes")
        if len(data) > LARGEST_RESULT:
            raise BadResult(f"the result has {len(data)} bytes; {LARGEST_RESULT} are allowed")
        part = self.path(shard).with_suffix(".part")
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            check_file(part, shard)
            os.replace(part, self.path(shard))
        except OSError as error:
            raise FleetError(f"cannot write {part}: {error.strerror}; what is there is kept") from None
        finally:
            part.unlink(missing_ok=True)

    def has(self, shard: Shard) -> bool:
        """Whether an earlier driver kept a result. One that is not sound any more is removed."""
        with contextlib.suppress(BadResult):
            if self.path(shard).exists():
                check_file(self.path(shard), shard)
                return True
        self.path(shard).unlink(missing_ok=True)
        return False

    def merge(self, done: Sequence[Shard]) -> Any:
        """Exports all results, with the pack that is there, into one; returns the document of `cache export`."""
        merged = self.folder / "merged.db"
        files = [str(self.into)] if self.into.exists() else []
        files += [str(self.path(each)) for each in done]
        try:
            for first in range(0, len(files), FILES_A_MERGE):
                run_tool(["cache", "merge", str(merged), *files[first:first + FILES_A_MERGE]], MERGE_S)
            return run_tool(["cache", "export", str(self.into), "--cache", str(merged)], MERGE_S)
        finally:
            for left in self.folder.glob("merged.db*"):
                left.unlink()

    def clear(self, done: Sequence[Shard]) -> None:
        """Forgets the results of a run that is complete, so that the next one tunes anew."""
        for each in done:
            self.path(each).unlink(missing_ok=True)
