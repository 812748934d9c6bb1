"""fleet_simulation.py [WORKERS [WORKLOADS_A_WORKER [SEED]]]: the fleet's own policy on a made-up cluster.

The policy is python/moetune/fleet/policy.py itself, as the driver on Ray uses it. Made up are the durations, and what
goes wrong: nodes that are lost under a workload and replaced later, workloads that fail, GPUs that fail everything, and
results that come twice. Exit code 1 if a bar is missed (docs/fleet.md).
"""

import heapq
import importlib.util
import itertools
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _load_policy() -> Any:
    """Without the package, whose library need not be built."""
    path = Path(__file__).resolve().parent.parent / "python/moetune/fleet/policy.py"
    spec = importlib.util.spec_from_file_location("fleet_policy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fleet_policy"] = module
    spec.loader.exec_module(module)
    return module


policy = _load_policy()

KERNEL_S = (11.0, 20.0, 40.0, 75.0)  # what a search takes on average, by kernel
SPREAD = 0.3  # of the logarithm of a search's time around that
TOLERATED = 1.10


@dataclass(frozen=True)
class Trouble:
    name: str
    node_lost: float = 0.0  # probability for each search
    workload_fails: float = 0.0  # for each search
    twice: float = 0.0  # that a result comes a second time
    broken_nodes: float = 0.0  # share of nodes on which all fails, after two seconds
    away_s: float = 60.0  # until a lost node is replaced
    times_known: bool = True  # the average of each kernel, from earlier runs


TROUBLES = (
    Trouble("calm"),
    Trouble("failures", node_lost=0.005, workload_fails=0.01, twice=0.01, broken_nodes=0.005),
    Trouble("many failures", node_lost=0.02, workload_fails=0.02, twice=0.02, broken_nodes=0.02),
    Trouble("failures, times unknown", node_lost=0.005, workload_fails=0.01, twice=0.01, broken_nodes=0.005,
            times_known=False),
)


@dataclass
class Run:
    """One simulated run. Events are (time, number, what, node, key)."""

    trouble: Trouble
    workers: int
    seed: int
    durations: dict[str, float] = field(default_factory=dict)
    kernel_s: dict[str, float] = field(default_factory=dict)
    now: float = 0.0
    lost_s: float = 0.0  # of searches that came to nothing
    unexplained: int = 0  # starts without a loss or a failure before
    events: list[tuple[float, int, str, str, str]] = field(default_factory=list)
    to_nothing: dict[str, int] = field(default_factory=dict)  # searches of each workload
    began: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.policy = policy.Policy()
        self.broken: set[str] = set()
        self.numbers = itertools.count()
        self.made = 0
        if self.trouble.times_known:
            for kernel_s in KERNEL_S:
                self.policy.expect(str(kernel_s), kernel_s)

    def at(self, after_s: float, what: str, node: str, key: str = "") -> None:
        heapq.heappush(self.events, (self.now + after_s, next(self.numbers), what, node, key))

    def new_node(self, hardware: str) -> None:
        self.made += 1
        node = f"node{self.made:06}"
        if self.random.random() < self.trouble.broken_nodes:
            self.broken.add(node)
        self.policy.join(node, hardware)

    def add_workloads(self, count: int, hardware: str) -> None:
        for index in range(count):
            key, kernel_s = f"{hardware}{index:08}", self.random.choice(KERNEL_S)
            self.kernel_s[key] = kernel_s
            self.durations[key] = kernel_s * self.random.lognormvariate(0, SPREAD)
            self.policy.add(policy.Task(key, hardware, str(kernel_s), self.random.random()))

    def start(self, key: str, node: str) -> None:
        self.unexplained += self.policy.starts(key) - 1 != self.to_nothing.get(key, 0)
        self.began[(key, node)] = self.now
        takes, dice = self.durations[key], self.random.random()
        if node in self.broken:
            self.at(2.0, "fails", node, key)
        elif dice < self.trouble.node_lost:
            self.at(takes * self.random.random(), "lost", node, key)
        elif dice < self.trouble.node_lost + self.trouble.workload_fails:
            self.at(takes * self.random.random(), "fails", node, key)
        else:
            self.at(takes, "done", node, key)
            if self.random.random() < self.trouble.twice:
                self.at(takes + 30 * self.random.random(), "again", node, key)

    def happen(self, what: str, node: str, key: str) -> None:
        spent = self.now - self.began.get((key, node), self.now)
        if what in ("lost", "fails"):
            self.lost_s += spent
            self.to_nothing[key] = self.to_nothing.get(key, 0) + 1
        if what in ("done", "again"):
            if self.policy.done(key, node):
                self.policy.expect(str(self.kernel_s[key]), spent)
        elif what == "fails":
            self.policy.failed(key, node, "it failed")
        elif what == "lost":
            self.policy.lose(node)
            self.at(self.trouble.away_s, "joins", key[:1])
        else:
            self.new_node(node)

    def to_the_end(self) -> float:
        """The time of the last result."""
        while True:
            for each in self.policy.assign():
                self.start(each.task.key, each.node)
            if self.policy.finished() or not self.events:
                return self.now
            self.now, _, what, node, key = heapq.heappop(self.events)
            self.happen(what, node, key)


def simulate(trouble: Trouble, workers: int, each: int, seed: int) -> bool:
    """Prints a row; whether all bars are met."""
    run = Run(trouble, workers, seed)
    kinds = ("A", "B") if workers > 1 else ("A",)  # of hardware, half of the workers each
    for index, kind in enumerate(kinds):
        count = workers // len(kinds) + (index < workers % len(kinds))
        for _ in range(count):
            run.new_node(kind)
        run.add_workloads(count * each, kind)
    total = run.to_the_end()
    states = policy.State
    done, given_up = run.policy.count(states.DONE), run.policy.count(states.GIVEN_UP)
    missing = len(run.durations) - done
    ideal = max(sum(run.durations.values()) / workers, max(run.durations.values()))
    bar = TOLERATED * ideal + run.lost_s / workers
    met = missing == 0 and run.unexplained == 0 and total <= bar
    again = sum(run.policy.starts(key) > 1 for key in run.durations)
    lost_s = run.lost_s / workers
    print(f"| {trouble.name} | {len(run.durations):,} | {run.policy.losses} | {again} | {missing} | {given_up} "
          f"| {run.unexplained} | {run.policy.duplicates} | {total:.0f} s | {ideal:.0f} s | {lost_s:.1f} s "
          f"| {100 * ((total - lost_s) / ideal - 1):+.1f}% {'' if met else 'MISSED'} |")
    return met


def main() -> int:
    workers, each, seed = (int(word) for word in (sys.argv[1:] + ["1000", "20", "1"][len(sys.argv) - 1:])[:3])
    print(f"{workers:,} workers, {each} workloads each, seed {seed}")
    print("| what | workloads | losses | ran again | not tuned | given up | ran again without a reason | came twice "
          "| total | ideal | lost work a worker | over ideal, without lost work |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    return 0 if all([simulate(trouble, workers, each, seed) for trouble in TROUBLES]) else 1


if __name__ == "__main__":
    sys.exit(main())
