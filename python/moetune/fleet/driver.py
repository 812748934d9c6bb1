"""Tunes a list of workloads on a Ray cluster: the loop between the policy, the cluster and the results.

Workloads are tuned once for each kind of hardware that the cluster has. A driver that is killed and started again goes
on: results are in a folder beside the pack, each written in one step.
"""

import hashlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moetune.fleet import worker
from moetune.fleet.cluster import Answer, Cluster, ClusterNode
from moetune.fleet.command import BadOption, FleetError, ToolFailed, read_bounded, run_tool, tool_version
from moetune.fleet.options import FleetOptions, Summary
from moetune.fleet.policy import Assignment, Policy, State, Task
from moetune.fleet.results import BadResult, ResultFolder, Wanted, is_pack, read_workloads, task_key
from moetune.fleet.rollout import roll_out

PROBES = 3  # of one node, then it is left out
LARGEST_PACK = 1 << 30
LARGEST_SIGNATURE = 4096
SILENT_WAIT = 5.0  # seconds, in which more nodes may join; then it is said once that none can go on
Listener = Callable[[str], None]


def printable(text: str) -> str:
    """Names come from nodes and files of others: nothing of them is obeyed by a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def to_stderr(line: str) -> None:
    """A line of progress."""
    print(printable(line), file=sys.stderr, flush=True)


def tune(options: FleetOptions, listener: Listener = to_stderr) -> Summary:
    """Tunes the list on the cluster, merges what comes back into the pack, and installs it if that is wanted.

    Raises FleetError for a wrong list, option or cluster. What one workload or node does is in the summary.
    """
    return Fleet(options, listener).run()


@dataclass
class _Running:
    assignment: Assignment | None  # None: a probe
    node: str


@dataclass
class _Nodes:
    known: dict[str, ClusterNode] = field(default_factory=dict)  # alive
    gone: set[str] = field(default_factory=set)  # Ray still lists one for a while; one that comes back has another id
    probing: set[str] = field(default_factory=set)
    probes: dict[str, int] = field(default_factory=dict)


class Fleet:
    """One run."""

    run_on_node: Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]] = staticmethod(worker.tune)

    def __init__(self, options: FleetOptions, listener: Listener) -> None:
        self._options = options
        self._listener = listener
        self._folder = ResultFolder(options.into)
        self._policy = Policy(options.limits)
        self._summary = Summary()
        self._nodes = _Nodes()
        self._wanted: dict[str, Wanted] = {}
        self._running: dict[Any, _Running] = {}
        self._began = time.monotonic()
        self._hardware: set[str] = set()
        self._version = ""

    def run(self) -> Summary:
        self._workloads = read_workloads(self._options.workloads)
        self._version = tool_version()
        with self._folder.locked():
            self._require_pack()
            for kernel, seconds in self._folder.seconds_by_kernel().items():
                self._policy.expect(kernel, seconds)
            self._cluster = Cluster(self._options.address)
            try:
                self._tune_all()
                self._report()
                if self._options.install and not self._options.allow_recorded:
                    self._install()
            finally:
                self._cluster.close()
            if self._summary.complete():
                self._folder.clear(list(self._wanted.values()))
        return self._summary

    def _require_pack(self) -> None:
        into, key = self._options.into, self._options.sign_key
        if key is not None and not key.is_file():
            raise BadOption(f"--sign-key: there is no file {key}; moetune cache new-key makes one")
        if not into.exists():
            return
        try:
            run_tool(["cache", "check", "--cache", str(into)], 600)
        except ToolFailed as error:
            raise BadOption(f"--into: {error}") from None
        if not is_pack(into):
            raise BadOption(f"--into: {into} is a cache, not a pack; name another file")

    def _tune_all(self) -> None:
        waiting_since, is_said = None, False
        while True:
            self._look_at_nodes()
            for assignment in self._policy.assign():
                self._start(assignment)
            if self._wanted and self._policy.finished() and not self._nodes.probing:
                return
            waits = not self._running and (not self._wanted or self._policy.stuck())
            waiting_since = (waiting_since or time.monotonic()) if waits else None
            waited = time.monotonic() - waiting_since if waiting_since is not None else 0.0
            if waited > self._options.wait_s:
                self._give_up(f"none that can go on came within {self._options.wait_s:.0f} s")
                return
            if waited > SILENT_WAIT and self._all_left_out():
                self._give_up("all that are there are left out")
                return
            if waited > SILENT_WAIT and not is_said:
                self._say(f"No node can go on; waiting for one, up to {self._options.wait_s:.0f} s.")
            is_said = waited > SILENT_WAIT
            for answer in self._cluster.answers(1.0, self._options.largest_result):
                self._take(answer)

    def _left_out(self) -> dict[str, str]:
        """Nodes that get nothing, or nothing more, with the reason."""
        return {**self._summary.set_aside, **self._policy.set_aside()}

    def _all_left_out(self) -> bool:
        """Whether every node of the cluster is: waiting longer mends none of them. A node that was lost may come back."""
        nodes = self._nodes
        return bool(nodes.known) and not nodes.gone and self._left_out().keys() >= nodes.known.keys()

    def _give_up(self, after: str) -> None:
        why = "".join(f"; node {node[:8]}: {why}" for node, why in list(self._left_out().items())[:1])
        if not self._wanted:
            accelerators = ", ".join(self._options.accelerators) or "any type"
            raise FleetError(f"the cluster has no node with a GPU ({accelerators}) that moetune can use: {after}{why}")
        self._say(f"No node can go on: {after}{why}. The same command goes on later.")

    def _look_at_nodes(self) -> None:
        alive = {node.id: node for node in self._cluster.nodes() if self._takes(node)}
        for node in sorted(set(self._nodes.known) - set(alive)):
            self._lose(node)
        for node, of in alive.items():
            if node not in self._nodes.known:
                self._nodes.known[node] = of
                self._probe(node)

    def _takes(self, node: ClusterNode) -> bool:
        types = self._options.accelerators
        return (not types or not node.accelerators.isdisjoint(types)) and node.id not in self._nodes.gone

    def _probe(self, node: str) -> None:
        self._nodes.probing.add(node)
        self._nodes.probes[node] = self._nodes.probes.get(node, 0) + 1
        call = self._cluster.start(node, worker.probe, self._options.allow_recorded, limit_s=3 * worker.QUERY_S)
        self._running[call] = _Running(None, node)

    def _lose(self, node: str) -> None:
        if self._nodes.known.pop(node, None) is None:
            return
        self._nodes.gone.add(node)
        self._nodes.probing.discard(node)
        lost = self._policy.lose(node)
        self._summary.nodes_lost += 1
        self._say(f"Node {node[:8]} is gone" + "".join(f"; {self._name(task.key)} runs again" for task in lost))
        for call in [call for call, running in self._running.items() if running.node == node]:
            del self._running[call]
            self._cluster.forget(call)

    def _start(self, assignment: Assignment) -> None:
        wanted, options = self._wanted[assignment.task.key], self._options
        node = self._nodes.known[assignment.node]
        request = {"key": wanted.key, "kernel": wanted.kernel, "problem": wanted.problem, "hardware": wanted.hardware,
                   "recorded": wanted.recorded, "budget": options.budget, "time_s": options.task_time_s,
                   "threads": max(1, min(16, node.cpus // node.gpus)), "largest_bytes": options.largest_result}
        call = self._cluster.start(node.id, type(self).run_on_node, request, with_bytes=True,
                                   limit_s=2 * options.task_time_s + 6 * worker.QUERY_S)
        self._running[call] = _Running(assignment, node.id)

    def _take(self, answer: Answer) -> None:
        running = self._running.pop(answer.call, None)
        if running is None:
            return  # of a node that is gone
        if answer.lost:
            self._running[answer.call] = running  # so that it is forgotten with the others of the node
            self._lose(running.node)
        elif running.assignment is None:
            self._take_probe(running.node, answer)
        else:
            self._take_result(running.assignment, answer)

    def _take_probe(self, node: str, answer: Answer) -> None:
        self._nodes.probing.discard(node)
        found = answer.value if isinstance(answer.value, dict) else {"status": "broken", "why": answer.why}
        if found.get("status") == "ok" and found.get("version") != self._version:
            found = {"why": f"it has {str(found.get('version'))[:80]}, and the driver {self._version}"}
        elif found.get("status") == "ok" and isinstance(found.get("hardware"), str):
            return self._join(node, found["hardware"][:1000])
        elif self._nodes.probes[node] < PROBES:
            return self._probe(node)
        self._summary.set_aside[node] = str(found.get("why", "its answer makes no sense"))[:500]
        self._say(f"Node {node[:8]} is left out: {self._summary.set_aside[node]}")

    def _join(self, node: str, hardware: str) -> None:
        if hardware not in self._hardware:
            self._hardware.add(hardware)
            self._add_workloads(hardware)
        self._policy.join(node, hardware, self._nodes.known[node].gpus)

    def _add_workloads(self, hardware: str) -> None:
        """Those that an earlier driver had are done already."""
        settings = f"{self._version} budget={self._options.budget}"
        for each in self._workloads:
            key = task_key(each["kernel"], each["problem"], hardware, settings)
            wanted = Wanted(key, each["kernel"], each["problem"], hardware, self._options.allow_recorded)
            self._wanted[key] = wanted
            self._policy.add(Task(key, hardware, wanted.kernel, each["weight"]))
            if self._folder.has(wanted):
                self._policy.done(key, "")
                self._summary.resumed += 1
        self._say(f"{hardware}: {len(self._workloads)} workloads")

    def _take_result(self, assignment: Assignment, answer: Answer) -> None:
        key, node = assignment.task.key, assignment.node
        if answer.why:
            return self._failed(assignment, answer.why)
        try:
            claim, data = answer.value
            if not isinstance(claim, dict) or claim.get("status") not in ("ok", "left_out", "broken"):
                raise BadResult("the answer makes no sense")
            if claim["status"] != "ok":
                return self._failed(assignment, str(claim.get("why"))[:500], claim["status"] == "broken")
            copy = self._policy.state(key) is State.DONE
            self._folder.keep(self._wanted[key], data, claim, self._options.largest_result, copy)
        except (BadResult, KeyError, TypeError, ValueError) as error:
            self._summary.refused.append(f"{self._name(key)} from node {node[:8]}: {error}")
            return self._failed(assignment, f"its result was refused: {error}")
        if self._policy.done(key, node):
            self._learn(self._wanted[key].kernel, claim.get("seconds"))
            self._say(f"{self._name(key)}: {_time_text(claim.get('time_us'))}")
        else:
            self._say(f"{self._name(key)}: came twice")

    def _learn(self, kernel: str, seconds: Any) -> None:
        if isinstance(seconds, float) and 0 < seconds < 1e6:
            self._policy.expect(kernel, seconds)
            self._folder.keep_seconds(self._policy.expected())

    def _failed(self, assignment: Assignment, why: str, blame_node: bool = True) -> None:
        key = assignment.task.key
        self._policy.failed(key, assignment.node, why, blame_node)
        what = {State.WAITING: "runs again", State.GIVEN_UP: "is given up"}.get(self._policy.state(key), "goes on")
        self._say(f"{self._name(key)} {what}: {why}")

    def _report(self) -> None:
        policy, summary = self._policy, self._summary
        done = [self._wanted[task.key] for task in policy.tasks(State.DONE)]
        summary.done = len(done)
        summary.given_up = {self._name(task.key): policy.why(task.key) for task in policy.tasks(State.GIVEN_UP)}
        summary.not_reached = [self._name(task.key) for task in policy.tasks(State.WAITING)]
        summary.losses, summary.duplicates = policy.losses, policy.duplicates
        summary.set_aside.update(policy.set_aside())
        if done:
            summary.merged = self._folder.merge(done)
            self._sign()

    def _sign(self) -> None:
        if self._options.sign_key is not None and self._summary.merged.get("pack"):
            run_tool(["cache", "sign", str(self._options.into), "--key", str(self._options.sign_key)], 600)

    def _signature(self) -> str:
        """Of the pack that this run has made. One beside it without a key of this run is of an earlier pack."""
        if self._options.sign_key is None:
            return ""
        signature = worker.signature_path(self._options.into)
        return read_bounded(signature, LARGEST_SIGNATURE).decode("ascii")

    def _install(self) -> None:
        if not self._summary.merged.get("pack"):
            return
        data = read_bounded(self._options.into, LARGEST_PACK)
        usable = [node for node in self._policy.nodes() if node not in self._summary.set_aside]
        hosts = {node: self._policy.hardware_of(node) for node in usable}
        request = {"path": self._options.install, "sha256": hashlib.sha256(data).hexdigest(),
                   "signature": self._signature()}
        duels = [(each["kernel"], each["problem"]) for each in self._workloads[:self._options.duels]]
        sent = self._cluster.put(data)
        result = roll_out(hosts, self._options.first, request, duels,
                          lambda nodes, what, request: self._ask(list(nodes), what, request, sent))
        self._summary.rollout = result
        for host, why in result.failed.items():
            self._say(f"Not installed on node {host[:8]}: {why}")
        self._say(f"Installed on {len(result.installed)} of {len(hosts)} hosts"
                  + ("" if result.agreed else "; the first did not agree, so all went back"))

    def _ask(self, nodes: list[str], what: str, request: dict[str, Any], sent: Any) -> dict[str, dict[str, Any]]:
        """One request to nodes, all at once."""
        limit_s = 3 * worker.QUERY_S * (1 + len(request.get("duels", [])))
        calls: dict[Any, str] = {}
        for node in nodes:
            arguments = (request, sent) if what == "install" else (request,)
            calls[self._cluster.start(node, getattr(worker, what), *arguments, limit_s=limit_s)] = node
        answers: dict[str, dict[str, Any]] = {}
        while len(answers) < len(nodes):
            for answer in self._cluster.answers(1.0, self._options.largest_result):
                value = answer.value if isinstance(answer.value, dict) else {"status": "broken", "why": answer.why}
                if answer.call in calls:
                    answers[calls[answer.call]] = value
        return answers

    def _name(self, key: str) -> str:
        wanted = self._wanted[key]
        return f"{wanted.kernel} {wanted.problem} on {wanted.hardware.partition(',')[0]}"

    def _say(self, what: str) -> None:
        policy = self._policy
        done, running = policy.count(State.DONE), policy.count(State.RUNNING)
        total = sum(policy.count(state) for state in State)
        spent = time.monotonic() - self._began
        fresh = done - self._summary.resumed
        left = f", about {_duration((total - done) * spent / fresh)} left" if fresh > 0 and total > done else ""
        self._listener(f"{done}/{total} done, {running} running on {len(self._nodes.known)} nodes,"
                       f" {_duration(spent)} so far{left}  {what}")


def _time_text(time_us: Any) -> str:
    return f"{time_us:.4g} us" if isinstance(time_us, float) else "tuned"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole // 60 % 60:0{2 if hours else 1}}:{whole % 60:02}"
