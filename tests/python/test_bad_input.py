"""What a careless caller may pass: one exception with a sentence, never a crash, and the next good call works."""

import copy
import os
import pickle
import shutil
import tempfile
import unittest
from typing import Any, Callable

import numpy as np

import moetune
from support import CACHE, FAMILY, Call, aligned, needs_scripted_driver, on_device

HANDLES: tuple[Any, ...] = (moetune.Runtime, moetune.Family, moetune.Choice, moetune.Arguments)


@needs_scripted_driver
class BadInputTest(unittest.TestCase):
    def setUp(self) -> None:
        self.runtime = moetune.open([CACHE])
        self.family = self.runtime.family("decode_attention", FAMILY)
        self.call = Call()
        self.arguments = self.call.bind(self.family)
        self.choice = self.family.pick(4, 1, 500)

    def tearDown(self) -> None:
        self.family.launch(self.choice, self.arguments, self.call.workspace)
        self.assertLess(self.call.error(), 0.02)
        self.runtime.close()

    def refused(self, kind: type[Exception], sentence: str, work: Callable[[], Any]) -> None:
        with self.assertRaisesRegex(kind, sentence):
            work()

    def bind_with(self, slot: int, tensor: Any) -> Callable[[], Any]:
        tensors = self.call.tensors()
        tensors[slot] = tensor
        return lambda: self.family.bind(*tensors, layout="tokens_first")

    def test_tensors(self) -> None:
        q = self.call.q
        invalid = moetune.InvalidArgument
        self.refused(invalid, "'q' is f16", self.bind_with(0, on_device(q, "float16")))
        every_other = aligned((4, 8, 256), np.uint16)[:, :, ::2]
        self.refused(invalid, "side by side", self.bind_with(0, on_device(every_other, "bfloat16")))
        self.refused(invalid, "'q' is missing", self.bind_with(0, None))
        self.refused(invalid, "'q' has 1 dim", self.bind_with(0, on_device(q.reshape(-1), "bfloat16")))
        self.refused(invalid, "no kernel takes", self.bind_with(0, on_device(q, "uint64")))
        self.refused(invalid, "differ in shape", self.bind_with(1, on_device(self.call.k[:, :, :, :64], "bfloat16")))
        self.refused(invalid, "'page_table' is i64",
                     self.bind_with(3, on_device(aligned((4, 32), np.int64), "int64")))
        self.refused(invalid, "rows", self.bind_with(3, on_device(self.call.page_table[:2], "int32")))
        self.refused(moetune.WrongDevice, "not in the memory of a GPU", self.bind_with(0, q.view(np.float16)))
        self.refused(moetune.WrongDevice, "device 1", self.bind_with(0, on_device(q, "bfloat16", device=1)))
        self.refused(TypeError, "DLPack", self.bind_with(0, "q"))
        self.refused(TypeError, "DLPack", self.bind_with(0, object()))
        self.refused(invalid, "16 tensors|takes 10", lambda: self.family.bind(*[None] * 17))

    def test_devices_that_no_number_fits(self) -> None:
        for device in (-1, 2**31, 2**40):
            self.refused(moetune.InvalidArgument, "no device",
                         lambda: moetune.from_address(4096, (4,), "uint8", device=device))

    def test_shapes_of_no_memory(self) -> None:
        self.refused(moetune.InvalidArgument, "no negative sizes", lambda: moetune.from_address(4096, (4, -1), "uint8"))
        self.refused(moetune.InvalidArgument, "differ in length",
                     lambda: moetune.from_address(4096, (4, 2), "uint8", strides=(2,)))

    def test_options(self) -> None:
        tensors = self.call.tensors()
        for options in ({"scale": -1}, {"scale": "nan"}, {"layout": "other"}, {"unknown": 1}, {"a=b,c": ",=,"}):
            self.refused(moetune.InvalidArgument, "", lambda: self.family.bind(*tensors, **options))

    def test_extents(self) -> None:
        for extents in ((0, 1, 1), (-1, 1, 1), (1, 1), (1, 1, 1, 1), (1, 1, 1, 1, 1), (2**62, 1, 1), ()):
            self.refused(moetune.InvalidArgument, "", lambda: self.family.pick(*extents))
            self.refused(moetune.InvalidArgument, "", lambda: self.family.workspace_bytes(*extents))
        self.refused(Exception, "", lambda: self.family.pick(2**80, 1, 1))
        for wrong in (None, "1", 1.5, [1]):
            self.refused(TypeError, "int", lambda: self.family.pick(wrong, 1, 1))  # type: ignore[arg-type]

    def test_a_page_table_narrower_than_the_choice(self) -> None:
        longer = self.family.pick(4, 1, 513)
        by_hand = moetune.Arguments.from_fields(self.arguments.tensors, self.arguments.integers, self.arguments.reals)
        self.refused(moetune.InvalidArgument, "capacity", lambda: self.family.launch(longer, by_hand,
                                                                                     self.call.workspace))

    def test_tensors_with_less_room_than_the_choice(self) -> None:
        for extents in ((4, 1, 513), (8, 1, 500), (4, 2, 500)):
            larger = self.family.pick(*extents)
            self.refused(moetune.InvalidArgument, r"room for \(4, 1, 512\)",
                         lambda: self.family.launch(larger, self.arguments, self.call.workspace))

    def test_arguments_of_another_runtime(self) -> None:
        with moetune.open([CACHE]) as other:
            bound = self.call.bind(other.family("decode_attention", FAMILY))
            self.refused(moetune.InvalidArgument, "another family",
                         lambda: self.family.launch(self.choice, bound, self.call.workspace))

    def test_memory_of_another_device(self) -> None:
        host = aligned((1 << 21,), np.uint8)
        for memory in (host, moetune.from_address(host.ctypes.data, host.shape, "uint8", device=3)):
            self.refused(moetune.WrongDevice, "device 0",
                         lambda: self.family.launch(self.choice, self.arguments, memory))
            self.refused(moetune.WrongDevice, "device 0", lambda: self.runtime.init_workspace(memory))
        tensors = [*self.call.tensors()]
        tensors[0] = moetune.from_address(self.call.q.ctypes.data, self.call.q.shape, "bfloat16", device=3)
        elsewhere = moetune.Arguments.from_fields(tensors[:1], self.arguments.integers, self.arguments.reals)
        self.refused(moetune.WrongDevice, "device 3",
                     lambda: self.family.launch(self.choice, elsewhere, self.call.workspace))

    def test_sentences_and_names_that_are_not_utf8(self) -> None:
        self.refused(moetune.UnknownName, "é", lambda: self.runtime.refresh("é" * 3000))
        with tempfile.TemporaryDirectory() as folder:
            name = os.fsencode(folder) + b"/\xff.db"
            with open(name, "wb") as file:
                file.write(b"no cache")
            with moetune.open([CACHE, os.fsdecode(name)]) as runtime:
                self.assertIn("\N{REPLACEMENT CHARACTER}.db", "".join(runtime.warnings))
            shutil.copy(CACHE, os.fsdecode(name))
            with moetune.open([os.fsdecode(name)]) as runtime:
                runtime.family("decode_attention", FAMILY)
                runtime.write_misses(os.fsdecode(name) + ".json")
                self.assertTrue(os.path.exists(name + b".json"))

    def test_launches(self) -> None:
        family, choice, arguments, workspace = self.family, self.choice, self.arguments, self.call.workspace
        self.refused(TypeError, "Choice", lambda: family.launch(None, arguments, workspace))  # type: ignore[arg-type]
        self.refused(TypeError, "Arguments", lambda: family.launch(choice, None, workspace))  # type: ignore[arg-type]
        self.refused(TypeError, "Choice", lambda: family.launch(arguments, choice, workspace))  # type: ignore[arg-type]
        self.refused(TypeError, "stream", lambda: family.launch(choice, arguments, workspace, stream=object()))
        self.refused(moetune.InvalidArgument, "state the stream", lambda: family.launch(choice, arguments))
        self.refused(TypeError, "DLPack", lambda: family.launch(choice, arguments, 5))
        crooked = on_device(aligned((1 << 21,), np.uint8)[1:], "uint8")
        self.refused(moetune.InvalidArgument, "256", lambda: family.launch(choice, arguments, crooked))
        strided = on_device(aligned((1 << 21,), np.uint8)[::2], "uint8")
        self.refused(moetune.InvalidArgument, "contiguous", lambda: family.launch(choice, arguments, strided))
        small = on_device(aligned((256,), np.uint8), "uint8")
        self.refused(moetune.Error, "", lambda: self.runtime.init_workspace(small))
        self.refused(moetune.InvalidArgument, "null", lambda: self.runtime.init_workspace(None))
        empty = moetune.Arguments.from_fields([], [], [])
        self.refused(moetune.InvalidArgument, "", lambda: family.launch(choice, empty, workspace))
        self.refused(moetune.InvalidArgument, "at most", lambda: moetune.Arguments.from_fields([0] * 17, [], []))
        foreign = family.choice(99, 0, (4, 1, 500))
        self.refused(moetune.InvalidArgument, "", lambda: family.launch(foreign, arguments, workspace))

    def test_a_closed_runtimes_objects_never_pass_for_a_later_ones(self) -> None:
        for _ in range(20):  # a later family may get an earlier one's address
            with moetune.open([CACHE]) as earlier:
                family = earlier.family("decode_attention", FAMILY)
                choice, arguments = family.pick(4, 1, 500), self.call.bind(family)
            with moetune.open([CACHE]) as later:
                family = later.family("decode_attention", FAMILY)
                self.refused(moetune.InvalidArgument, "another family",
                             lambda: family.launch(choice, self.call.bind(family), self.call.workspace))
                self.refused(moetune.InvalidArgument, "another family",
                             lambda: family.launch(family.pick(4, 1, 500), arguments, self.call.workspace))

    def test_objects_are_not_made_from_nothing(self) -> None:
        for made in HANDLES:
            self.refused(TypeError, "moetune.open", made)

    def test_objects_that_hold_nothing(self) -> None:
        empty = {kind: kind.__new__(kind) for kind in HANDLES}
        for kind, each in empty.items():
            for name in [name for name, value in vars(kind).items() if isinstance(value, property)]:
                self.refused(TypeError, f"{kind.__name__} .*holds nothing", lambda: getattr(each, name))
            repr(each), hash(each)
        runtime, family = empty[moetune.Runtime], empty[moetune.Family]
        choice, arguments = empty[moetune.Choice], empty[moetune.Arguments]
        works: list[Callable[[], Any]] = [
            runtime.close, runtime.refresh, lambda: runtime.family("router"), lambda: runtime.write_misses("/tmp/x"),
            lambda: runtime.init_workspace(self.call.workspace), lambda: family.pick(4, 1, 5), choice.explain,
            lambda: family.pick_range(4, 1, 1, last=5), lambda: family.choice(0, 0, [4, 1, 5]),
            lambda: family.workspace_bytes(4, 1, 5), lambda: family.bind(*self.call.tensors()),
            lambda: family.launch(self.choice, self.arguments, self.call.workspace),
            lambda: self.family.launch(choice, self.arguments, self.call.workspace),
            lambda: self.family.launch(self.choice, arguments, self.call.workspace)]
        for work in works:
            self.refused(TypeError, "holds nothing", work)
        for each in empty.values():
            for work in (lambda: self.family.pick(each, 1, 1), lambda: self.family.bind(each),
                         lambda: self.runtime.init_workspace(each), lambda: self.runtime.family(each),
                         lambda: self.family.launch(self.choice, self.arguments, each)):
                self.refused(TypeError, "", work)

    def test_objects_are_not_copied(self) -> None:
        for each in (self.runtime, self.family, self.choice, self.arguments):
            for work in (copy.copy, copy.deepcopy, pickle.dumps):
                self.refused(TypeError, "copied or pickled", lambda: work(each))

    def test_files_and_names(self) -> None:
        self.refused(moetune.BadFile, "/nowhere", lambda: moetune.open(["/nowhere"]))
        with tempfile.TemporaryDirectory() as empty:
            self.refused(moetune.NotTuned, "there is no cache and no pack; run moetune search",
                         lambda: moetune.open([empty]))
        self.refused(moetune.BadFile, "", lambda: moetune.open(["/dev/null"]))
        self.refused(TypeError, "list of paths", lambda: moetune.open(CACHE))
        self.refused(TypeError, "", lambda: moetune.open([None]))  # type: ignore[list-item]
        self.refused(moetune.WrongDevice, "device 99", lambda: moetune.open([CACHE], device=99))
        self.refused(moetune.InvalidArgument, "", lambda: moetune.open([CACHE], device=2**40))
        self.refused(moetune.Error, "unknown kernel", lambda: self.runtime.family("decode"))
        self.refused(moetune.Error, "", lambda: self.runtime.family("decode_attention", "group=x"))
        self.refused(moetune.NotTuned, "moetune search", lambda: self.runtime.family("decode_attention", "group=5"))
        self.refused(TypeError, "", lambda: self.runtime.family(None))  # type: ignore[arg-type]
        self.refused(moetune.Error, "", lambda: self.runtime.write_misses("/nowhere/misses.json"))

    def test_every_path_is_read_as_given(self) -> None:
        names = [f"/{'moetune-absent'[:length]}" for length in range(1, 12)]
        with moetune.open([*names, CACHE]) as runtime:
            self.assertEqual([line.rpartition(" ")[2] for line in runtime.warnings], names)

    def test_null_characters(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for sentence, work in (
                    ("a path holds a null character, after '/tmp/a'", lambda: moetune.open([CACHE, "/tmp/a\0b"])),
                    ("the path holds", lambda: self.runtime.write_misses(f"{folder}/a\0b")),
                    ("kernel's name holds", lambda: self.runtime.family("decode_attention\0x", FAMILY)),
                    ("specialization holds", lambda: self.runtime.family("decode_attention", f"{FAMILY}\0,x")),
                    ("generation holds", lambda: self.runtime.refresh(f"{self.runtime.generation}\0x")),
                    ("option holds", lambda: self.family.bind(*self.call.tensors(), layout="tokens_first\0x"))):
                self.refused(moetune.InvalidArgument, sentence, work)
            self.assertEqual(os.listdir(folder), [])

    def test_a_closed_runtime(self) -> None:
        runtime = moetune.open([CACHE])
        family = runtime.family("decode_attention", FAMILY)
        choice = family.pick(4, 1, 500)
        arguments = self.call.bind(family)
        runtime.close()
        runtime.close()
        for work in (lambda: family.pick(4, 1, 500), lambda: family.pick_range(4, 1, 1, last=500),
                     lambda: family.bind(*self.call.tensors()), lambda: choice.explain(),
                     lambda: choice.workspace_bytes, lambda: family.workspace_bytes(4, 1, 500),
                     lambda: family.launch(choice, arguments, self.call.workspace), lambda: runtime.counts,
                     lambda: runtime.generation, lambda: runtime.warnings, lambda: runtime.refresh(),
                     lambda: runtime.family("decode_attention", FAMILY), lambda: runtime.write_misses("/tmp/x"),
                     lambda: runtime.init_workspace(self.call.workspace)):
            self.refused(moetune.InvalidArgument, "the runtime is closed", work)

    def test_any_objects_at_all(self) -> None:
        random = np.random.default_rng(5)
        junk = [None, 0, 1, -1, 2**63 - 1, 2**64, 1.5, float("nan"), "", "decode_attention", "group=8", b"x", [], {},
                (), object(), self.runtime, self.family, self.choice, self.arguments, self.call.workspace, self.call.q,
                np.float32(1), np.int64(4), np.zeros(0), np.array("text"),
                on_device(aligned((0, 4), np.int32), "int32")]
        works: list[Callable[..., Any]] = [
            self.family.pick, self.family.bind, self.family.workspace_bytes, self.family.choice, self.runtime.family,
            self.runtime.refresh, self.runtime.init_workspace, moetune.Arguments.from_fields,
            lambda *each: self.family.pick_range(*each, last=each[0] if each else 0),
            lambda *each: self.family.launch(*each[:3]), lambda *each: moetune.open(*each[:2])]
        for _ in range(4000):
            work = works[random.integers(len(works))]
            try:
                work(*(junk[random.integers(len(junk))] for _ in range(random.integers(6))))
            except Exception as error:
                self.assertNotIsInstance(error, moetune.InternalError, str(error))

    def test_every_status_has_its_class(self) -> None:
        classes = moetune.Error.__subclasses__()
        self.assertEqual(sorted(each.status for each in classes), list(range(1, 11)))


if __name__ == "__main__":
    unittest.main()
