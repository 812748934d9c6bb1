"""The one file that calls Ray: nodes with their GPUs, a function on a node, its answer, and whether a node was lost.

Ray is imported when a cluster is opened, so that the rest of the package goes without it. Ray trusts its nodes: a node
can run code on all others. What is checked of answers (results.py) guards against broken nodes.
"""

import importlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moetune.fleet.command import BadOption, FleetError
from moetune.fleet.results import Oversized

ACCELERATOR = "accelerator_type:"
PICKLED = 4096  # bytes that an object has beside its data
CRASH_SETTLES_S = 5.0  # a worker that died may be the first that is seen of a dying node


@dataclass(frozen=True)
class ClusterNode:
    id: str
    gpus: int
    cpus: int
    accelerators: frozenset[str]  # types that Ray knows, or whoever started the node gave it


@dataclass
class Answer:
    """Of one call: a value, or why there is none."""

    call: Any
    value: Any = None
    why: str = ""
    lost: bool = False  # with the node that it ran on


def import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise FleetError("the fleet runs on Ray, which is not installed here; pip install ray") from None


def _require_listener(address: str) -> None:
    """Ray itself would try for minutes to reach a HOST:PORT at which nobody listens."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise BadOption(f"--address: nobody listens at {address}: {error}") from None


class Cluster:
    """A connection to a Ray cluster. For one thread; close() ends it."""

    def __init__(self, address: str) -> None:
        self._ray = import_ray()
        self._calls: dict[Any, tuple[str, Any, float]] = {}  # reference -> node, the bytes' reference, give up at
        self._crashed: dict[Any, tuple[str, float, str]] = {}  # reference -> node, decide at, why
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _require_listener(address)
            try:
                self._ray.init(address=address, log_to_driver=False, configure_logging=False)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise FleetError(f"--address: no Ray cluster at {address}: {str(error).splitlines()[0]}") from None

    def close(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def nodes(self) -> list[ClusterNode]:
        """Those that live and have a GPU."""
        found = []
        for node in self._ray.nodes():
            resources = node["Resources"]
            if not node["Alive"] or resources.get("GPU", 0) < 1:
                continue
            types = frozenset(name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR))
            cpus = int(resources.get("CPU", 1))
            found.append(ClusterNode(str(node["NodeID"]), int(resources["GPU"]), cpus, types))
        return sorted(found, key=lambda node: node.id)

    def put(self, data: bytes) -> Any:
        """Data for many calls."""
        return self._ray.put(data)

    def start(self, node: str, function: Callable[..., Any], *arguments: Any, with_bytes: bool = False,
              limit_s: float) -> Any:
        """Calls it on this node, with one of its GPUs. `with_bytes`: it returns a pair, the second of bytes."""
        affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        remote = self._ray.remote(function).options(
            num_returns=2 if with_bytes else 1, num_cpus=0, num_gpus=1, max_retries=0,
            scheduling_strategy=affinity(node, soft=False))
        made = remote.remote(*arguments)
        answer, data = made if with_bytes else (made, None)
        self._calls[answer] = (node, data, time.monotonic() + limit_s)
        return answer

    def forget(self, call: Any) -> None:
        self._calls.pop(call, None)
        self._crashed.pop(call, None)

    def answers(self, wait_s: float, largest: int) -> list[Answer]:
        """What has come, within `wait_s` if nothing is there yet."""
        waiting = [call for call in self._calls if call not in self._crashed]
        if not waiting:
            time.sleep(wait_s)
        ready = self._ray.wait(waiting, num_returns=1, timeout=wait_s)[0] if waiting else []
        if ready:
            ready = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]
        return [answer for answer in [self._take(call, largest) for call in ready] if answer] + self._late()

    def _take(self, call: Any, largest: int) -> Answer | None:
        node, data, _ = self._calls[call]
        errors = self._ray.exceptions
        try:
            value = self._ray.get(call, timeout=60)
            if data is not None:
                size = self._size(data)
                fetched = Oversized(size) if size > largest + PICKLED else self._ray.get(data, timeout=600)
                value = (value, fetched)
        except (errors.NodeDiedError, errors.TaskUnschedulableError) as error:
            return self._ended(call, _first_line(error), lost=True)
        except errors.RayTaskError as error:
            return self._ended(call, _first_line(error.cause if getattr(error, "cause", None) else error))
        except errors.RayError as error:
            self._crashed[call] = (node, time.monotonic() + CRASH_SETTLES_S, _first_line(error))
            return None
        except Exception as error:  # what an answer's own unpacking may throw
            return self._ended(call, f"the answer cannot be read: {_first_line(error)}")
        self.forget(call)
        return Answer(call, value)

    def _size(self, data: Any) -> int:
        """Of bytes that are not fetched yet; 0 for small ones, which came with the answer."""
        known = importlib.import_module("ray.experimental").get_object_locations([data])
        return int(known.get(data, {}).get("object_size") or 0)

    def _ended(self, call: Any, why: str, lost: bool = False) -> Answer:
        self.forget(call)
        return Answer(call, None, why, lost)

    def _late(self) -> list[Answer]:
        """Calls whose worker died, once it is known whether their node did too, and those that take too long."""
        now = time.monotonic()
        alive = {node.id for node in self.nodes()} if self._crashed else set()
        ended = []
        for call, (node, until, why) in list(self._crashed.items()):
            if node not in alive or now >= until:
                ended.append(self._ended(call, why, lost=node not in alive))
        for call, (node, _, until) in list(self._calls.items()):
            if now >= until and call not in self._crashed:
                self._ray.cancel(call, force=True)
                ended.append(self._ended(call, "it did not answer in time"))
        return ended


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]
