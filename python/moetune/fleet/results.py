"""What comes back from nodes: checked, kept in a folder, and merged into one pack by `moetune cache merge`.

A result is bytes and a claim about them. Nothing of either becomes a file name, an option or a path. The file is read
by the tool, which takes any file for an enemy's, and must hold one winner: of the workload and the hardware that were
asked for. Winners of recordings keep their mark (the hardware key's origin), are refused unless they were asked for,
and go into no pack.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from moetune.fleet.command import BadOption, FleetError, ToolFailed, run_tool

LARGEST_RESULT = 64 << 20
CHECK_S = 300.0
MERGE_S = 3600.0
BAD_INPUT = 2  # the tool's exit code
FILES_A_MERGE = 100  # all of them are open at once


class BadResult(FleetError):
    """A result that is not what was asked for."""


@dataclass(frozen=True)
class Oversized:
    """Stands for data that were not fetched, because there is too much of them."""

    bytes: int


@dataclass(frozen=True)
class Wanted:
    """One workload on one kind of hardware."""

    key: str  # of the policy's task: hexadecimal digits, made here
    kernel: str
    problem: str
    hardware: str  # the hardware key, or "recorded NAME"
    recorded: bool = False


def task_key(kernel: str, problem: str, hardware: str, settings: str) -> str:
    """Equal for equal work, so that a driver that goes on finds what was done."""
    return hashlib.sha256("\n".join((kernel, problem, hardware, settings)).encode()).hexdigest()[:32]


def check_bytes(data: Any, claim: Any, key: str, largest: int = LARGEST_RESULT) -> bytes:
    """The result's bytes, or BadResult."""
    if isinstance(data, Oversized):
        raise BadResult(f"the result has {data.bytes} bytes; {largest} are allowed")
    if not isinstance(data, bytes):
        raise BadResult(f"the result is a {type(data).__name__[:40]}, not bytes")
    if len(data) > largest:
        raise BadResult(f"the result has {len(data)} bytes; {largest} are allowed")
    if not isinstance(claim, dict) or claim.get("key") != key:
        raise BadResult("the answer is of another workload")
    if hashlib.sha256(data).hexdigest() != claim.get("sha256"):
        raise BadResult("the result's digest is not the one that was sent with it")
    return data


def _is_wanted_hardware(hardware: dict[str, Any], wanted: Wanted) -> bool:
    if wanted.recorded:
        return str(hardware["origin"]).startswith("replay:") and f"recorded {hardware['name']}" == wanted.hardware
    return bool(hardware["origin"] == "gpu" and hardware["key"] == wanted.hardware)


def check_file(path: Path, wanted: Wanted) -> None:
    """Raises BadResult unless the file is sound and holds the wanted winner and nothing else."""
    try:
        run_tool(["cache", "check", "--cache", str(path)], CHECK_S)
        document = run_tool(["cache", "ls", "--cache", str(path)], CHECK_S)
    except ToolFailed as error:
        raise BadResult(f"the result is no sound pack: {error}") from None
    found = document["workloads"]
    if len(found) != 1 or not found[0]["winner"] or found[0]["damaged"]:
        held = f"{document.get('winners', 0)} winners of {len(found)} workloads"
        raise BadResult(f"the result holds {held} instead of one")
    one = found[0]
    if (one["kernel"], one["problem"]) != (wanted.kernel, wanted.problem):
        raise BadResult(f"the result is of {str(one['kernel'])[:80]} {str(one['problem'])[:300]}")
    if one["recording"] or not _is_wanted_hardware(one["hardware"], wanted):
        raise BadResult(f"the result is of {str(one['hardware']['key'])[:300]}, not of {wanted.hardware}")


def is_pack(path: Path) -> bool:
    """Whether a sound cache file is a pack: these alone have a manifest, in the table `pack`."""
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as database:
        try:
            return bool(database.execute("SELECT count(*) FROM pack").fetchone()[0])
        except sqlite3.Error:
            return False  # an old cache has no such table


