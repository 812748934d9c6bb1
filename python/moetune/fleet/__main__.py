"""python -m moetune.fleet tune --workloads FILE --into PACK"""

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path

from moetune.fleet.command import BadOption, FleetError
from moetune.fleet.driver import FleetOptions, Summary, printable, to_stderr, tune

EXIT_CODES = "Exit code 1: a workload was left out; 2: a wrong option; 3: no cluster, or it cannot be used."


def _seconds(text: str) -> float:
    """90, 30s, 5m or 1h30m: as the other commands take them."""
    number = r"(\d+(?:\.\d*)?|\.\d+)"
    units = "".join(f"(?:{number}{unit})?" for unit in "dhms")
    parts = re.fullmatch(units, text) or re.fullmatch(f"()()(){number}", text)
    groups = parts.groups() if parts is not None else ()
    value = sum(float(part or 0) * unit for part, unit in zip(groups, (86400, 3600, 60, 1)))
    if not 0 < value <= 366 * 86400:
        raise ValueError
    return value


_seconds.__name__ = "span of time, such as 90, 30s, 5m or 1h30m:"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m moetune.fleet", epilog=EXIT_CODES,
        description="Tunes every workload once for each kind of GPU in a Ray cluster and merges the winners into a"
                    " pack. Started again after it was stopped or killed, it goes on.")
    add = parser.add_argument
    add("command", choices=["tune"])
    add("--workloads", type=Path, required=True, metavar="FILE", help="the list (docs/workloads.md)")
    add("--into", type=Path, required=True, metavar="PACK", help="the pack; one that is there takes part in the merge")
    add("--address", default="auto", help="of the cluster: auto, HOST:PORT, or local for this machine alone (auto)")
    add("--accelerator", dest="accelerators", action="append", default=[], metavar="TYPE",
        help="only nodes of this type of Ray's; repeat")
    add("--budget", type=int, default=200, metavar="N", help="trials of each workload (200)")
    add("--task-time", dest="task_time_s", type=_seconds, default=3600.0, metavar="SPAN", help="of one search (1h)")
    add("--wait", dest="wait_s", type=_seconds, default=300.0, metavar="SPAN", help="until a node can go on (5m)")
    add("--json", action="store_true", help="one JSON document on stdout")
    return parser


def _text(summary: Summary, into: Path) -> str:
    pack = (f"{summary.pack['winners']} winners of {summary.pack['families']} families" if summary.pack
            else f"not written: {summary.why_no_pack}")
    return printable("\n".join([
        *(f"given up: {name}: {why}" for name, why in summary.given_up.items()),
        *(f"not reached: {name}" for name in summary.not_reached),
        f"{summary.done} tuned ({summary.resumed} of them before), {len(summary.given_up)} given up,"
        f" {len(summary.not_reached)} not reached; {summary.nodes_lost} nodes lost", f"{into}: {pack}"]))


def main() -> int:
    parser = _parser()
    given = vars(parser.parse_args())
    if given["budget"] < 1:
        parser.error("--budget must be at least 1")
    del given["command"]
    as_json = given.pop("json")
    options = FleetOptions(**given)
    try:
        summary = tune(options)
    except FleetError as error:
        to_stderr(f"moetune.fleet: {error}")
        return 2 if isinstance(error, BadOption) else 3
    except KeyboardInterrupt:
        to_stderr("moetune.fleet: interrupted; the same command goes on")
        return 130
    print(json.dumps(dataclasses.asdict(summary), indent=2) if as_json else _text(summary, options.into))
    return 0 if summary.complete() else 1


if __name__ == "__main__":
    sys.exit(main())
