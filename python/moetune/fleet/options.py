"""What a run of the fleet is asked for, and what it hands back. Plain data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moetune.fleet.policy import Limits
from moetune.fleet.results import LARGEST_RESULT


@dataclass(frozen=True)
class FleetOptions:
    workloads: Path  # a list (docs/workloads.md)
    into: Path  # the pack; results are kept in INTO.fleet beside it until all are there
    address: str = "auto"  # of the Ray cluster, as ray.init takes it
    accelerators: tuple[str, ...] = ()  # Ray's accelerator types, "H100"; empty: all nodes with a GPU
    budget: int = 200  # trials of each workload
    task_time_s: float = 3600.0  # one search ends after it
    wait_s: float = 300.0  # how long to wait for a node when none can go on
    install: str = ""  # where each host is to have the pack, $NAME and ~ of the host; empty: nowhere
    sign_key: Path | None = None  # a secret key (docs/sync.md) that signs the pack; the signature goes with it to hosts
    first: int = 1  # hosts of each hardware that install and duel before all others
    duels: int = 8  # workloads that they duel, heaviest first
    allow_recorded: bool = False  # for tests without a GPU: nodes replay recordings, of which no pack is made
    largest_result: int = LARGEST_RESULT  # bytes
    limits: Limits = Limits()


@dataclass
class Rollout:
    installed: list[str] = field(default_factory=list)  # hosts
    restored: list[str] = field(default_factory=list)  # those that went back
    failed: dict[str, str] = field(default_factory=dict)  # host -> why
    agreed: bool = False  # all of the first did


@dataclass
class Summary:
    done: int = 0
    resumed: int = 0  # of these, by an earlier driver
    given_up: dict[str, str] = field(default_factory=dict)  # workload -> why
    not_reached: list[str] = field(default_factory=list)
    nodes_lost: int = 0
    losses: int = 0  # workloads that ran on them, and ran again
    duplicates: int = 0
    refused: list[str] = field(default_factory=list)  # results, with the reason
    set_aside: dict[str, str] = field(default_factory=dict)  # nodes that failed again and again
    merged: dict[str, Any] = field(default_factory=dict)  # as ResultFolder.merge returns it
    rollout: Rollout | None = None

    def complete(self) -> bool:
        return not self.given_up and not self.not_reached and (
            self.rollout is None or (self.rollout.agreed and not self.rollout.failed))
