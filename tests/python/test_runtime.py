"""The runtime from Python, on the scripted driver with numpy."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from pathlib import Path
from typing import Any, Callable

import moetune
from support import CACHE, FAMILY, Call, FullQueue, needs_scripted_driver, on_device, settled_launches


def longest_pause_during(work: Callable[[], object], beside: Callable[[], object]) -> float:
    """Of this thread, as a share of the time that `work` takes, while another thread calls `beside` over and over."""
    pause, begin = 0.0, time.perf_counter()
    last = begin
    working = threading.Thread(target=work)

    def repeat() -> None:
        while working.is_alive():
            beside()
            time.sleep(0.001)

    repeating = threading.Thread(target=repeat)
    working.start()
    repeating.start()
    while working.is_alive():
        now = time.perf_counter()
        pause, last = max(pause, now - last), now
        time.sleep(0.001)
    end = time.perf_counter()
    repeating.join()
    return max(pause, end - last) / (end - begin)


@needs_scripted_driver
class RuntimeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.runtime = moetune.open([CACHE])
        self.family = self.runtime.family("decode_attention", FAMILY)

    def tearDown(self) -> None:
        self.runtime.close()

    def test_launches_of_both_layouts_are_right(self) -> None:
        for layout in ("tokens_first", "heads_first"):
            call = Call(layout)
            arguments = call.bind(self.family)
            self.assertEqual(arguments.extents, (4, 1, 512))
            self.assertEqual(arguments.reals[0], call.SCALE)
            choice = self.family.pick(4, 1, 500, total=801)
            self.runtime.init_workspace(call.workspace)
            self.family.launch(choice, arguments, call.workspace)
            self.assertLess(call.error(), 0.02)

    def test_a_caller_may_say_that_kv_is_settled(self) -> None:
        call = Call()
        choice = self.family.pick(4, 1, 500, total=801)
        self.runtime.init_workspace(call.workspace)
        before = settled_launches()
        for said in (False, True):
            arguments = self.family.bind(*call.tensors(), layout=call.layout, scale=call.SCALE, kv_settled=said)
            self.family.launch(choice, arguments, call.workspace)
            self.assertLess(call.error(), 0.02)
        self.assertEqual(settled_launches() - before, 1)

    def test_a_choice_explains_itself(self) -> None:
        choice = self.family.pick(4, 1, 512, total=2048)
        self.assertIs(choice.kind, moetune.ChoiceKind.EXACT)
        self.assertEqual(choice.extents, (4, 1, 512))
        explained = choice.explain()
        self.assertEqual((explained["kind"], explained["file"]), ("exact", CACHE))
        self.assertGreaterEqual(self.family.workspace_bytes(4, 1, 512), choice.workspace_bytes)
        same = self.family.choice(choice.entry, choice.kind, choice.extents)
        self.assertEqual(same.explain(), explained)

    def test_more_workspace_can_be_offered_than_was_promised(self) -> None:
        with moetune.open([CACHE]) as runtime:
            family = runtime.family("decode_attention", FAMILY)
            promised = family.workspace_bytes(4, 1, 512)
            self.assertEqual(family.wanted_workspace(4, 1, 512), promised)
            family.offer_workspace(promised + 4096, 4, 1, 512)
            runtime.refresh()
            self.assertEqual(family.workspace_bytes(4, 1, 512), promised + 4096)
            with self.assertRaisesRegex(moetune.OutOfMemory, "less than the"):
                family.offer_workspace(promised, 4, 1, 512)
            with self.assertRaisesRegex(moetune.InvalidArgument, "negative"):
                family.offer_workspace(-1, 4, 1, 512)

    def test_a_range_holds_its_last_extent(self) -> None:
        self.assertEqual(self.family.pick_range(4, 1, 1, last=512).extents, (4, 1, 512))
        self.assertEqual(self.family.pick_range(4, 1, 1, last=512, total=2048).extents, (4, 1, 512))
        with self.assertRaises(moetune.InvalidArgument):
            self.family.pick_range(4, 1, 1, last=512, total=-1)

    def test_arguments_keep_their_tensors_and_no_longer(self) -> None:
        call = Call()
        bound = call.bind(self.family)
        makers: tuple[Callable[[Any], Any], ...] = (
            lambda tensors: self.family.bind(*tensors, layout=call.layout),
            lambda tensors: moetune.Arguments.from_fields(tensors, bound.integers, bound.reals))
        for make in makers:
            owner = call.q.view()
            arguments = make([on_device(owner, "bfloat16"), *call.tensors()[1:]])
            kept = weakref.ref(owner)
            del owner
            self.assertIsNotNone(kept())
            del arguments
            self.assertIsNone(kept())

    def test_arguments_by_hand_are_those_of_bind(self) -> None:
        call = Call()
        bound = call.bind(self.family)
        made = moetune.Arguments.from_fields(call.tensors(), bound.integers, bound.reals)
        self.assertEqual(made.tensors, bound.tensors)
        by_address = moetune.Arguments.from_fields(bound.tensors, bound.integers, bound.reals)
        self.family.launch(self.family.pick(4, 1, 500), by_address, call.workspace, stream=0)
        self.assertLess(call.error(), 0.02)

    def test_other_threads_run_while_a_launch_waits(self) -> None:
        call = Call()
        arguments, choice = call.bind(self.family), self.family.pick(4, 1, 500)
        with FullQueue():
            waiting = threading.Thread(target=self.family.launch, args=(choice, arguments, call.workspace))
            begin = time.monotonic()
            waiting.start()
            time.sleep(0.2)
            self.family.pick(4, 1, 300)
            self.assertTrue(waiting.is_alive())
        waiting.join()
        self.assertLess(time.monotonic() - begin, 8)
        self.assertLess(call.error(), 0.02)

    def test_counts_and_misses(self) -> None:
        self.family.pick(4, 1, 512, total=2048)
        self.family.pick(4, 1, 300)
        counts = self.runtime.counts
        self.assertEqual((counts.exact + counts.nearest + counts.defaults, counts.launches), (2, 0))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "misses.json"
            self.runtime.write_misses(path)
            self.assertEqual(json.loads(path.read_text())["moetune_misses"], 1)

    def test_the_current_device(self) -> None:
        with moetune.open([CACHE], device=-1) as runtime:
            self.assertEqual(runtime.device, 0)

    def test_a_generation_is_prepared_before_it_is_taken(self) -> None:
        before = self.runtime.generation
        self.assertEqual(self.runtime.prepare(), before)
        self.runtime.refresh(before)
        self.assertEqual(self.runtime.generation, before)

    def test_generations(self) -> None:
        name = self.runtime.generation
        self.assertRegex(name, "^[0-9a-f]{32}$")
        self.runtime.refresh()
        self.assertEqual(self.runtime.generation, name)
        self.runtime.refresh(name)
        with self.assertRaises(moetune.UnknownName):
            self.runtime.refresh("0" * 32)

    def test_paths_that_cannot_be_opened_are_warnings(self) -> None:
        with moetune.open([CACHE, "/nowhere.db"]) as runtime:
            self.assertIn("/nowhere.db", "\n".join(runtime.warnings))
        self.assertTrue(runtime.closed)

    def test_threads_pick_and_launch_while_others_refresh(self) -> None:
        failures: list[Exception] = []

        def repeat(work: object, count: int) -> None:
            try:
                for _ in range(count):
                    work()  # type: ignore[operator]
            except Exception as error:
                failures.append(error)

        call = Call()
        call.lengths[:] = 1
        arguments = call.bind(self.family)
        work = [(lambda: self.family.launch(self.family.pick(4, 1, 500), arguments, call.workspace), 300)] * 3
        threads = [threading.Thread(target=repeat, args=each) for each in [*work, (self.runtime.refresh, 20)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_other_threads_run_while_one_waits_for_a_refresh(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(100):  # for a refresh of some length
                (Path(folder) / f"{number}.db").symlink_to(CACHE)
            with moetune.open([folder]) as runtime:
                runtime.family("decode_attention", FAMILY)
                for ask in (lambda: runtime.counts, lambda: runtime.generation, lambda: runtime.warnings):
                    # Nearly 1 every time if a refresh kept others from running; a busy machine pauses now and then.
                    self.assertTrue(any(longest_pause_during(runtime.refresh, ask) < 0.5 for _ in range(50)))

    def test_closing_while_threads_launch_raises_there(self) -> None:
        call = Call()
        call.lengths[:] = 1
        arguments = call.bind(self.family)
        ended: list[str] = []

        def launch_until_closed() -> None:
            try:
                while True:
                    self.family.launch(self.family.pick(4, 1, 500), arguments, call.workspace)
            except moetune.InvalidArgument as error:
                ended.append(str(error))

        threads = [threading.Thread(target=launch_until_closed) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.runtime.close()
        for thread in threads:
            thread.join()
        self.assertEqual(ended, ["the runtime is closed"] * 3)


class PackageTest(unittest.TestCase):
    def test_versions(self) -> None:
        self.assertRegex(moetune.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(moetune.abi_version()[0], 1)

    def test_the_tool_runs(self) -> None:
        shown = subprocess.run([sys.executable, "-m", "moetune", "--version"], capture_output=True, text=True,
                               check=True)
        self.assertIn(moetune.__version__, shown.stdout)

    def test_every_function_of_the_c_interface_is_reached(self) -> None:
        source = os.environ.get("MOETUNE_SOURCE", "")
        if not source:
            self.skipTest("there is no source folder beside the package")
        declared = set()
        for line in (Path(source) / "include/moetune.h").read_text().splitlines():
            if line.startswith("MOETUNE_API "):
                declared.add(line.partition("(")[0].split()[-1].lstrip("*"))
        called = "".join(path.read_text() for path in (*(Path(source) / "python/src").iterdir(),
                                                       Path(source) / "python/moetune/_version.py"))
        # An error's class says what a status's name would.
        reached = set(re.findall(r"\bmoetune_\w+", called))
        self.assertEqual(declared - reached, {"moetune_status_name"})


if __name__ == "__main__":
    unittest.main()
