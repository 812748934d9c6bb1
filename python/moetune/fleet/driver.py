"""Tunes a list of workloads on a Ray cluster: nodes with their GPUs, a function on a node, its answer, and retries.

Ray trusts its nodes: each can run code on all others. The checks of answers (results.py) guard against broken ones.
"""

import importlib
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moetune._version import __version__
from moetune.fleet import worker
from moetune.fleet.command import FleetError, ToolFailed
from moetune.fleet.placement import Placement, Shard
from moetune.fleet.results import BadResult, ResultFolder, read_workloads

ACCELERATOR = "accelerator_type:"
SILENT_WAIT = 5.0  # seconds, in which more nodes may join; then it is said once that none can go on
CRASH_SETTLES = 5.0  # seconds: a worker that died may be the first sign of a dying node


@dataclass(frozen=True)
class FleetOptions:
    workloads: Path  # a list (docs/workloads.md)
    into: Path  # the pack; results are kept in INTO.fleet beside it until all are there
    address: str = "auto"  # of the Ray cluster, as ray.init takes it
    accelerators: tuple[str, ...] = ()  # Ray's accelerator types, "H100"; empty: all nodes with a GPU
    budget: int = 200  # trials of each workload
    task_time_s: float = 3600.0  # one search ends after it
    wait_s: float = 300.0  # how long to wait for a node when none can go on


@dataclass
class Summary:
    done: int = 0
    resumed: int = 0  # of these, by an earlier driver
    given_up: dict[str, str] = field(default_factory=dict)  # workload -> why
    not_reached: list[str] = field(default_factory=list)
    nodes_lost: int = 0
    left_out: dict[str, str] = field(default_factory=dict)  # nodes that get nothing, or nothing more -> why
    pack: Any = None  # as `moetune cache export --json` prints it; None: see why_no_pack
    why_no_pack: str = "nothing is tuned"

    def complete(self) -> bool:
        return not self.given_up and not self.not_reached and self.pack is not None


