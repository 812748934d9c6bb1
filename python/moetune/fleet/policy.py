"""Which workload runs on which node: the one place that decides it, for the driver on Ray as for the simulation.

Pure: no clock, no network, no randomness; equal calls give equal answers. Not thread-safe.

- A workload is tuned once for each kind of hardware, and again only after a loss, a failure or a refused result.
- Longest first, by the average of the group (the kernel), which is learnt as results come; a group of which nothing is
  known goes first. Within a group the most valuable first; of equal value the smaller key.
- A lost node costs what ran on it. A workload that failed goes to another node of the same hardware if there is one.
- A node that fails several workloads in a row gets no more: a broken GPU would fail them faster than others tune. What
  failed there does not count against the workloads.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class Task:
    """A workload on one kind of hardware."""

    key: str
    hardware: str
    group: str = ""  # of workloads that take about equally long
    value: float = 1.0


@dataclass(frozen=True)
class Limits:
    failures: int = 4  # of one workload, then it is given up
    losses: int = 8  # of nodes under one workload: it may be what ends them
    node_failures: int = 3  # of one node in a row, then it gets nothing more


@dataclass(frozen=True)
class Assignment:
    task: Task
    node: str


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    GIVEN_UP = "given up"


@dataclass
class _Record:
    task: Task
    state: State = State.WAITING
    node: str = ""
    failed_on: list[str] = field(default_factory=list)  # nodes, but for those that were set aside
    tried: set[str] = field(default_factory=set)  # nodes on which it failed
    losses: int = 0
    starts: int = 0
    why: str = ""


@dataclass
class _Node:
    hardware: str
    slots: int
    running: set[str] = field(default_factory=set)
    failures_in_a_row: int = 0
    last_failure: str = ""
    failed: set[str] = field(default_factory=set)  # workloads


@dataclass
class _Average:
    sum_s: float = 0.0
    count: int = 0


class Policy:
    """Tasks, nodes, and what runs where."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self._limits = limits
        self._records: dict[str, _Record] = {}
        self._nodes: dict[str, _Node] = {}
        self._set_aside: dict[str, str] = {}  # node -> why
        self._waiting: dict[str, dict[str, list[tuple[float, str]]]] = {}  # hardware -> group -> heap
        self._idle: dict[str, dict[str, None]] = {}  # hardware -> nodes with a free slot, in order of coming free
        self._averages: dict[str, _Average] = {}  # by group
        self._counts = {state: 0 for state in State}
        self.duplicates = 0
        self.losses = 0

    def expect(self, group: str, seconds: float) -> None:
        """How long one took, here or in an earlier run."""
        average = self._averages.setdefault(group, _Average())
        average.sum_s += seconds
        average.count += 1

    def expected(self) -> dict[str, float]:
        """The average seconds of each group of which any is known."""
        return {group: average.sum_s / average.count for group, average in self._averages.items()}

    def add(self, task: Task) -> None:
        """A key that is known already is ignored."""
        if task.key in self._records:
            return
        self._records[task.key] = _Record(task)
        self._counts[State.WAITING] += 1
        self._push(task)

    def join(self, node: str, hardware: str, slots: int = 1) -> None:
        """A node that can run `slots` workloads at once. One that was set aside stays so."""
        if node in self._nodes or node in self._set_aside:
            return
        self._nodes[node] = _Node(hardware, slots)
        self._idle.setdefault(hardware, {})[node] = None

    def lose(self, node: str) -> list[Task]:
        """The node is gone; returns what ran there, which waits again, or is given up after too many losses."""
        gone = self._remove(node)
        records = [self._records[key] for key in sorted(gone.running)] if gone is not None else []
        lost = [record for record in records if record.state is State.RUNNING and record.node == node]
        for record in lost:
            self.losses += 1
            record.losses += 1
            self._again(record, record.losses >= self._limits.losses, "its nodes were lost, again and again")
        return [record.task for record in lost]

    def assign(self) -> list[Assignment]:
        """What is to be started now; it counts as running from here on."""
        chosen: list[Assignment] = []
        expected = self.expected()
        for hardware, groups in self._waiting.items():
            idle = self._idle.get(hardware, {})
            deferred = []
            while idle:
                record = self._next(groups, expected)
                if record is None:
                    break
                node = self._node_for(record, idle)
                if node is None:
                    deferred.append(record)
                    continue
                self._start(record, node, idle)
                chosen.append(Assignment(record.task, node))
            for record in deferred:
                self._push(record.task)
        return chosen

    def done(self, key: str, node: str) -> bool:
        """A result came, from anywhere. False if there was one already: a duplicate, which changes nothing."""
        record = self._records[key]
        if node in self._nodes:
            self._nodes[node].failures_in_a_row = 0
        self._free(record, node)
        if record.state is State.DONE:
            self.duplicates += 1
            return False
        self._set(record, State.DONE)  # a copy that runs elsewhere goes on, and its result will be the duplicate
        record.why = ""
        return True

    def failed(self, key: str, node: str, why: str, blame_node: bool = True) -> None:
        """It ended without a result. `blame_node`: another node may well succeed, so this one is watched."""
        record = self._records[key]
        runs_here = record.state is State.RUNNING and record.node == node
        self._free(record, node)
        if blame_node:
            self._watch(node, key, why)
        if not runs_here:
            return  # of an attempt that was counted as lost
        record.tried.add(node)
        if node not in self._set_aside:
            record.failed_on.append(node)
        hopeless = not blame_node and not self._untried(record)
        self._again(record, hopeless or len(record.failed_on) >= self._limits.failures, why)

    def finished(self) -> bool:
        return self._counts[State.WAITING] + self._counts[State.RUNNING] == 0

    def stuck(self) -> bool:
        """Something waits, nothing runs, and no node can take it: it waits for another node."""
        return not self.finished() and self._counts[State.RUNNING] == 0 and not any(
            self._idle.get(hardware) and any(self._records[key].state is State.WAITING
                                             for heap in groups.values() for _, key in heap)
            for hardware, groups in self._waiting.items())

    def count(self, state: State) -> int:
        return self._counts[state]

    def state(self, key: str) -> State:
        return self._records[key].state

    def starts(self, key: str) -> int:
        return self._records[key].starts

    def why(self, key: str) -> str:
        return self._records[key].why

    def tasks(self, state: State) -> list[Task]:
        return [record.task for record in self._records.values() if record.state is state]

    def nodes(self) -> Iterable[str]:
        return self._nodes.keys()

    def hardware_of(self, node: str) -> str:
        return self._nodes[node].hardware

    def set_aside(self) -> dict[str, str]:
        """Nodes that get nothing more, with the last failure of each."""
        return dict(self._set_aside)

    def _push(self, task: Task) -> None:
        heap = self._waiting.setdefault(task.hardware, {}).setdefault(task.group, [])
        heapq.heappush(heap, (-task.value, task.key))

    def _next(self, groups: dict[str, list[tuple[float, str]]], expected: dict[str, float]) -> _Record | None:
        """Takes what is to go first out of its heap."""
        best: tuple[float, tuple[float, str]] | None = None
        chosen: list[tuple[float, str]] = []
        for group, heap in groups.items():
            while heap and self._records[heap[0][1]].state is not State.WAITING:
                heapq.heappop(heap)  # its result came meanwhile
            rank = (-expected.get(group, float("inf")), heap[0]) if heap else None
            if rank is not None and (best is None or rank < best):
                best, chosen = rank, heap
        return self._records[heapq.heappop(chosen)[1]] if best is not None else None

    def _set(self, record: _Record, state: State) -> None:
        self._counts[record.state] -= 1
        self._counts[state] += 1
        record.state = state

    def _start(self, record: _Record, node: str, idle: dict[str, None]) -> None:
        self._set(record, State.RUNNING)
        record.node = node
        record.starts += 1
        running = self._nodes[node].running
        running.add(record.task.key)
        if len(running) >= self._nodes[node].slots:
            del idle[node]

    def _untried(self, record: _Record) -> bool:
        return any(node not in record.tried and of.slots > 0 and of.hardware == record.task.hardware
                   for node, of in self._nodes.items())

    def _node_for(self, record: _Record, idle: dict[str, None]) -> str | None:
        """The one that has been free for longest; after a failure another, and rather one that failed nothing."""
        if not record.tried or not self._untried(record):
            return next(iter(idle))
        others = [node for node in idle if node not in record.tried]
        return min(others, key=lambda node: self._nodes[node].failures_in_a_row, default=None)

    def _free(self, record: _Record, node: str) -> None:
        of = self._nodes.get(node)
        if of is not None and record.task.key in of.running:
            of.running.discard(record.task.key)
            if len(of.running) < of.slots:
                self._idle[of.hardware][node] = None

    def _again(self, record: _Record, give_up: bool, why: str) -> None:
        record.why = why
        if record.state is not State.RUNNING:
            return
        self._set(record, State.GIVEN_UP if give_up else State.WAITING)
        if not give_up:
            self._push(record.task)

    def _remove(self, node: str) -> _Node | None:
        gone = self._nodes.pop(node, None)
        if gone is not None:
            self._idle[gone.hardware].pop(node, None)
        return gone

    def _watch(self, node: str, key: str, why: str) -> None:
        of = self._nodes.get(node)
        if of is None:
            return
        of.failures_in_a_row += 0 if of.last_failure == key else 1
        of.last_failure = key
        of.failed.add(key)
        if of.failures_in_a_row < self._limits.node_failures:
            return
        self._set_aside[node] = why
        self._idle[of.hardware].pop(node, None)
        of.slots = 0  # what still runs there goes on, and its result counts
        for other in sorted(of.failed):
            self._forgive(self._records[other], node)

    def _forgive(self, record: _Record, node: str) -> None:
        """Its failures on a node that was set aside were the node's."""
        if node not in record.failed_on:
            return
        record.failed_on = [each for each in record.failed_on if each != node]
        if record.state is State.GIVEN_UP:
            self._set(record, State.WAITING)
            self._push(record.task)
