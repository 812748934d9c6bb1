"""The small operations of moetune.torch, on a GPU or on the scripted driver."""

import unittest
from typing import Any

from moe_cases import if_tuned
from torch_support import DEVICE, REASON, VERBOSITY, backends

if not REASON:
    import torch

    import moetune.torch as operators

    ops = torch.ops.moetune


def drawn(*shape: int, seed: int = 1, dtype: str = "bfloat16") -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype)).to(DEVICE)


def normalized(h: Any, weight: Any, eps: float, plus_one: bool = False) -> Any:
    wide = h.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * (weight.double() + plus_one)


def widened(values: Any, scales: Any) -> Any:
    """What e4m3 values with scales for 128 of them, or for a row, stand for."""
    group = 128 if scales.shape[1] > 1 else values.shape[1]
    return values.float() * scales.repeat_interleave(group, 1)[:, :values.shape[1]]


class SmallTest(unittest.TestCase):
    def assert_near(self, made: Any, right: Any, share: float) -> None:
        """No value is off by more than this share of it, or of a thousandth of the largest."""
        error = (made.double() - right.double()).abs() / right.double().abs().clamp(min=float(right.abs().max()) / 1000)
        self.assertLessEqual(float(error.max()), share)


@unittest.skipIf(REASON, REASON)
class NormTest(SmallTest):
    @if_tuned
    def test_rows_alone(self) -> None:
        weight = drawn(256, seed=2)
        for x in (drawn(64, 256), drawn(50, 256), drawn(40, 320)[:, 64:]):
            self.assert_near(operators.add_rmsnorm(x, weight, 1e-3), normalized(x, weight, 1e-3), 2 ** -8)
        x = drawn(8, 256)
        self.assertIs(operators.add_rmsnorm(x, weight, out=x), x)
        self.assert_near(x, normalized(drawn(8, 256), weight, 1e-6), 2 ** -8)

    @if_tuned
    def test_residual_in_place(self) -> None:
        x, residual, weight = drawn(64, 256), drawn(64, 256, seed=3), drawn(256, seed=2)
        h = x + residual
        for out in (None, torch.empty_like(x)):
            own = residual.clone()
            made = operators.add_rmsnorm(x, weight, residual=own, out=out)
            self.assertTrue(torch.equal(own, h))
            self.assert_near(made, normalized(h, weight, 1e-6), 2 ** -8)

    @if_tuned
    def test_weight_plus_one(self) -> None:
        x, residual, weight = (drawn(*shape, dtype="float16") for shape in ((9, 200), (9, 200), (200,)))
        h = x + residual
        made = operators.add_rmsnorm(x, weight, residual=residual, plus_one=True)
        self.assert_near(made, normalized(h, weight, 1e-6, True), 2 ** -11)

    @if_tuned
    def test_e4m3(self) -> None:
        x, residual, weight = drawn(64, 200), drawn(64, 200, seed=3), drawn(200, seed=2)
        h = x + residual
        values, scales = operators.add_rmsnorm_e4m3(x, weight, residual=residual)
        self.assertEqual((values.dtype, scales.shape), (torch.float8_e4m3fn, (64, 2)))
        self.assertTrue(torch.equal(residual, h))
        right = normalized(h, weight, 1e-6)
        self.assertLessEqual(float((widened(values, scales).double() - right).abs().max() / right.abs().max()), 2 ** -4)
        out = torch.empty_like(values), torch.empty(64, 1, device=DEVICE)
        self.assertEqual(operators.add_rmsnorm_e4m3(h, weight, scale="token", out=out), out)
        self.assert_near(out[1], right.abs().amax(-1, keepdim=True) / 448, 1e-4)
        self.assertLessEqual(float((widened(*out).double() - right).abs().max() / right.abs().max()), 2 ** -4)

    def test_no_tokens(self) -> None:
        self.assertEqual(operators.add_rmsnorm(drawn(0, 256), drawn(256)).shape, (0, 256))

    def test_refused(self) -> None:
        x, weight = drawn(4, 256), drawn(256)
        for message, given, options in (
                ("x_row is 257 elements; it must be a multiple of 16 bytes", (drawn(4, 257)[:, :256], weight), {}),
                ("'weight' is [255]; it must be [256]", (x, drawn(255)), {}),
                ("'x' is fp32; it must be bf16 or fp16", (x.float(), weight), {}),
                ("hidden is 12; it must be a multiple of 8, at most 16384", (drawn(4, 12), drawn(12)), {}),
                ("'residual' is [3, 256]; it must be [4, 256]", (x, weight), {"residual": drawn(3, 256)})):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                operators.add_rmsnorm(*given, **options)
            self.assertIn(message, str(caught.exception))

    @if_tuned
    def test_compiled(self) -> None:
        def block(x: Any, residual: Any, weight: Any) -> Any:
            return operators.add_rmsnorm(x * 2, weight, residual=residual) + 1

        weight = drawn(256, seed=2)
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(block, backend=backend, fullgraph=True, dynamic=True)
            for tokens in (64, 50):
                x, mine, theirs = drawn(tokens, 256), drawn(tokens, 256, seed=3), drawn(tokens, 256, seed=3)
                self.assertTrue(torch.equal(compiled(x, mine, weight), block(x, theirs, weight)))
                self.assertTrue(torch.equal(mine, theirs))

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        x, weight, wide = drawn(64, 256), drawn(256), drawn(64, 200)
        for overload, given, options in (
                (ops.add_rmsnorm.default, (x, weight), {}),
                (ops.add_rmsnorm.residual, (x, weight), {"residual": drawn(64, 256)}),
                (ops.add_rmsnorm.out, (x, weight), {"out": torch.empty_like(x), "residual": drawn(64, 256)}),
                (ops.add_rmsnorm_e4m3.residual, (wide, drawn(200)), {"residual": drawn(64, 200)}),
                (ops.add_rmsnorm_e4m3.default, (wide, drawn(200)), {"scale": "token"})):
            with self.subTest(overload=str(overload)):
                torch.library.opcheck(overload, given, options)


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