def printable(text: str) -> str:
    """Escapes what a terminal would obey: names come from nodes and files of others."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def to_stderr(line: str) -> None:
    """Prints a line of progress."""
    print(printable(line), file=sys.stderr, flush=True)


def tune(options: FleetOptions, listener: Callable[[str], None] = to_stderr) -> Summary:
    """Raises FleetError for a wrong list, option or cluster. What one workload or node does is in the summary."""
    return Fleet(options, listener).run()


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


class Fleet:
    """One run."""

    run_on_node: Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]] = staticmethod(worker.tune)

    def __init__(self, options: FleetOptions, listener: Callable[[str], None]) -> None:
        self._options = options
        self._listener = listener
        self._folder = ResultFolder(options.into, f"{__version__} budget={options.budget}")
        self._placement = Placement()
        self._summary = Summary()
        self._known: dict[str, dict[str, float]] = {}  # nodes that live and are not left out -> Ray's resources
        self._gone: set[str] = set()  # Ray lists a lost node for a while; one that comes back has another id
        self._resting: dict[str, float] = {}  # nodes on which a worker died -> until when nothing is started there
        self._hardware: set[str] = set()
        self._calls: dict[Any, tuple[str, Shard | None, float]] = {}  # -> node, None if a probe, when to give up
        self._done: list[Shard] = []
        self._began = time.monotonic()

    def run(self) -> Summary:
        self._workloads = read_workloads(self._options.workloads)
        with self._folder.locked():
            self._folder.require_pack()
            self._connect()
            self._tune_all()
            self._report()
            if self._summary.complete():
                self._folder.clear(self._done)
        return self._summary

    def _connect(self) -> None:
        """To the cluster, for the life of this process; one that is connected stays where it is."""
        try:
            self._ray = importlib.import_module("ray")
        except ImportError:
            raise FleetError("the fleet runs on Ray, which is not installed here; pip install ray") from None
        address = self._options.address
        host, _, port = address.rpartition(":")
        try:
            if host and port.isdigit() and "/" not in host:  # Ray would try for minutes if nobody listens there
                socket.create_connection((host, int(port)), timeout=10).close()
            self._ray.init(address=address, log_to_driver=False, configure_logging=False, ignore_reinit_error=True)
        except (RuntimeError, ValueError, OSError, OverflowError) as error:
            raise FleetError(f"--address: no Ray cluster at {address}: {_first_line(error)}") from None

    def _tune_all(self) -> None:
        idle_since, is_said = time.monotonic(), False
        while True:
            self._look_at_nodes()
            now = time.monotonic()
            for shard, node in self._placement.assign({node for node, end in self._resting.items() if now < end}):
                self._start_shard(shard, node)
            if self._hardware and not self._calls and not self._placement.waiting:
                return
            idle_since = now if self._calls else idle_since
            idle_s = now - idle_since
            if idle_s > self._options.wait_s:
                return self._end(f"none that can go on came within {self._options.wait_s:.0f} s")
            if idle_s > SILENT_WAIT and self._summary.left_out and not self._known and not self._gone:
                return self._end("all that are there are left out")
            if idle_s > SILENT_WAIT and not is_said:
                self._say(f"No node can go on; waiting for one, up to {self._options.wait_s:.0f} s.")
            is_said = idle_s > SILENT_WAIT
            self._take_answers(1.0)

    def _end(self, after: str) -> None:
        """Ends a run that no node can go on with: an error if there never was one."""
        why = "".join(f"; node {node[:8]}: {why}" for node, why in list(self._summary.left_out.items())[:1])
        if not self._hardware:
            types = ", ".join(self._options.accelerators) or "any type"
            raise FleetError(f"the cluster has no node with a GPU ({types}) that moetune can use: {after}{why}")
        self._say(f"No node can go on: {after}{why}. The same command goes on later.")

    def _look_at_nodes(self) -> None:
        types = {ACCELERATOR + each for each in self._options.accelerators}
        alive = {str(node["NodeID"]): node["Resources"] for node in self._ray.nodes()
                 if node["Alive"] and node["Resources"].get("GPU", 0) >= 1
                 and (not types or not types.isdisjoint(node["Resources"])) and node["NodeID"] not in self._gone}
        for node in sorted(self._known.keys() - alive.keys()):
            self._lose(node)
        for node in sorted(alive.keys() - self._known.keys() - self._summary.left_out.keys()):
            self._known[node] = alive[node]
            self._start(node, None, 3 * worker.QUERY_S, worker.probe)

    def _lose(self, node: str) -> None:
        del self._known[node]
        self._gone.add(node)
        self._placement.leave(node)
        self._summary.nodes_lost += 1
        self._say(f"Node {node[:8]} is gone")
        for reference in [each for each, call in self._calls.items() if call[0] == node]:
            _, shard, _ = self._calls.pop(reference)
            if shard is not None:
                self._failed(shard, node, "its node was lost")

    def _start(self, node: str, shard: Shard | None, limit_s: float, function: Any, *arguments: Any) -> None:
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        remote = self._ray.remote(num_cpus=0, num_gpus=1, max_retries=0, scheduling_strategy=affinity)(function)
        self._calls[remote.remote(*arguments)] = node, shard, time.monotonic() + limit_s

    def _start_shard(self, shard: Shard, node: str) -> None:
        options, resources = self._options, self._known[node]
        threads = max(1, min(16, int(resources.get("CPU", 1) // resources["GPU"])))
        request = {"kernel": shard.kernel, "problem": shard.problem, "hardware": shard.hardware, "threads": threads,
                   "budget": options.budget, "time_s": options.task_time_s}
        self._start(node, shard, 2 * options.task_time_s + 6 * worker.QUERY_S, type(self).run_on_node, request)

    def _take_answers(self, wait_s: float) -> None:
        """Those that have come, within `wait_s` if nothing is there yet."""
        if not self._calls:
            time.sleep(wait_s)
            return
        ready = self._ray.wait(list(self._calls), timeout=wait_s)[0]
        ready += [each for each, call in self._calls.items() if call[2] <= time.monotonic() and each not in ready]
        for reference in ready:
            node, shard, end = self._calls.pop(reference)
            value, why = self._answer(reference, node, 60 if end > time.monotonic() else 0)
            if shard is None:
                self._take_probe(node, value if isinstance(value, dict) else {"why": why})
            elif why:
                self._failed(shard, node, why)
            else:
                self._take_result(shard, node, value)

    def _answer(self, reference: Any, node: str, timeout_s: float) -> tuple[Any, str]:
        """A call's value, or why there is none."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=timeout_s), ""
        except errors.GetTimeoutError:
            self._ray.cancel(reference, force=True)
            return None, "it did not answer in time"
        except errors.RayTaskError as error:
            return None, _first_line(getattr(error, "cause", None) or error)
        except errors.RayError as error:  # the worker process died, or its node
            self._resting[node] = time.monotonic() + CRASH_SETTLES
            return None, _first_line(error)
        except Exception as error:  # what an answer's own unpacking may throw
            return None, f"the answer cannot be read: {_first_line(error)}"

    def _take_probe(self, node: str, found: dict[str, Any]) -> None:
        why = str(found.get("why") or "its answer makes no sense")
        if found.get("status") == "ok" and found.get("version") != __version__:
            why = f"it has moetune {str(found.get('version'))[:80]}, and the driver {__version__}"
        elif found.get("status") == "ok" and isinstance(found.get("hardware"), str):
            return self._join(node, found["hardware"][:1000])
        self._leave_out(node, why)

    def _leave_out(self, node: str, why: str) -> None:
        self._placement.leave(node)
        self._known.pop(node, None)
        self._summary.left_out[node] = why[:500]
        self._say(f"Node {node[:8]} is left out: {why[:500]}")

    def _join(self, node: str, hardware: str) -> None:
        if hardware not in self._hardware:
            self._hardware.add(hardware)
            for rank, (kernel, problem) in enumerate(self._workloads):
                shard = Shard(rank, hardware, kernel, problem)
                if self._folder.has(shard):
                    self._done.append(shard)
                    self._summary.resumed += 1
                else:
                    self._placement.add(shard)
            self._say(f"{hardware}: {len(self._workloads)} workloads")
        self._placement.join(node, hardware, int(self._known[node]["GPU"]))

    def _take_result(self, shard: Shard, node: str, answer: Any) -> None:
        try:
            claim, data = answer
            if claim["status"] != "ok":
                return self._failed(shard, node, str(claim["why"])[:500], claim["status"] == "broken")
            self._folder.keep(shard, data)
        except BadResult as error:
            return self._failed(shard, node, f"its result was refused: {error}")
        except (KeyError, TypeError, ValueError):
            return self._failed(shard, node, "its answer makes no sense")
        self._placement.done(node)
        self._done.append(shard)
        time_us = claim.get("time_us")
        self._say(f"{shard}: " + (f"{time_us:.4g} us" if isinstance(time_us, float) else "tuned"))

    def _failed(self, shard: Shard, node: str, why: str, blame_node: bool = True) -> None:
        leaves = self._placement.failed(shard, node, why, blame_node)
        self._say(f"{shard} {'is given up' if shard in self._placement.given_up else 'runs again'}: {why}")
        if leaves:
            self._leave_out(node, why)

    def _report(self) -> None:
        summary = self._summary
        summary.done = len(self._done)
        summary.given_up = {str(shard): why for shard, why in self._placement.given_up.items()}
        summary.not_reached = [str(shard) for shard in self._placement.waiting]
        if self._done:
            try:
                summary.pack = self._folder.merge(self._done)
            except ToolFailed as error:
                summary.why_no_pack = str(error)

    def _say(self, what: str) -> None:
        running = sum(shard is not None for _, shard, _ in self._calls.values())
        seconds = round(time.monotonic() - self._began)
        self._listener(f"{len(self._done)}/{len(self._workloads) * len(self._hardware)} done, {running} running on"
                       f" {len(self._known)} nodes, {seconds // 60}:{seconds % 60:02} so far  {what}")
