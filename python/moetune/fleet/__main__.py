"""python -m moetune.fleet tune --workloads FILE --into PACK"""

import argparse
import dataclasses
import re
import sys
from pathlib import Path

from moetune.fleet.command import BadOption, FleetError
from moetune.fleet.driver import printable, to_stderr, tune
from moetune.fleet.options import FleetOptions, Summary
from moetune.fleet.results import text_of

EXIT_CODES = "Exit code 1: a workload or a host was left out; 2: a wrong option; 3: no cluster, or it cannot be used."


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    """90, 30s, 5m or 1h30m: as the other commands take them."""
    number = r"(\d+(?:\.\d*)?|\.\d+)"
    units = "".join(f"(?:{number}{unit})?" for unit in "dhms")
    parts = re.fullmatch(units, text) or re.fullmatch(f"()()(){number}", text)
    if parts is None:
        raise ValueError
    value = sum(float(part or 0) * unit for part, unit in zip(parts.groups(), (86400, 3600, 60, 1)))
    if not 0 < value <= 366 * 86400:
        raise ValueError
    return value


_positive.__name__, _seconds.__name__ = "count of at least 1", "span of time, such as 90, 30s, 5m or 1h30m:"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m moetune.fleet", description=__doc__, epilog=EXIT_CODES)
    tune_ = parser.add_subparsers(dest="command", required=True, metavar="tune").add_parser(
        "tune", help="tune a list of workloads on the GPUs of a Ray cluster", epilog=EXIT_CODES,
        description="Tunes every workload once for each kind of GPU in the cluster and merges the winners into a pack."
                    " Started again after it was stopped or killed, it goes on.")
    add = tune_.add_argument
    add("--workloads", type=Path, required=True, metavar="FILE", help="the list (docs/workloads.md)")
    add("--into", type=Path, required=True, metavar="PACK", help="the pack; one that is there takes part in the merge")
    add("--address", default="auto", help="of the cluster: auto, HOST:PORT, or local for this machine alone (auto)")
    add("--accelerator", action="append", default=[], metavar="TYPE", help="only nodes of this type of Ray's; repeat")
    add("--budget", type=_positive, default=200, metavar="N", help="trials of each workload (200)")
    add("--task-time", type=_seconds, default=3600.0, metavar="SPAN", help="a search ends after it (1h)")
    add("--wait", type=_seconds, default=300.0, metavar="SPAN", help="for a node when none can go on (5m)")
    add("--install", default="", metavar="PATH", help="puts the pack there on each host, in two stages")
    add("--sign-key", type=Path, metavar="FILE",
        help="signs the pack (docs/sync.md); with --install the signature goes to each host too")
    add("--first", type=_positive, default=1, metavar="K", help="hosts of each hardware that install and duel first")
    add("--duels", type=_positive, default=8, metavar="N", help="workloads that these duel, heaviest first (8)")
    add("--allow-recorded", action="store_true", help="for tests: nodes replay recordings; no pack is made of them")
    add("--json", action="store_true", help="one JSON document on stdout")
    return parser


def _say(line: str) -> None:
    print(printable(line))


def _print(summary: Summary, options: FleetOptions) -> None:
    for name, why in summary.given_up.items():
        _say(f"given up: {name}: {why}")
    for name in summary.not_reached:
        _say(f"not reached: {name}")
    for refused in summary.refused:
        _say(f"refused: {refused}")
    _say(f"{summary.done} tuned ({summary.resumed} of them before), {len(summary.given_up)} given up,"
          f" {len(summary.not_reached)} not reached; {summary.nodes_lost} nodes and {summary.losses} searches lost")
    pack = summary.merged.get("pack")
    if pack:
        _say(f"{options.into}: {pack['winners']} winners of {pack['families']} families")
    else:
        _say(f"{options.into} was not written: there is no winner that a server may launch")


def main() -> int:
    given = _parser().parse_args()
    options = FleetOptions(
        workloads=given.workloads, into=given.into, address=given.address, accelerators=tuple(given.accelerator),
        budget=given.budget, task_time_s=given.task_time, wait_s=given.wait, install=given.install,
        sign_key=given.sign_key, first=given.first, duels=given.duels, allow_recorded=given.allow_recorded)
    try:
        summary = tune(options)
    except FleetError as error:
        to_stderr(f"moetune.fleet: {error}")
        return 2 if isinstance(error, BadOption) else 3
    except KeyboardInterrupt:
        to_stderr("moetune.fleet: interrupted; the same command goes on")
        return 130
    if given.json:
        print(text_of(dataclasses.asdict(summary)), end="")
    else:
        _print(summary, options)
    return 0 if summary.complete() else 1


if __name__ == "__main__":
    sys.exit(main())