class ResultFolder:
    """Where a run keeps its results, so that a driver that was killed goes on: INTO.fleet beside the pack.

    One driver at a time owns it.
    """

    def __init__(self, into: Path) -> None:
        self.into = into
        self.folder = into.with_name(into.name + ".fleet")
        self.merged = self.folder / "merged.db"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """For as long as a run goes on. Raises FleetError if another does."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("a")
        except OSError as error:
            raise BadOption(f"--into: cannot write beside {self.into}: {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FleetError(f"another driver works on {self.into}; wait until it has ended") from None
            except OSError as error:
                raise FleetError(
                    f"locks do not work where {self.folder} lies ({error.strerror}); choose another --into"
                ) from None
            yield

    def path(self, wanted: Wanted) -> Path:
        return self.folder / f"{wanted.key}.result"

    def keep(self, wanted: Wanted, data: Any, claim: Any, largest: int = LARGEST_RESULT, copy: bool = False) -> None:
        """Checks a result and keeps it; a second one of a workload is a `copy`, and the merge decides between both.

        Raises BadResult, and FleetError if the folder cannot be written.
        """
        checked = check_bytes(data, claim, wanted.key, largest)
        path = self._copy(wanted) if copy else self.path(wanted)
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                file.write(checked)
                file.flush()
                os.fsync(file.fileno())
            check_file(part, wanted)
            os.replace(part, path)
        except OSError as error:
            raise FleetError(f"cannot write {part}: {error.strerror}; what is there is kept") from None
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, wanted: Wanted) -> Path:
        return self.folder / f"{wanted.key}.copy"

    def has(self, wanted: Wanted) -> bool:
        """Whether an earlier driver kept a result. One that is not sound any more is removed."""
        path = self.path(wanted)
        if not path.exists():
            return False
        try:
            check_file(path, wanted)
            return True
        except BadResult:
            path.unlink(missing_ok=True)
            return False

    def merge(self, done: Sequence[Wanted]) -> dict[str, Any]:
        """Everything into merged.db by the laws of `cache merge`, beginning with the pack that is there; then the pack.

        Recorded winners stay in merged.db, marked; without winners of GPUs there is no pack.
        """
        for left in self.folder.glob("merged.db*"):
            left.unlink()
        counts = {"winners_added": 0, "winners_replaced": 0, "winners_kept": 0, "winners_equal": 0}
        duels: list[Any] = []
        files = [str(self.path(each)) for each in done]
        files += [str(self._copy(each)) for each in done if self._copy(each).exists()]
        if self.into.exists():
            files.insert(0, str(self.into))
        for first in range(0, len(files), FILES_A_MERGE):
            merged = run_tool(["cache", "merge", str(self.merged), *files[first:first + FILES_A_MERGE]], MERGE_S)
            for name in counts:
                counts[name] += merged[name]
            duels += merged["duels"]
        measured = any(not each.recorded for each in done)
        pack = None
        if measured or self.into.exists():
            try:
                pack = run_tool(["cache", "export", str(self.into), "--cache", str(self.merged)], MERGE_S)
            except ToolFailed as error:
                if error.code != BAD_INPUT:
                    raise
                return {**counts, "duels": duels, "pack": None, "why_no_pack": str(error)}  # all are contended
        return {**counts, "duels": duels, "pack": pack}

    def clear(self, done: Sequence[Wanted]) -> None:
        """Forgets the results of a run that is complete, so that the next one tunes anew. merged.db stays."""
        for each in done:
            self.path(each).unlink(missing_ok=True)
            self._copy(each).unlink(missing_ok=True)

    def seconds_by_kernel(self) -> dict[str, float]:
        """What a workload of each kernel took on average in earlier runs. A hint, which may be missing."""
        try:
            stored = json.loads((self.folder / "seconds.json").read_text())
            return {str(kernel): max(0.001, float(seconds)) for kernel, seconds in stored.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def keep_seconds(self, by_kernel: dict[str, float]) -> None:
        part = self.folder / "seconds.json.part"
        part.write_text(text_of(by_kernel))
        os.replace(part, self.folder / "seconds.json")


def read_workloads(path: Path) -> list[dict[str, Any]]:
    """The single shapes of a list, heaviest first, as `moetune workloads show` has them."""
    try:
        shapes = run_tool(["workloads", "show", str(path)], CHECK_S)["shapes"]
    except ToolFailed as error:
        raise BadOption("--workloads: " + str(error).partition(": ")[2].removeprefix("moetune: ")) from None
    if not shapes:
        raise BadOption(f"--workloads: {path} holds no workload")
    return [{"kernel": str(each["kernel"]), "problem": str(each["problem"]), "weight": float(each["weight"])}
            for each in shapes]


def text_of(document: Any) -> str:
    """For files and for people."""
    return json.dumps(document, indent=2) + "\n"
