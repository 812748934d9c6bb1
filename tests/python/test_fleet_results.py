"""Results as enemies may send them, merging, and what a node does, on the scripted GPU. No cluster."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from fleet_support import winners
from made_up_recordings import copy_data, problem, write_list, write_recording
from moetune.fleet import worker
from moetune.fleet.command import FleetError, run_tool
from moetune.fleet.driver import printable
from moetune.fleet.results import BadResult, ResultFolder, Wanted, is_pack, read_workloads, task_key
from support import needs_scripted_driver

FAKE = "Fake GPU 0,cc=90,sms=4,l2=1048576,memory={},sm_khz=1000000,memory_khz=2000000,origin=gpu"


def wanted_of(elements: int, hardware: str, recorded: bool = False) -> Wanted:
    key = task_key("decode_kernel", problem(elements), hardware, "")
    return Wanted(key, "decode_kernel", problem(elements), hardware, recorded)


def request_of(wanted: Wanted) -> dict[str, Any]:
    return {"key": wanted.key, "kernel": wanted.kernel, "problem": wanted.problem, "hardware": wanted.hardware,
            "recorded": wanted.recorded, "budget": 2, "time_s": 60.0, "threads": 1, "largest_bytes": 1 << 24}


@needs_scripted_driver
class ResultsTest(unittest.TestCase):
    folder: Path
    data: Path
    hardware = FAKE.format(4 << 20)
    good: tuple[dict[str, Any], bytes]
    recorded: tuple[dict[str, Any], bytes]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.data = copy_data(cls.folder / "data")
        write_recording(cls.data, "NVIDIA Test", 16384, (10.0, 12.0))
        environment = {"MOETUNE_DATA_DIR": str(cls.data), "MOETUNE_FAKE_CUDA": f"memory={4 << 20}"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.good = worker.tune(request_of(wanted_of(16384, cls.hardware)))
        cls.recorded = worker.tune(request_of(wanted_of(16384, "recorded NVIDIA Test", True)))

    def setUp(self) -> None:
        self.results = ResultFolder(Path(tempfile.mkdtemp(dir=self.folder)) / "all.pack")
        lock = self.results.locked()
        lock.__enter__()
        self.addCleanup(lock.__exit__, None, None, None)

    def refused(self, sentence: str, wanted: Wanted, data: Any, claim: Any, **options: Any) -> None:
        with self.assertRaisesRegex(BadResult, sentence):
            self.results.keep(wanted, data, claim, **options)
        self.assertFalse(self.results.has(wanted))
        self.assertEqual([each.name for each in self.results.folder.iterdir()], ["lock"])

    def claim(self, wanted: Wanted, data: bytes) -> dict[str, Any]:
        return {"status": "ok", "key": wanted.key, "sha256": hashlib.sha256(data).hexdigest()}

    def test_a_result_becomes_a_pack(self) -> None:
        wanted = wanted_of(16384, self.hardware)
        claim, data = self.good
        self.assertEqual(claim["status"], "ok", claim)
        self.results.keep(wanted, data, claim)
        self.assertTrue(self.results.has(wanted))
        self.results.keep(wanted, data, claim, copy=True)  # it came twice
        merged = self.results.merge([wanted])
        self.assertEqual((merged["winners_added"], merged["winners_equal"]), (1, 1))
        self.assertTrue(is_pack(self.results.into))
        self.assertFalse(is_pack(self.results.merged))
        (winner,) = winners(self.results.into)
        self.assertEqual(winner["hardware"]["key"], self.hardware)
        again = self.results.merge([wanted])
        self.assertEqual((again["winners_added"], again["winners_equal"]), (1, 2))
        self.results.clear([wanted])
        self.assertFalse(self.results.has(wanted))

    def test_hostile_results(self) -> None:
        wanted = wanted_of(16384, self.hardware)
        claim, data = self.good
        self.refused("is a str, not bytes", wanted, "/etc/passwd", claim)
        self.refused("is a PosixPath, not bytes", wanted, Path("/etc/passwd"), claim)
        self.refused("1000 are allowed", wanted, data, claim, largest=1000)
        self.refused("of another workload", wanted, data, {**claim, "key": "../../etc/cron.d/x"})
        self.refused("of another workload", wanted, data, "claim")
        self.refused("digest is not", wanted, data[:-1], claim)
        for garbage in (b"", b"garbage", os.urandom(1 << 16), data[:5000], data[:-4096], b"SQLite format 3\0" * 500):
            self.refused("no sound pack|instead of one", wanted, garbage, self.claim(wanted, garbage))
        for place in (100, 5000, len(data) // 2, len(data) - 100):
            changed = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1:]
            try:  # SQLite's pages have unused bytes, whose change is no change of the winner
                self.results.keep(wanted, changed, self.claim(wanted, changed))
                self.assertTrue(self.results.has(wanted))
                self.results.clear([wanted])
            except BadResult:
                pass

    def test_a_full_disk_is_not_the_nodes_fault(self) -> None:
        wanted = wanted_of(16384, self.hardware)
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaisesRegex(FleetError, "No space left on device; what is there is kept") as caught:
                self.results.keep(wanted, self.good[1], self.good[0])
        self.assertNotIsInstance(caught.exception, BadResult)
        self.assertFalse(self.results.has(wanted))

    def test_results_of_something_else(self) -> None:
        claim, data = self.good
        other = wanted_of(16384, FAKE.format(8 << 20))
        self.refused("is of Fake GPU 0.*memory=4194304.*not of.*memory=8388608", other, data, self.claim(other, data))
        other = wanted_of(32768, self.hardware)
        self.refused("is of decode_kernel elements=16384", other, data, self.claim(other, data))

    def test_two_winners_in_one_result(self) -> None:
        first, second = wanted_of(16384, self.hardware), wanted_of(32768, self.hardware)
        claim, data = worker.tune(request_of(second))
        self.results.keep(first, self.good[1], self.good[0])
        self.results.keep(second, data, claim)
        self.results.merge([first, second])
        both = self.results.into.read_bytes()
        with self.assertRaisesRegex(BadResult, "2 winners of 2 workloads instead of one"):
            self.results.keep(first, both, self.claim(first, both), copy=True)

    def test_recorded_winners_stay_recorded(self) -> None:
        claim, data = self.recorded
        self.assertEqual(claim["status"], "ok", claim)
        # Nobody asked for a recording: not as a GPU's, nor under the recorded hardware's name.
        key = winners(self.write(data))[0]["hardware"]["key"]
        self.assertIn("origin=replay:", key)
        for hardware in (self.hardware, key, "recorded NVIDIA Test"):
            wanted = wanted_of(16384, hardware)
            self.refused("origin=replay:", wanted, data, self.claim(wanted, data))
        # A GPU's result is none of a recording either.
        wanted = wanted_of(16384, "recorded NVIDIA Test", True)
        self.refused("origin=gpu", wanted, self.good[1], self.claim(wanted, self.good[1]))
        # One that was asked for is merged with its mark, and goes into no pack.
        self.results.keep(wanted, data, claim)
        merged = self.results.merge([wanted])
        self.assertIsNone(merged["pack"])
        self.assertFalse(self.results.into.exists())
        (winner,) = winners(self.results.merged)
        self.assertTrue(winner["recorded"])
        # Not beside a GPU's winner of the same problem.
        real = wanted_of(16384, self.hardware)
        self.results.keep(real, self.good[1], self.good[0])
        self.results.merge([wanted, real])
        self.assertEqual(len(winners(self.results.merged)), 2)
        self.assertEqual([each["recorded"] for each in winners(self.results.into)], [False])

    def write(self, data: bytes) -> Path:
        path = Path(tempfile.mkdtemp(dir=self.folder)) / "x.db"
        path.write_bytes(data)
        return path

    def test_a_node_checks_its_hardware(self) -> None:
        claim, data = worker.tune(request_of(wanted_of(16384, FAKE.format(8 << 20))))
        self.assertEqual((claim["status"], data), ("broken", b""))
        self.assertIn("before the search the GPU was Fake GPU 0", claim["why"])
        self.assertEqual(worker.probe(False)["hardware"], self.hardware)
        self.assertEqual(worker.probe(True)["hardware"], "recorded NVIDIA Test")
        seen = iter([self.hardware, "another"])
        with mock.patch.object(worker, "hardware", lambda _: next(seen)):
            claim, data = worker.tune(request_of(wanted_of(16384, self.hardware)))
        self.assertEqual((claim["status"], data), ("broken", b""))
        self.assertIn("after the search the GPU was another", claim["why"])

    def test_without_a_gpu_nothing_is_replayed(self) -> None:
        with mock.patch.dict(os.environ, {"MOETUNE_LIBCUDA": "/nowhere"}):
            self.assertIn("no GPU", worker.probe(False)["why"])
            claim, data = worker.tune(request_of(wanted_of(16384, self.hardware)))
        self.assertEqual((claim["status"], data), ("broken", b""))

    def test_a_node_that_can_compile_nothing_is_broken(self) -> None:
        with mock.patch.dict(os.environ, {"MOETUNE_NVRTC": "/nowhere/libnvrtc.so.13"}):
            for recorded in (False, True):
                found = worker.probe(recorded)
                self.assertEqual(found["status"], "broken")
                self.assertIn("nothing can be compiled there: MOETUNE_NVRTC: cannot open /nowhere/", found["why"])

    def test_workloads_that_a_node_cannot_have(self) -> None:
        claim, _ = worker.tune(request_of(wanted_of(1 << 34, self.hardware)))
        self.assertEqual(claim["status"], "left_out", claim)
        claim, _ = worker.tune(request_of(wanted_of(32768, "recorded NVIDIA Test", True)))
        self.assertEqual((claim["status"], claim["why"][:12]), ("left_out", "no recording"))
        claim, _ = worker.tune({**request_of(wanted_of(16384, self.hardware)), "largest_bytes": 100})
        self.assertIn("more than the 100 bytes", claim["why"])

    def test_install_duels_and_goes_back(self) -> None:
        wanted = wanted_of(16384, self.hardware)
        self.results.keep(wanted, self.good[1], self.good[0])
        self.results.merge([wanted])
        pack = self.results.into.read_bytes()
        with mock.patch.dict(os.environ, {"DISK": tempfile.mkdtemp(dir=self.folder)}):
            path = Path(os.environ["DISK"]) / "packs/h.pack"
            request = {"path": "$DISK/packs/h.pack", "sha256": hashlib.sha256(pack).hexdigest(),
                       "duels": [["decode_kernel", wanted.problem], ["decode_kernel", problem(32768)]]}
            self.assertEqual(worker.install(request, pack), {"status": "ok", "changed": True})
            self.assertEqual(path.read_bytes(), pack)
            self.assertEqual(worker.install(request, pack), {"status": "ok", "changed": False})
            self.assertEqual(worker.restore(request), {"status": "ok"})
            self.assertFalse(path.exists())
            key = self.folder / "key"
            run_tool(["cache", "new-key", str(key)], 60)
            run_tool(["cache", "sign", str(self.results.into), "--key", str(key)], 60)
            signature = worker.signature_path(self.results.into).read_text()
            self.assertEqual(worker.install({**request, "signature": signature}, pack)["status"], "ok")
            run_tool(["cache", "check", str(path), "--trust", f"{key}.pub"], 60)
            self.assertEqual(worker.restore(request), {"status": "ok"})
            path.write_bytes(b"what was there before")
            self.assertIn("arrived damaged", worker.install(request, pack[:-1])["why"])
            broken = {**request, "sha256": hashlib.sha256(pack[:-9000]).hexdigest()}
            self.assertEqual(worker.install(broken, pack[:-9000])["status"], "broken")
            with mock.patch.dict(os.environ, {"MOETUNE_FAKE_CUDA": f"memory={4 << 20},bad_image"}):
                self.assertEqual(worker.install(request, pack)["status"], "lost")
            self.assertEqual(path.read_bytes(), b"what was there before")
            self.assertEqual(worker.restore(request), {"status": "ok"})
            self.assertEqual(path.read_bytes(), b"what was there before")
        self.assertIn("no absolute path", worker.install({**request, "path": "x.pack"}, pack)["why"])


class OptionsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_lists(self) -> None:
        found = read_workloads(write_list(self.folder / "w.json", [16384, 32768]))
        self.assertEqual([each["problem"] for each in found], [problem(16384), problem(32768)])
        (self.folder / "bad.json").write_text('{"moetune_workloads": 1, "workloads": [{"kernel": "nothing"}]}')
        with self.assertRaisesRegex(FleetError, "--workloads: .*nothing"):
            read_workloads(self.folder / "bad.json")

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
        self.assertEqual(self.run_command(*tune, "--budget", "0")[0], 2)
        self.assertEqual(self.run_command(*tune, "--wait", "soon")[0], 2)
        into.write_bytes(b"no pack")
        code, said = self.run_command(*tune)
        self.assertEqual(code, 2)
        self.assertIn("--into: ", said)
        self.assertEqual(into.read_bytes(), b"no pack")
        with ResultFolder(into).locked():
            self.assertIn("another driver works on", self.run_command(*tune)[1])

    def test_names_of_others_are_printed_and_not_obeyed(self) -> None:
        self.assertEqual(printable("H200\x1b[2J\r\x7f\x9b\u202e µ …\n"), "H200\\x1b[2J\\r\\x7f\\x9b\\u202e µ …\n")


if __name__ == "__main__":
    unittest.main()
