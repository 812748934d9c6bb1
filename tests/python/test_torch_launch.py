"""torch.ops.moetune.launch: any kernel that a kernel.json describes, its family by its tensors."""

import unittest
from typing import Any, Callable

import moetune
from moe_cases import if_tuned
from test_torch_small import Projection, drawn
from torch_support import DEVICE, REASON, VERBOSITY, backends

if not REASON:
    import torch

    import moetune.torch as operators

    ops = torch.ops.moetune


@unittest.skipIf(REASON, REASON)
class LaunchTest(unittest.TestCase):
    def assert_same(self, made: Any, right: Any) -> None:
        self.assertEqual(len(made), len(right))
        for mine, theirs in zip(made, right):
            self.assertEqual(mine.dtype, theirs.dtype)
            self.assertTrue(torch.equal(mine.view(torch.uint8), theirs.view(torch.uint8)))

    @if_tuned
    def test_types_and_sizes_say_the_family(self) -> None:
        for x in (drawn(64, 400), drawn(50, 480)[:, 80:]):
            right = operators.act_mul(x)
            self.assert_same(ops.launch("act_mul", [x]), [right])
            out = torch.empty_like(right)
            ops.launch.out("act_mul", [x], out=[out])
            self.assert_same([out], [right])
        x = drawn(64, 400, dtype="float16")
        self.assert_same(operators.launch("act_mul", x, facts="activation=swigluoai,gate_up=in_turn"),
                         [operators.act_mul(x, activation="swigluoai", interleaved=True)])

    @if_tuned
    def test_a_fact_adds_an_output(self) -> None:
        x = drawn(64, 400)
        right = operators.act_mul_e4m3(x)
        self.assert_same(ops.launch("act_mul", [x], "out=e4m3"), right)
        out = [torch.empty_like(each) for each in right]
        self.assertIs(operators.launch("act_mul", x, out=out)[0], out[0])
        self.assert_same(out, right)

    @if_tuned
    def test_a_tensor_that_is_there_says_so(self) -> None:
        x, residual, weight = drawn(64, 256), drawn(64, 256, seed=3), drawn(256, seed=2)
        self.assert_same(ops.launch("add_rmsnorm", [x, None, weight], reals=[1e-3]),
                         [operators.add_rmsnorm(x, weight, 1e-3)])
        h = residual.clone()
        right = operators.add_rmsnorm(x, weight, residual=h)
        self.assert_same(ops.launch("add_rmsnorm", [x, residual, weight], reals=[1e-6]), [right, h])

    @if_tuned
    def test_pages(self) -> None:
        of = Projection()
        made = []
        for name in ("launch", "own"):
            slots, k_cache, v_cache = of.pages()
            q = torch.empty(64, 8, 64, dtype=of.qkv.dtype, device=DEVICE)
            if name == "own":
                operators.qk_norm_rope_kv_write(of.qkv, of.cos, of.sin, slots, 8, 2, k_cache=k_cache, v_cache=v_cache,
                                                out=q, **of.weights)
            else:
                read = [of.qkv, *of.weights.values(), of.cos, of.sin, slots]
                ops.launch.out("qk_norm_rope", read, "q_heads=8,kv_heads=2,page=16", out=[q, k_cache, v_cache],
                               reals=[1e-6])
            made.append((q, k_cache, v_cache))
        for mine, theirs in zip(*made):
            self.assertTrue(torch.equal(mine, theirs))

    def test_nothing_to_launch(self) -> None:
        made, = ops.launch("act_mul", [drawn(0, 400)])
        self.assertEqual(made.shape, (0, 200))

    def test_refused(self) -> None:
        x, of = drawn(4, 400), Projection()
        refused: tuple[tuple[str, str, Callable[[], Any]], ...] = (
            ("UnknownName", "unknown kernel 'nix'", lambda: ops.launch("nix", [x])),
            ("InvalidArgument", "decode_attention: no kernel.json describes it",
             lambda: ops.launch("decode_attention", [x])),
            ("InvalidArgument", "act_mul: it reads 1 tensors; 2 are given", lambda: ops.launch("act_mul", [x, x])),
            ("InvalidArgument", "'x' is f32; it must be bf16 or f16", lambda: ops.launch("act_mul", [x.float()])),
            ("InvalidArgument", "'x' has 1 dimensions; it must be [tokens, 2 * intermediate]",
             lambda: ops.launch("act_mul", [x[0]])),
            ("InvalidArgument", "unknown dimension 'foo'", lambda: ops.launch("act_mul", [x], "foo=3")),
            ("InvalidArgument", "is not name=value", lambda: ops.launch("act_mul", [x], "foo")),
            ("InvalidArgument", "activation is 'gelu'; it must be silu or swigluoai",
             lambda: ops.launch("act_mul", [x], "activation=gelu")),
            ("InvalidArgument", "intermediate is 1000000000000; it must be from 8 to 65536",
             lambda: ops.launch("act_mul", [x], "intermediate=1000000000000")),
            ("InvalidArgument", "its call has 0 reals; 1 are given",
             lambda: ops.launch("act_mul", [x], reals=[1.0])),
            ("InvalidArgument", "it writes 1 tensors; 3 are given",
             lambda: ops.launch.out("act_mul", [x], out=[x, x, x])),
            ("InvalidArgument", "'out' is [4, 8]; it must be [4, 200]",
             lambda: ops.launch.out("act_mul", [x], out=[x[:, :8]])),
            ("InvalidArgument", "no tensor shows q_heads, which the size of 'qkv' depends on; state it as a fact",
             lambda: ops.launch("qk_norm_rope", [of.qkv, None, None, of.cos, of.sin])),
            ("InvalidArgument", "no kernel takes more than 16 tensors", lambda: ops.launch("act_mul", [x] * 17)),
            ("InvalidArgument", "'tensors' requires a gradient",
             lambda: ops.launch("act_mul", [x.clone().requires_grad_()])),
            ("NotTuned", "run: moetune search act_mul --problem tokens=4,intermediate=192$",
             lambda: ops.launch("act_mul", [drawn(4, 384)])))
        for kind, message, call in refused:
            with self.subTest(message), self.assertRaises(RuntimeError) as caught:
                call()
            with self.subTest(message):
                self.assertTrue(str(caught.exception).startswith(f"moetune.{kind}: "), str(caught.exception))
                self.assertIn(message.removesuffix("$"), str(caught.exception))

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        x = drawn(64, 400)
        for overload, given, options in (
                (ops.launch.default, ("act_mul", [x]), {}),
                (ops.launch.default, ("act_mul", [x], "out=e4m3"), {}),
                (ops.launch.default, ("add_rmsnorm", [drawn(64, 256), None, drawn(256)]), {"reals": [1e-6]}),
                (ops.launch.out, ("act_mul", [x]), {"out": [drawn(64, 200)]})):
            with self.subTest(given=str(given[0])):
                torch.library.opcheck(overload, given, options)

    @if_tuned
    def test_compiled_once_for_all_free_sizes(self) -> None:
        for backend in backends():
            torch.compiler.reset()
            compiled = torch.compile(lambda x: operators.launch("act_mul", x * 2)[0] + 1, backend=backend,
                                     fullgraph=True, dynamic=True)
            with torch._dynamo.config.patch(error_on_recompile=True):
                for tokens in (64, 50, 7):
                    x = drawn(tokens, 400)
                    self.assertTrue(torch.equal(compiled(x), operators.act_mul(x * 2) + 1))


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
