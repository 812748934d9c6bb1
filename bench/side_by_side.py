"""What the benches beside peers share: options, tables, moetune's commands and times of PyTorch calls in CUDA graphs.

moetune and peers are timed by replays of graphs between two events; the median counts. To start a graph takes some
microseconds more, which a graph of few launches shows, so that peers get graphs as long as moetune's own; and the same
load comes before, until power and clocks have settled.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

REPLAYS = 15
GRAPH_US = 3000  # as kDuelSampleUs in tuner/worker/benchmark.cc, and kLeadCycles
LEAD_CYCLES = 120_000
SETTLE_S = 0.6  # a sustained load meets the power limit within this


class Moetune:
    """`samples` of each contestant in a call of `bench`; its own number if None."""

    def __init__(self, options, samples=None):
        self.options, self.samples, self.searched = options, samples, set()

    def call(self, *arguments):
        done = subprocess.run([self.options.moetune, *arguments, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            sys.stderr.write(done.stderr)
            raise SystemExit(done.returncode)
        return json.loads(done.stdout)

    def time_workload(self, *workload):
        """The winner's row of `bench`, with its time alone; None without a winner. A workload's first call searches it,
        unless --stored."""
        common = [*workload, *(["--cache", self.options.cache] if self.options.cache else [])]
        if not self.options.stored and workload not in self.searched:
            self.call("search", *common, "--budget", str(self.options.budget), "--strategy", self.options.strategy)
            self.searched.add(workload)
        return self.time_stored(*workload)

    def time_stored(self, *workload):
        """The same, of what the cache holds."""
        common = [*workload, *(["--cache", self.options.cache] if self.options.cache else [])]
        samples = ["--rounds", str(self.samples)] if self.samples else []
        rows = {row["what"]: row for row in self.call("bench", *common, *samples)["rows"] if row["time_us"]}
        best = rows.get("winner")
        if best:
            best["alone_us"] = rows.get("winner alone", best)["time_us"]
            best["default_us"] = rows.get("default", best)["time_us"]
        return best


def parser_of(program):
    """Of a program with this documentation, with the options that all have."""
    moetune = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "moetune"
    parser = argparse.ArgumentParser(description=program, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moetune", default=str(moetune), metavar="PATH")
    parser.add_argument("--budget", type=int, default=200, metavar="N")
    parser.add_argument("--strategy", default="auto", metavar="NAME")
    parser.add_argument("--cache", metavar="FILE")
    parser.add_argument("--stored", action="store_true", help="search nothing: time the winners that the cache holds")
    parser.add_argument("--json", metavar="FILE")
    return parser


def names_of(parser, what, text, known):
    """The names in an option's text."""
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"unknown {what} '{name}'; known: {', '.join(known)}")
    return names


def peers_of(parser, text, known):
    return [] if text == "none" else names_of(parser, "peer", text, known)


def write_json(options, rows):
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def print_header(*names):
    print_row(*names)
    print("|" + "---|" * len(names), flush=True)


def micro(value):
    return "-" if value is None else f"{value:.2f}"


def share(value):
    return f"{value:.1%}" if value else "-"


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def import_torch(program):
    try:
        import torch
    except ImportError:
        raise SystemExit(f"{program}: the peers need PyTorch; --peers none goes without")
    return torch


def graph_time(torch, calls, lead, settle_s=0, replays=REPLAYS, unsettled=0):
    """Microseconds of one of `calls`, all of them captured in one graph, after that much of the same load; the first
    `unsettled` replays do not count."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        until = time.monotonic() + settle_s
        while time.monotonic() < until:
            graph.replay()
            stream.synchronize()
        times = []
        for _ in range(replays):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if lead:  # the GPU is busy while the host enqueues what is timed
                torch.cuda._sleep(LEAD_CYCLES)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / len(calls))
    return statistics.median(times[unsettled:])


def long_graph_time(torch, calls):
    """The same of a graph as long as moetune's own."""
    one = graph_time(torch, calls, lead=False)
    return graph_time(torch, math.ceil(GRAPH_US / (one * len(calls))) * calls, lead=True, settle_s=SETTLE_S), one
