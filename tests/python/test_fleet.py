"""The fleet without Ray: which node gets which workload, what of a node's results is taken, and the command line."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from fleet_support import copy_data, problem, winners, write_list
from moetune.fleet import results, worker
from moetune.fleet.__main__ import _seconds
from moetune.fleet.command import FleetError, run_tool
from moetune.fleet.driver import printable
from moetune.fleet.placement import Placement, Shard
from moetune.fleet.results import BadResult, ResultFolder, read_workloads
from support import needs_scripted_driver

FAKE = "Fake GPU 0,cc=90,sms=4,l2=1048576,memory={},sm_khz=1000000,memory_khz=2000000,origin=gpu"
HARDWARE = FAKE.format(4 << 20)


def shard(rank: int, hardware: str = "H200") -> Shard:
    return Shard(rank, hardware, "kernel", f"problem={rank}")


class PlacementTest(unittest.TestCase):
    def setUp(self) -> None:
        self.placement = Placement()

    def assign(self, *resting: str) -> list[tuple[int, str]]:
        return [(each.rank, node) for each, node in self.placement.assign(set(resting))]

    def fail(self, rank: int, node: str, blame: bool = True) -> bool:  # type: ignore[override]
        return self.placement.failed(shard(rank), node, "why", blame)

    def test_heaviest_first_on_nodes_of_its_hardware(self) -> None:
        for rank in (2, 0, 1):
            self.placement.add(shard(rank))
        self.placement.add(shard(3, "B200"))
        self.placement.join("a", "H200", 2)
        self.assertEqual(self.assign(), [(0, "a"), (1, "a")])
        self.assertEqual(self.assign(), [])
        self.placement.join("b", "B200", 1)
        self.assertEqual(self.assign("b"), [])  # a worker died there a moment ago
        self.assertEqual(self.assign(), [(3, "b")])
        self.placement.done("a")
        self.assertEqual(self.assign(), [(2, "a")])
        self.assertEqual(self.placement.waiting, [])

    def test_a_failed_one_goes_to_another_node_and_is_given_up_at_last(self) -> None:
        self.placement.add(shard(0))
        for node in "ab":
            self.placement.join(node, "H200", 1)
        self.assertEqual(self.assign(), [(0, "a")])
        self.fail(0, "a")
        self.assertEqual(self.assign("b"), [])  # it waits for the other
        self.assertEqual(self.assign(), [(0, "b")])
        self.fail(0, "b")
        self.placement.add(shard(1))
        self.assertEqual(self.assign("a"), [(1, "b")])  # what has failed comes last
        self.placement.done("b")
        for _ in range(2):  # both have failed it: the one that has been free for longest
            self.assertEqual(self.placement.given_up, {})
            ((_, node),) = self.assign()
            self.fail(0, node, blame=False)
        self.assertEqual(self.placement.given_up, {shard(0): "why"})
        self.assertEqual(self.assign(), [])

    def test_a_lost_node_costs_what_ran_there(self) -> None:
        for rank in range(2):
            self.placement.add(shard(rank))
            self.placement.join("ab"[rank], "H200", 1)
        self.assertEqual(self.assign(), [(0, "a"), (1, "b")])
        self.placement.leave("a")
        self.assertFalse(self.fail(0, "a"))
        self.placement.done("b")
        self.assertEqual(self.assign(), [(0, "b")])

    def test_a_node_that_fails_several_should_leave(self) -> None:
        for rank in range(5):
            self.placement.add(shard(rank))
        self.placement.join("a", "H200", 5)
        self.assertEqual(len(self.assign()), 5)
        self.assertEqual([self.fail(0, "a"), self.fail(1, "a")], [False, False])
        self.placement.done("a")
        self.assertEqual([self.fail(0, "a"), self.fail(0, "a"), self.fail(1, "a")], [False, False, False])
        self.assertFalse(self.fail(3, "a", blame=False))  # the workload's own fault
        self.assertTrue(self.fail(2, "a"))


def wanted(elements: int, hardware: str = HARDWARE) -> Shard:
    return Shard(0, hardware, "decode_kernel", problem(elements))


def tune(elements: int, hardware: str = HARDWARE) -> tuple[dict[str, Any], bytes]:
    return worker.tune({"kernel": "decode_kernel", "problem": problem(elements), "hardware": hardware, "budget": 2,
                        "time_s": 60.0, "threads": 1})


@needs_scripted_driver
class ResultsTest(unittest.TestCase):
    folder: Path
    good: tuple[dict[str, Any], bytes]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        patch = mock.patch.dict(os.environ, {"MOETUNE_DATA_DIR": str(copy_data(cls.folder / "data")),
                                             "MOETUNE_FAKE_CUDA": f"memory={4 << 20}"})
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.good = tune(16384)

    def setUp(self) -> None:
        self.results = ResultFolder(Path(tempfile.mkdtemp(dir=self.folder)) / "all.pack", "budget=2")
        lock = self.results.locked()
        lock.__enter__()
        self.addCleanup(lock.__exit__, None, None, None)

    def refused(self, sentence: str, data: Any, of: Shard = wanted(16384)) -> None:
        with self.assertRaisesRegex(BadResult, sentence):
            self.results.keep(of, data)
        self.assertFalse(self.results.has(of))
        self.assertEqual([each.name for each in self.results.folder.iterdir()], ["lock"])

    def test_results_become_a_pack(self) -> None:
        first, second = wanted(16384), wanted(32768)
        claim, data = self.good
        self.assertEqual(claim["status"], "ok", claim)
        self.results.keep(first, data)
        self.assertTrue(self.results.has(first))
        self.assertEqual(self.results.merge([first])["winners"], 1)
        self.results.require_pack()
        self.assertEqual([each["hardware"]["key"] for each in winners(self.results.into)], [HARDWARE])
        self.results.clear([first])
        self.assertFalse(self.results.has(first))
        # The pack that is there takes part in the next merge.
        self.results.keep(second, tune(32768)[1])
        self.assertEqual(self.results.merge([second])["winners"], 2)
        self.results.clear([second])
        self.refused("2 winners of 2 workloads, not one", self.results.into.read_bytes())

    def test_hostile_results(self) -> None:
        data = self.good[1]
        self.refused("is a str, not bytes", "/etc/passwd")
        self.refused("is a PosixPath, not bytes", Path("/etc/passwd"))
        with mock.patch.object(results, "LARGEST_RESULT", 1000):
            self.refused("1000 are allowed", data)
        for garbage in (b"", b"garbage", os.urandom(1 << 16), data[:5000], data[:-4096], b"SQLite format 3\0" * 500):
            self.refused("no sound pack|, not one", garbage)
        other = wanted(16384, FAKE.format(8 << 20))
        self.refused("is of Fake GPU 0.*memory=4194304.*not of.*memory=8388608", data, other)
        self.refused("is of decode_kernel elements=16384", data, wanted(32768))
        self.results.keep(wanted(16384), data)
        self.results.path(wanted(16384)).write_bytes(data[:-4096])  # damaged while no driver ran
        self.assertFalse(self.results.has(wanted(16384)))

    def test_a_recordings_winner_is_no_result(self) -> None:
        cache = self.folder / "recorded.db"
        with mock.patch.dict(os.environ):
            del os.environ["MOETUNE_DATA_DIR"]
            run_tool(["search", "router", "--device", "replay:router_h200_deepseek_v3_t64", "--budget", "1",
                      "--cache", str(cache)], 300)
        run_tool(["cache", "gc", "--keep-builds", "0", "--cache", str(cache)], 60)
        (found,) = winners(cache)
        of = Shard(0, found["hardware"]["key"], found["kernel"], found["problem"])
        self.assertIn("origin=replay:", of.hardware)
        self.refused("origin=replay:", cache.read_bytes(), of)

    def test_a_full_disk_is_not_the_nodes_fault(self) -> None:
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaisesRegex(FleetError, "No space left on device; what is there is kept") as caught:
                self.results.keep(wanted(16384), self.good[1])
        self.assertNotIsInstance(caught.exception, BadResult)
        self.assertFalse(self.results.has(wanted(16384)))

    def test_what_a_node_says_of_itself_and_of_workloads(self) -> None:
        self.assertEqual(worker.probe()["hardware"], HARDWARE)
        answers = {"another one than Fake GPU 0.*memory=8388608": tune(16384, FAKE.format(8 << 20))}
        with mock.patch.object(worker, "LARGEST_RESULT", 100):
            answers["more than 0 MiB"] = tune(16384)
        for why, (claim, data) in answers.items():
            self.assertEqual((claim["status"], data), ("broken", b""))
            self.assertRegex(claim["why"], why)
        self.assertEqual(tune(1 << 34)[0]["status"], "left_out")
        for name, why in (("MOETUNE_LIBCUDA", "no GPU"), ("MOETUNE_NVRTC", "nothing can be compiled there: ")):
            with mock.patch.dict(os.environ, {name: "/nowhere/library.so.13"}):
                self.assertIn(why, worker.probe()["why"])
                self.assertEqual(tune(16384)[0]["status"], "broken")


class OptionsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_lists_and_spans(self) -> None:
        found = read_workloads(write_list(self.folder / "w.json", [16384, 32768]))
        self.assertEqual(found, [("decode_kernel", problem(each)) for each in (16384, 32768)])
        (self.folder / "bad.json").write_text('{"moetune_workloads": 1, "workloads": [{"kernel": "nothing"}]}')
        with self.assertRaisesRegex(FleetError, "--workloads: .*nothing"):
            read_workloads(self.folder / "bad.json")
        for text, seconds in (("90", 90), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172800)):
            self.assertEqual(_seconds(text), seconds)
        for wrong in ("", "0", "h", "30m1h", "2h30", "-1", "inf", "367d", "1h 30m"):
            with self.assertRaises(ValueError):
                _seconds(wrong)

    def run_command(self, *words: str) -> tuple[int, str]:
        """With a Python that finds no Ray."""
        code = ("import sys; sys.modules['ray'] = None; sys.argv[0] = 'fleet';"
                " from moetune.fleet.__main__ import main; sys.exit(main())")
        ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        return ended.returncode, ended.stderr

    def test_the_command_says_what_is_wrong(self) -> None:
        workloads, into = write_list(self.folder / "w.json", [16384]), self.folder / "x.pack"
        tune = ("tune", "--workloads", str(workloads), "--into", str(into))
        code, said = self.run_command(*tune)
        self.assertEqual((code, said.strip().splitlines()), (3, [
            "moetune.fleet: the fleet runs on Ray, which is not installed here; pip install ray"]))
        self.assertEqual(self.run_command("tune", "--workloads", "/nowhere", "--into", str(into))[0], 2)
        self.assertEqual(self.run_command(*tune[:-1], str(workloads / "x.pack"))[0], 2)
        self.assertEqual(self.run_command(*tune, "--budget", "0")[0], 2)
        self.assertEqual(self.run_command(*tune, "--wait", "soon")[0], 2)
        cache = self.folder / "cache.db"
        run_tool(["search", "router", "--device", "replay:router_h200_deepseek_v3_t64", "--budget", "1", "--no-compile",
                  "--cache", str(cache)], 300)
        for file, why in ((into, "--into: "), (cache, "is a cache, not a pack; name another file")):
            if not file.exists():
                file.write_bytes(b"no pack")
            before = file.read_bytes()
            code, said = self.run_command(*tune[:-1], str(file))
            self.assertEqual(code, 2)
            self.assertIn(why, said)
            self.assertEqual(file.read_bytes(), before)
        with ResultFolder(into, "").locked():
            self.assertIn("another driver works on", self.run_command(*tune)[1])

    def test_names_of_others_are_printed_and_not_obeyed(self) -> None:
        self.assertEqual(printable("H200\x1b[2J\r\x7f\x9b\u202e µ …\n"), "H200\\x1b[2J\\r\\x7f\\x9b\\u202e µ …\n")


if __name__ == "__main__":
    unittest.main()
