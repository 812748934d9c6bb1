"""A list of workloads tuned by a cluster of GPUs that Ray manages (docs/fleet.md).

    from moetune import fleet

    summary = fleet.tune(fleet.FleetOptions(workloads=Path("w.json"), into=Path("h200.pack")))

Or `python -m moetune.fleet tune --workloads w.json --into h200.pack`. Ray is needed only when a cluster is opened.
"""

from moetune.fleet.command import FleetError
from moetune.fleet.driver import tune
from moetune.fleet.options import FleetOptions, Rollout, Summary
from moetune.fleet.policy import Limits

__all__ = ["FleetError", "FleetOptions", "Limits", "Rollout", "Summary", "tune"]
