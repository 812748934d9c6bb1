"""The fleet on Ray's own cluster of several nodes on one machine: a lost node, results that come twice, hostile ones, a
driver that is killed, nodes that are broken. Nodes have the scripted GPU, or recordings of GPUs that nobody has.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster as RayCluster

from fleet_support import winners
from made_up_recordings import copy_data, write_list, write_recording
from moetune import fleet
from moetune.fleet import worker
from moetune.fleet.cluster import Answer
from moetune.fleet.driver import Fleet
from moetune.fleet.policy import Assignment

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have this file

WAIT_S = 60.0  # far longer than anything that a test waits for takes on a slow machine
FOLDER = Path(tempfile.mkdtemp(prefix="fleet-test-"))
cluster: Any = None
DRIVER = os.environ["MOETUNE_LIBCUDA"]


def setUpModule() -> None:
    global cluster
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_IMPORT_WARNING="1")
    os.environ.pop("MOETUNE_LIBCUDA")  # of the nodes alone
    cluster = RayCluster(initialize_head=True, head_node_args={
        "num_cpus": 1, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20,
        "_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}})


    copy_data(FOLDER / "data")
    add_node("a", "CD", FOLDER / "data", **gpu(4 << 20))


def gpu(memory: int) -> dict[str, str]:
    return {"MOETUNE_LIBCUDA": DRIVER, "MOETUNE_FAKE_CUDA": f"memory={memory}"}


def add_node(name: str, accelerators: str, data: Path, **environment: str) -> Any:
    """Nodes of one test are not of the types of another. Each has a folder for its disk."""
    (FOLDER / name).mkdir()
    return cluster.add_node(
        num_cpus=1, num_gpus=1, object_store_memory=100 << 20, wait=False,
        resources={f"accelerator_type:{each}": 1 for each in accelerators},
        env_vars={"NODE": name, "DISK": str(FOLDER / name), "MOETUNE_DATA_DIR": str(data), **environment})


def wait_for(file: Path) -> None:
    """Returns once it is there, or after WAIT_S."""
    end = time.monotonic() + WAIT_S
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)


def tearDownModule() -> None:
    cluster.shutdown()
    shutil.rmtree(FOLDER, ignore_errors=True)


def tune_slowly(task: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The node that is to die tells when it has begun, and the other of its type does not do all before."""
    name, began = os.environ["NODE"], Path(os.environ["DISK"]).parent / "victim/began"
    if name == "victim":
        began.touch()
        time.sleep(WAIT_S)
    if name == "recorded_a":
        wait_for(began)
    return worker.tune(task)


