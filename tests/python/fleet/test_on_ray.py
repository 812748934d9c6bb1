"""The fleet on Ray's own cluster of several nodes on one machine: a lost node, a hostile one, broken ones, and a driver
that is killed. Nodes have the scripted GPU; the size of its memory makes two kinds of it.
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
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster as RayCluster

from fleet_support import copy_data, winners, write_list
from moetune import fleet
from moetune.fleet import worker
from moetune.fleet.driver import Fleet

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
    add_node("a", "CD")


def add_node(name: str, accelerators: str, memory: int = 4 << 20, **environment: str) -> Any:
    """Nodes of one test are not of the types of another. Each has a folder for its disk."""
    (FOLDER / name).mkdir()
    return cluster.add_node(
        num_cpus=1, num_gpus=1, object_store_memory=100 << 20, wait=False,
        resources={f"accelerator_type:{each}": 1 for each in accelerators},
        env_vars={"NODE": name, "DISK": str(FOLDER / name), "MOETUNE_DATA_DIR": str(FOLDER / "data"),
                  "MOETUNE_LIBCUDA": DRIVER, "MOETUNE_FAKE_CUDA": f"memory={memory}", **environment})


def wait_for(file: Path) -> None:
    """Returns once it is there, or after WAIT_S."""
    end = time.monotonic() + WAIT_S
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)


def tearDownModule() -> None:
    cluster.shutdown()
    shutil.rmtree(FOLDER, ignore_errors=True)


class Slow(Fleet):
    """The node that is to die tells when it has begun, and the other of its kind does not do all before."""

    @staticmethod
    def run_on_node(task: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        name, began = os.environ["NODE"], Path(os.environ["DISK"]).parent / "victim/began"
        if name == "victim":
            began.touch()
            time.sleep(WAIT_S)
        if name == "survivor":
            wait_for(began)
        return worker.tune(task)


class WithAnEnemy(Fleet):
    """One node sends what nobody asked for: in turn too many bytes, another workload's result, a path."""

    @staticmethod
    def run_on_node(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        claim, data = worker.tune(task)
        if os.environ["NODE"] != "enemy":
            return claim, data
        counter = Path(os.environ["DISK"], "sent")
        sent = len(counter.read_text()) if counter.exists() else 0
        counter.write_text("." * (sent + 1))
        if sent == 0:
            return claim, bytes(65 << 20)
        if sent == 1:
            return worker.tune({**task, "problem": task["problem"].replace("write=all", "write=none")})
        return claim, "/etc/passwd"


class Failing(Fleet):
    @staticmethod
    def run_on_node(_: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        return {"status": "broken", "why": "the disk is full"}, b""


class FleetTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER))
        self.into = self.folder / "all.pack"
        self.lines: list[str] = []
        self.workloads = write_list(self.folder / "w.json", [16384, 32768, 49152])

    def tearDown(self) -> None:
        ray.shutdown()

    def options(self, *accelerators: str, **more: Any) -> fleet.FleetOptions:
        return fleet.FleetOptions(**{"workloads": self.workloads, "into": self.into, "address": cluster.address,
                                     "budget": 2, "accelerators": accelerators, "wait_s": WAIT_S, **more})

    def test_clusters_that_are_not_there(self) -> None:
        with self.assertRaisesRegex(fleet.FleetError, "--address: no Ray cluster at 127.0.0.1:1: .*refused"):
            fleet.tune(self.options(address="127.0.0.1:1"), self.lines.append)
        why = r"no node with a GPU \(H100\) that moetune can use: none that can go on came within 8 s"
        with self.assertRaisesRegex(fleet.FleetError, why):
            fleet.tune(self.options("H100", wait_s=8), self.lines.append)
        waits = [line for line in self.lines if line.endswith("No node can go on; waiting for one, up to 8 s.")]
        self.assertEqual(len(waits), 1)

    def test_two_kinds_and_a_lost_node(self) -> None:
        victim = add_node("victim", "A")
        add_node("survivor", "A")
        add_node("other", "B", 8 << 20)

        def kill() -> None:
            wait_for(FOLDER / "victim/began")
            cluster.remove_node(victim, allow_graceful=False)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        summary = Slow(self.options("A", "B"), self.lines.append).run()
        killer.join()
        self.assertTrue(summary.complete(), self.lines)
        self.assertEqual((summary.done, summary.nodes_lost), (6, 1), self.lines)
        self.assertEqual(sum("runs again" in line for line in self.lines), 1, self.lines)
        found = [(each["hardware"]["key"], each["problem"]) for each in winners(self.into)]
        self.assertEqual(len(set(found)), 6)
        self.assertEqual(len({hardware for hardware, _ in found}), 2)

    def test_broken_nodes_are_not_waited_for(self) -> None:
        add_node("broken", "E", MOETUNE_NVRTC="/nowhere/libnvrtc.so.13")
        begin = time.monotonic()
        with self.assertRaisesRegex(fleet.FleetError, r"\(E\) that moetune can use: all that are there are left out;"
                                    r" node \w+: nothing can be compiled there: MOETUNE_NVRTC: cannot open /nowhere/"):
            fleet.tune(self.options("E"), self.lines.append)
        summary = Failing(self.options("D"), self.lines.append).run()  # one that breaks later
        self.assertEqual((summary.done, len(summary.not_reached)), (0, 3), self.lines)
        self.assertFalse(summary.complete())
        self.assertRegex(self.lines[-1], r"can go on: all that are there are left out; node \w+: the disk is full")
        self.assertLess(time.monotonic() - begin, WAIT_S)

    def test_an_enemy(self) -> None:
        add_node("enemy", "C")
        summary = WithAnEnemy(self.options("C"), self.lines.append).run()
        self.assertTrue(summary.complete(), self.lines)
        self.assertEqual(summary.done, 3)
        self.assertTrue(any("its result was refused: the result has 68157440 bytes" in line for line in self.lines))
        self.assertEqual(len({(each["hardware"]["key"], each["problem"]) for each in winners(self.into)}), 3)

    def test_a_killed_driver_goes_on(self) -> None:
        command = [sys.executable, "-m", "moetune.fleet", "tune", "--workloads", str(self.workloads), "--into",
                   str(self.into), "--address", cluster.address, "--budget", "2", "--accelerator", "D", "--wait", "1m"]
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
        self.assertRegex(ended.stdout, r"3 tuned \([12] of them before\), 0 given up, 0 not reached; 0 nodes lost\n"
                                       r"/.*/all.pack: 3 winners of \d families\n")
        self.assertEqual(len(winners(self.into)), 3)
        self.assertFalse(list(self.folder.glob("all.pack.fleet/*.result")))  # the next run tunes anew


if __name__ == "__main__":
    unittest.main()
