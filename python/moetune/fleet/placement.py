"""Decides which workload runs on which node. No clock, no network; not thread-safe."""

import bisect
from dataclasses import dataclass, field

ATTEMPTS = 4  # searches of one workload that failed or were lost; then it is given up
NODE_FAILURES = 3  # different workloads that one node fails in a row; then it gets nothing more


@dataclass(frozen=True, order=True)
class Shard:
    """A workload on one kind of hardware; sorted by what goes first."""

    rank: int  # its place in the list, heaviest first
    hardware: str  # the hardware key
    kernel: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kernel} {self.problem} on {self.hardware.partition(',')[0]}"


@dataclass
class _Node:
    hardware: str
    free: int  # GPUs
    failed: set[Shard] = field(default_factory=set)  # since its last success


class Placement:
    """Heaviest first, to the node that has been free for longest. What failed goes last, to another node if it can."""

    def __init__(self) -> None:
        self.waiting: list[Shard] = []  # sorted
        self.given_up: dict[Shard, str] = {}  # with the last reason
        self._nodes: dict[str, _Node] = {}  # the one that has been free for longest first
        self._tried: dict[Shard, list[str]] = {}  # nodes on which it failed or was lost

    def add(self, shard: Shard) -> None:
        bisect.insort(self.waiting, shard, key=lambda each: (len(self._tried.get(each, ())), each))

    def join(self, node: str, hardware: str, gpus: int) -> None:
        self._nodes[node] = _Node(hardware, gpus)

    def leave(self, node: str) -> None:
        """Nothing more goes there. What runs there ends by done() or failed() as elsewhere."""
        self._nodes.pop(node, None)

    def assign(self, resting: set[str]) -> list[tuple[Shard, str]]:
        """The shards to start now, each with its node; nodes in `resting` get nothing yet."""
        chosen = []
        for shard in list(self.waiting):
            node = self._node_for(shard, resting)
            if node is not None:
                self.waiting.remove(shard)
                self._nodes[node].free -= 1
                chosen.append((shard, node))
        return chosen

    def done(self, node: str) -> None:
        if node in self._nodes:
            self._nodes[node].failed.clear()
            self._release(node)

    def failed(self, shard: Shard, node: str, why: str, blame_node: bool) -> bool:
        """A search ended without a result. `blame_node`: another node may well succeed, so this one is watched.

        Returns whether the node failed so often that it should leave.
        """
        tried = self._tried.setdefault(shard, [])
        tried.append(node)
        if len(tried) < ATTEMPTS:
            self.add(shard)
        else:
            self.given_up[shard] = why
        if node not in self._nodes:
            return False
        self._release(node)
        if blame_node:
            self._nodes[node].failed.add(shard)
        return len(self._nodes[node].failed) >= NODE_FAILURES

    def _release(self, node: str) -> None:
        self._nodes[node] = self._nodes.pop(node)
        self._nodes[node].free += 1

    def _node_for(self, shard: Shard, resting: set[str]) -> str | None:
        mine = [node for node, of in self._nodes.items() if of.hardware == shard.hardware]
        tried = self._tried.get(shard, ())
        untried = [node for node in mine if node not in tried]  # waited for, if they are busy
        return next((node for node in untried or mine if self._nodes[node].free and node not in resting), None)