def tune_with_an_enemy(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """One node sends what nobody asked for: in turn too many bytes, another workload's result, a path."""
    claim, data = worker.tune(task)
    if os.environ["NODE"] != "enemy":
        return claim, data
    counter = Path(os.environ["DISK"], "sent")
    sent = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("." * (sent + 1))
    if sent == 0:
        return claim, bytes(20 << 20)
    if sent == 1:
        return worker.tune({**task, "problem": task["problem"].replace("write=all", "write=none")})
    return claim, "/etc/passwd"


class Repeating(Fleet):
    """Every result comes twice."""

    run_on_node = staticmethod(tune_slowly)

    def _take_result(self, assignment: Assignment, answer: Answer) -> None:
        super()._take_result(assignment, answer)
        super()._take_result(assignment, answer)


def fail(_: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    return {"status": "broken", "why": "the disk is full"}, b""


class Failing(Fleet):
    run_on_node = staticmethod(fail)


class WithAnEnemy(Fleet):
    run_on_node: Callable[[dict[str, Any]], tuple[dict[str, Any], Any]] = staticmethod(tune_with_an_enemy)


class FleetTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER))
        self.into = self.folder / "all.pack"
        self.lines: list[str] = []

    def tearDown(self) -> None:
        ray.shutdown()

    def options(self, workloads: Path, *accelerators: str, **more: Any) -> fleet.FleetOptions:
        return fleet.FleetOptions(workloads=workloads, into=self.into, address=cluster.address, budget=2, accelerators=accelerators,
                                  wait_s=WAIT_S, **more)

    def test_clusters_that_are_not_there(self) -> None:
        workloads = write_list(self.folder / "w.json", [16384])
        with self.assertRaisesRegex(fleet.FleetError, "--address: nobody listens at 127.0.0.1:1"):
            fleet.tune(fleet.FleetOptions(workloads, self.into, address="127.0.0.1:1"), self.lines.append)
        options = fleet.FleetOptions(workloads, self.into, cluster.address, accelerators=("H100",), wait_s=8)
        with self.assertRaisesRegex(fleet.FleetError, r"no node with a GPU \(H100\) that moetune can use: none that can go on came within 8 s"):
            fleet.tune(options, self.lines.append)
        waits = [line for line in self.lines if line.endswith("No node can go on; waiting for one, up to 8 s.")]
        self.assertEqual(len(waits), 1)

    def test_a_lost_node_and_results_that_come_twice(self) -> None:
        sizes = [16384, 32768, 49152]
        for gpu in ("Test A", "Test B"):
            data = copy_data(self.folder / gpu[-1])
            for size in sizes:
                write_recording(data, gpu, size, (10.0, 12.0) if gpu == "Test A" else (30.0, 25.0))
        victim = add_node("victim", "A", self.folder / "A")
        add_node("recorded_a", "A", self.folder / "A")
        add_node("recorded_b", "B", self.folder / "B")
        began = FOLDER / "victim/began"

        def kill() -> None:
            wait_for(began)
            cluster.remove_node(victim, allow_graceful=False)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        options = self.options(write_list(self.folder / "w.json", sizes), "A", "B", allow_recorded=True)
        run = Repeating(options, self.lines.append)
        summary = run.run()
        killer.join()
        self.assertTrue(summary.complete(), self.lines)
        self.assertEqual((summary.done, summary.nodes_lost, summary.losses), (6, 1, 1), self.lines)
        self.assertEqual((summary.duplicates, summary.merged["winners_equal"]), (6, 6))
        policy = run._policy
        self.assertEqual(sorted(policy.starts(key) for key in run._wanted), [1, 1, 1, 1, 1, 2])
        self.assertTrue(any("is gone; decode_kernel" in line for line in self.lines), self.lines)
        self.assertFalse(self.into.exists())  # recordings go into no pack
        found = winners(self.folder / "all.pack.fleet/merged.db")
        self.assertEqual({each["recorded"] for each in found}, {True})
        self.assertTrue(all(each["hardware"]["origin"].startswith("replay:") for each in found))
        self.assertEqual(sorted((each["hardware"]["name"], each["time_us"]) for each in found),
                         [("Test A", 10.0)] * 3 + [("Test B", 25.0)] * 3)

    def test_broken_nodes_are_not_waited_for(self) -> None:
        add_node("broken", "E", FOLDER / "data", **gpu(4 << 20), MOETUNE_NVRTC="/nowhere/libnvrtc.so.13")
        workloads = write_list(self.folder / "w.json", [16384, 32768, 49152])
        begin = time.monotonic()
        with self.assertRaisesRegex(fleet.FleetError, r"\(E\) that moetune can use: all that are there are left out;"
                                    r" node \w+: nothing can be compiled there: MOETUNE_NVRTC: cannot open /nowhere/"):
            fleet.tune(self.options(workloads, "E"), self.lines.append)
        summary = Failing(self.options(workloads, "D"), self.lines.append).run()  # one that breaks later
        self.assertEqual((summary.done, len(summary.not_reached)), (0, 3), self.lines)
        self.assertRegex(self.lines[-1], r"No node can go on: all that are there are left out; node \w+: the disk is full")
        self.assertLess(time.monotonic() - begin, WAIT_S)

    def test_an_enemy_and_a_roll_out(self) -> None:
        add_node("enemy", "C", FOLDER / "data", **gpu(4 << 20))
        workloads = write_list(self.folder / "w.json", [16384, 32768, 49152])
        options = self.options(workloads, "C", largest_result=10 << 20, install="$DISK/h.pack", duels=1)
        summary = WithAnEnemy(options, self.lines.append).run()
        self.assertTrue(summary.complete(), self.lines)
        self.assertEqual(summary.done, 3)
        reasons = " ".join(summary.refused)
        self.assertGreaterEqual(len(summary.refused), 1)
        self.assertRegex(reasons, r"the result has 2097\d+ bytes; 10485760 are allowed")
        found = winners(self.into)
        self.assertEqual(len(found), 3)
        self.assertEqual(len({each["hardware"]["key"] for each in found}), 1)
        self.assertFalse(any(each["recorded"] for each in found))
        assert summary.rollout is not None
        good = {"a"} if summary.set_aside else {"a", "enemy"}
        self.assertEqual(len(summary.rollout.installed), len(good))
        for name in good:
            self.assertEqual((FOLDER / name / "h.pack").read_bytes(), self.into.read_bytes())

    def test_a_killed_driver_goes_on(self) -> None:
        workloads = write_list(self.folder / "w.json", [16384, 32768, 49152])
        command = [sys.executable, "-m", "moetune.fleet", "tune", "--workloads", str(workloads), "--into",
                   str(self.into), "--address", cluster.address, "--budget", "2", "--accelerator", "D", "--wait", f"{WAIT_S}s"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
            try:
                end = time.monotonic() + 2 * WAIT_S
                while not list(self.folder.glob("all.pack.fleet/*.result")):
                    self.assertIsNone(driver.poll())
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
            finally:
                driver.send_signal(signal.SIGKILL)
        self.assertFalse(self.into.exists())
        ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"3 tuned \([12] of them before\), 0 given up, 0 not reached")
        self.assertEqual(len(winners(self.into)), 3)
        self.assertFalse(list(self.folder.glob("all.pack.fleet/*.result")))  # the next run tunes anew


if __name__ == "__main__":
    unittest.main()
