"""moetune.tune() on the scripted driver, whose kernel `double` writes y = 2x; compiled by whatever NVRTC is there."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import moetune
from moetune._arrays import Array, Scalar, argument_of
from moetune._signature import Parameter, local_sources, parameters_of
from support import aligned, needs_scripted_driver, on_device

N = 4096
# As many microseconds as its grid has blocks.
BLOCKS = """
#include "double.cuh"
extern "C" __global__ void double__blocks(const float* __restrict__ x, float* y, const long long n) {
  const long long i = (long long)blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = doubled(x[i]);
}
"""
HEADER = "__device__ float doubled(float x) { return 2 * x; }\n"


def has_compiler() -> bool:
    shown = subprocess.run([sys.executable, "-m", "moetune", "devices", "--json"], capture_output=True, text=True,
                           timeout=60, check=False)
    return bool(json.loads(shown.stdout or "{}").get("compiler"))


@needs_scripted_driver
class TuneTest(unittest.TestCase):
    def setUp(self) -> None:
        if not has_compiler():
            self.skipTest("no NVRTC is installed")
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        variables = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder)})
        variables.start()
        self.addCleanup(variables.stop)
        self.source = self.folder / "mine.cu"
        self.source.write_text(BLOCKS)
        (self.folder / "double.cuh").write_text(HEADER)
        self.x = np.random.default_rng(3).standard_normal(N).astype(np.float32)
        self.said = io.StringIO()

    def tune(self, **options: Any) -> moetune.Tuned:
        given: dict[str, Any] = {
            "args": [self.x, np.zeros(N, np.float32), np.int64(N)], "params": {"block_size_x": [32, 64, 256, 128]},
            "grid": "n // block_size_x", "block": "block_size_x", "reference": lambda x, y, n: 2 * x,
            "cache": self.folder / "tuned.db", "name": "twice", **options}
        with contextlib.redirect_stderr(self.said):
            return moetune.tune(self.source, "double__blocks", **given)

    def test_the_fastest_is_found_checked_and_stored(self) -> None:
        best = self.tune()
        self.assertEqual(best.config, {"block_size_x": 256})
        self.assertAlmostEqual(best.time_us, N / 256, places=3)
        self.assertAlmostEqual(best.default_time_us or 0, N / 32, places=3)
        self.assertEqual(best.document["trials"]["ok"], 4)
        self.assertIn("block_size_x=128", self.said.getvalue())
        described = json.loads((best.folder / "kernel.json").read_text())
        self.assertEqual([one["role"] for one in described["tensors"]], ["input", "output"])
        self.assertEqual(described["tensors"][0]["fill"]["files"], ["x.0.npy", "x.1.npy"])
        given, other = (np.load(best.folder / f"x.{which}.npy") for which in range(2))
        np.testing.assert_array_equal(given, self.x)
        self.assertFalse(np.array_equal(other, self.x))
        np.testing.assert_array_equal(np.sort(other), np.sort(self.x))
        np.testing.assert_array_equal(np.load(best.folder / "y.right.1.npy"), 2 * other)
        self.assertEqual((best.folder / "double.cuh").read_text(), HEADER)

        verified = subprocess.run(
            [sys.executable, "-m", "moetune", "verify", "twice", "--kernels", str(best.folder), "--cache",
             str(self.folder / "tuned.db")], capture_output=True, text=True, timeout=120, check=True)
        self.assertIn("none of them is fresh", verified.stdout)
        self.assertIn("\nright\n", verified.stdout)

    def test_the_winner_is_launched_on_other_arrays(self) -> None:
        best = self.tune()
        for number in (1, 2):
            x, y = aligned((N,), np.float32), aligned((N,), np.float32)
            x[:] = np.arange(N) * number
            best.kernel(on_device(x, "float32"), on_device(y, "float32"), N - number)
            np.testing.assert_array_equal(y[:-number], 2 * x[:-number])
            np.testing.assert_array_equal(y[-number:], 0)
        with self.assertRaisesRegex(moetune.InvalidArgument, "takes 3 arguments, not 2"):
            best.kernel(x, y)
        with self.assertRaisesRegex(moetune.WrongDevice, "x"):
            best.kernel(x, y, N)
        small = on_device(aligned((N // 2,), np.float32), "float32")
        with self.assertRaisesRegex(moetune.InvalidArgument, r"must be \[4096\]"):
            best.kernel(small, small, N)

        # Another kernel of the same name, while the first is in use.
        wide = self.tune(params={"block_size_x": [64, 512]})
        self.assertEqual(wide.config, {"block_size_x": 512})
        wide.kernel(on_device(x, "float32"), on_device(y, "float32"), N)
        np.testing.assert_array_equal(y, 2 * x)

    def test_arrays_of_cupy_are_exported_without_a_wait(self) -> None:
        class Exporter:
            def __init__(self, tensor: Any) -> None:
                self.tensor = tensor

            def __dlpack__(self, *, stream: Any = None) -> Any:
                if stream != -1:
                    raise RuntimeError("the legacy stream would depend on a capturing stream")
                return self.tensor.__dlpack__()

            def __dlpack_device__(self) -> Any:
                return self.tensor.__dlpack_device__()

        Exporter.__module__ = "cupy"
        best = self.tune()
        x, y = aligned((N,), np.float32), aligned((N,), np.float32)
        x[:] = np.arange(N)
        best.kernel(Exporter(on_device(x, "float32")), Exporter(on_device(y, "float32")), N)
        np.testing.assert_array_equal(y, 2 * x)

    def test_names_of_kernel_tuner(self) -> None:
        best = self.tune(params=None, grid=None, block=None, reference=None, problem_size=N, grid_div_x=["block_size_x"],
                         tune_params={"block_size_x": [32, 64, 128, 512]}, answer=[None, 2 * self.x, None], atol=1e-6,
                         restrictions=["32 < block_size_x <= 256", "not block_size_x % 64"])
        self.assertEqual(best.config, {"block_size_x": 128})
        self.assertEqual(best.document["trials"]["total"], 2)
        described = json.loads((best.folder / "kernel.json").read_text())
        self.assertEqual(described["tensors"][0]["fill"]["files"], ["x.0.npy"])
        self.assertAlmostEqual(described["tensors"][1]["check"]["error"], 1e-6 / float(np.abs(2 * self.x).max()))

    def test_arrays_of_all_types_and_constant_memory(self) -> None:
        # The scripted driver's modules have variables of 64 bytes, and its `double` takes the first three arguments.
        self.source.write_text(
            "__constant__ float weights[16]; __constant__ short few[2];\n" +
            BLOCKS.replace("long long n)", "long long n, const double* d, const short* s)").replace(
                "doubled(x[i])", "doubled(x[i]) + 0 * (weights[3] + few[0] + d[i] + s[i])"))
        d, s, few = (np.arange(count, dtype=dtype) for count, dtype in ((N, np.float64), (N, np.int16), (2, np.int16)))
        weights = np.arange(16, dtype=np.float32)
        best = self.tune(args=[self.x, np.zeros(N, np.float32), np.int64(N), d, s],
                         cmem_args={"weights": weights, "few": few}, reference=lambda x, y, n, d, s: 2 * x)
        self.assertEqual(best.config, {"block_size_x": 256})
        described = json.loads((best.folder / "kernel.json").read_text())
        self.assertEqual([(one["name"], one["dtype"]) for one in described["tensors"]],
                         [("x", "f32"), ("y", "f32"), ("d", "f64"), ("s", "i16"), ("weights", "f32"), ("few", "i16")])
        self.assertEqual(described["launches"][:2],
                         [{"symbol": "weights", "of": "weights"}, {"symbol": "few", "of": "few"}])
        self.assertEqual(described["tensors"][4]["fill"]["files"], ["weights.0.npy", "weights.0.npy"])

        x, y, other = aligned((N,), np.float32), aligned((N,), np.float32), aligned((16,), np.float32)
        x[:] = np.arange(N)
        wide, narrow = on_device(aligned((N,), np.float64), "float64"), on_device(aligned((N,), np.int16), "int16")
        constants = {"few": on_device(aligned((2,), np.int16), "int16"), "weights": on_device(other, "float32")}
        given = on_device(x, "float32"), on_device(y, "float32"), N, wide, narrow
        best.kernel(*given, cmem_args=constants)
        np.testing.assert_array_equal(y, 2 * x)
        with self.assertRaisesRegex(moetune.InvalidArgument, "cmem_args has nothing; twice takes weights, few"):
            best.kernel(*given)
        with self.assertRaisesRegex(moetune.InvalidArgument, "'d' is f32; it must be f64"):
            best.kernel(*given[:3], given[0], narrow, cmem_args=constants)
        for said, cmem_args in (("named 'x'", {"x": weights}), ("no name of at most 31", {"../x": weights})):
            with self.assertRaisesRegex(moetune.InvalidArgument, said):
                self.tune(args=[self.x, y, N, d, s], cmem_args=cmem_args)

    def test_without_a_reference_the_default_is_right(self) -> None:
        best = self.tune(reference=None, default={"block_size_x": 64})
        self.assertEqual(best.config, {"block_size_x": 256})
        self.assertAlmostEqual(best.default_time_us or 0, N / 64, places=3)

    def test_what_is_wrong_is_never_best(self) -> None:
        with self.assertRaisesRegex(moetune.NotTuned, "differs from the reference"):
            self.tune(reference=lambda x, y, n: 3 * x + 1)
        self.assertIn("wrong_result", self.said.getvalue())

    def test_what_the_tool_refuses_is_said(self) -> None:
        with self.assertRaisesRegex(moetune.InvalidArgument, r"unknown name 'm'"):
            self.tune(grid="m // block_size_x")
        with self.assertRaisesRegex(moetune.InvalidArgument, "built-in kernel"):
            self.tune(name="router")

    def test_what_cannot_be_tuned_is_refused(self) -> None:
        y = np.zeros(N, np.float32)
        for said, options in (
            ("a restriction must be text", {"restrictions": [lambda block_size_x: True]}),
            ("no configuration satisfies", {"restrictions": "block_size_x > 1024"}),
            ("name 'n' is not defined", {"restrictions": "n > 1"}),
            ("no expression of Python: a <", {"restrictions": "a <"}),
            ("params is missing", {"params": {}}),
            ("values are integers, or names", {"params": {"block_size_x": [0.5]}}),
            ("has 3 parameters, and args has 2", {"args": [self.x, y]}),
            ("'n' is a parameter that is tuned", {"params": {"n": [1], "block_size_x": [32]}}),
            ("grid is missing", {"grid": None}),
            ("block is missing", {"block": None, "params": {"threads": [32]}}),
            ("argument 2 is no array", {"outputs": [2]}),
            ("holds complex64", {"args": [self.x, y.astype(np.complex64), N]}),
            ("no number that a kernel", {"args": [self.x, y, float("nan")]}),
            ("gives 2 arrays, and the kernel writes 1", {"reference": lambda x, y, n: (x, y)}),
            (r"has the shape \(3,\)", {"reference": lambda x, y, n: x[:3]}),
            ("no name of at most 31", {"name": "two words"}),
            ("params must have a list of values", {"params": [32, 64]}),
            ("grid has 1.5", {"grid": 1.5}),
            ("block has <function", {"block": lambda config: 32}),
            ("seed must be at least 0", {"seed": -1}),
            ("'x' is of the type NoneType: neither", {"args": [None, y, N]}),
            ("'x' is an array of Python's objects", {"args": [np.array([None]), y, N]}),
            ("the kernel has f32 in 'x', and the array holds float64", {"args": [self.x.astype(np.float64), y, N]}),
            ("no number that a kernel can be given for i64", {"args": [self.x, y, 2.5]}),
        ):
            with self.subTest(said), self.assertRaisesRegex(moetune.InvalidArgument, said):
                self.tune(**options)
        with self.assertRaises(moetune.Error) as broken:
            self.tune(cache=self.folder)
        self.assertIs(type(broken.exception), moetune.Error)
        with self.assertRaisesRegex(moetune.InvalidArgument, "there is no file"):
            moetune.tune("nowhere.cu", "f", [y], {"a": [1]})
        with self.assertRaisesRegex(moetune.InvalidArgument, "no such __global__ function"):
            moetune.tune("int a;\n", "f", [y], {"a": [1]})


class SourceTest(unittest.TestCase):
    def test_parameters(self) -> None:
        text = """
        // __global__ void f(int wrong)
        template <typename T, int N> __global__ void __launch_bounds__(256)
        f(const T* __restrict__ a, T *b, float4 c[], unsigned int d, long long int e, const size_t n = (3, 4),
          double x /* , int y */, Pair<int, float> p);
        __global__ void g() {}
        __global__ void h(float*, int);
        """
        self.assertEqual(parameters_of(text, "own::f<float, 3>"), [
            Parameter("a", True, False), Parameter("b", True, True), Parameter("c", True, True),
            Parameter("d", False, False, "u32"), Parameter("e", False, False, "i64"),
            Parameter("n", False, False, "u64"), Parameter("x", False, False, "f64"), Parameter("p", False, False)])
        self.assertEqual(parameters_of(text, "g"), [])
        self.assertEqual([one.name for one in parameters_of(text, "h") or []], ["arg0", "arg1"])
        self.assertIsNone(parameters_of(text, "nothing"))

    def test_files_beside_the_source(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "inner").mkdir()
            (folder / "a.cuh").write_text('#include "inner/b.cuh"\n#include "a.cuh"\n#include <c.cuh>\n')
            (folder / "inner/b.cuh").write_text('#include "../../outside.cuh"\n')
            (folder / "c.cuh").write_text("")
            found = local_sources('# include "a.cuh"\n#include "missing.cuh"\n', folder / "source.cu")
            self.assertEqual(sorted(found), ["a.cuh", "inner/b.cuh"])
        self.assertEqual(local_sources('#include "a.cuh"\n', None), {})

    def test_numbers(self) -> None:
        for value, kind, stated in ((3, "i32", 3), (2.5, "f32", 2.5), (True, "u8", 1), (np.uint16(7), "u16", 7),
                                    (np.float64(0.25), "f64", 0.25), (np.int64(1) << 40, "i64", 1 << 40)):
            made = argument_of(value, 0, None)
            assert isinstance(made, Scalar)
            self.assertEqual((made.name, made.type, made.value), ("arg0", kind, stated))
        for given in (3, 3.0, np.int32(3), np.float64(3)):
            made = argument_of(given, 0, Parameter("n", False, False, "u64"))
            assert isinstance(made, Scalar)
            self.assertEqual((made.type, made.value), ("u64", 3))
        with self.assertRaisesRegex(moetune.InvalidArgument, "was 3 when"):
            Scalar("n", "i32", 3).require_same(4)

    def test_arrays(self) -> None:
        for dtype, kind, shape in ((np.float16, "f16", [2, 3]), (np.uint32, "u32", [2, 3]), (np.bool_, "u8", [2, 3]),
                                   (np.float64, "f64", [2, 3]), (np.int8, "i8", [2, 3]), (np.int16, "i16", [2, 3]),
                                   (np.uint16, "u16", [2, 3]), (np.complex64, "u8", [2, 24])):
            given = np.arange(6).reshape(2, 3).astype(dtype)
            made = Array("a", given)
            self.assertEqual((made.type, made.shape), (kind, shape))
            np.testing.assert_array_equal(made.values(made.content), given)
            if kind == "u8":
                np.testing.assert_array_equal(made.answer(given), made.content.reshape(-1).view(np.uint8))
        wide = Array("a", np.zeros(2))
        third = wide.answer(np.array([1, 1]) / 3)
        self.assertEqual((third.dtype, third[0]), (np.float64, 1 / 3))
        self.assertEqual(Array("a", np.float32(3).reshape(())).shape, [1])
        np.testing.assert_array_equal(Array("a", np.arange(6.0, dtype=np.float32).reshape(2, 3).T).content,
                                      [[0, 3], [1, 4], [2, 5]])
        brain = Array("a", np.zeros(4, np.float32))
        brain.type, brain.element = "bf16", "bfloat16"
        np.testing.assert_array_equal(brain.values(np.array([0x3F80, 0xC000, 0x7FC0], np.uint16)), [1, -2, np.nan])
        narrow = Array("a", np.zeros(4, np.uint8))
        narrow.type, narrow.element = "e4m3", "float8_e4m3fn"
        np.testing.assert_array_equal(narrow.values(np.array([0x38, 0xC4, 0x01, 0x7E], np.uint8)),
                                      [1, -3, 2.0 ** -9, 448])
        with self.assertRaisesRegex(moetune.InvalidArgument, "some elements"):
            Array("a", np.zeros((3, 0), np.float32))


if __name__ == "__main__":
    unittest.main()
