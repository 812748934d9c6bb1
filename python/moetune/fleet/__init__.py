"""Tunes a list of workloads on a cluster of GPUs that Ray manages (docs/fleet.md).

    summary = moetune.fleet.tune(moetune.fleet.FleetOptions(workloads=Path("w.json"), into=Path("h200.pack")))

Or `python -m moetune.fleet tune --workloads w.json --into h200.pack`.
"""

from moetune.fleet.command import FleetError
from moetune.fleet.driver import FleetOptions, Summary, tune

__all__ = ["FleetError", "FleetOptions", "Summary", "tune"]
