"""The small operations of moetune.torch, on a GPU or on the scripted driver."""

import unittest
from typing import Any

import moetune
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

    @if_tuned
    def test_a_scale_of_the_callers(self) -> None:
        x, residual, weight = drawn(64, 200), drawn(64, 200, seed=3), drawn(200, seed=2)
        scale = torch.full((1,), 1 / 64, device=DEVICE)  # up to 7
        right = normalized(x + residual, weight, 1e-6).clamp(-7, 7)
        made = operators.add_rmsnorm_static(x, weight, scale, residual=residual)
        self.assertEqual(made.dtype, torch.float8_e4m3fn)
        self.assertLessEqual(float((made.double().cpu() * scale.cpu() - right.cpu()).abs().max()), 7 * 2 ** -4)
        out = torch.empty_like(made)
        again = operators.add_rmsnorm_static(x, weight, scale, residual=drawn(64, 200, seed=3), out=out)
        self.assertIs(again, out)
        self.assertTrue(torch.equal(out.view(torch.uint8), made.view(torch.uint8)))

    def test_no_tokens(self) -> None:
        self.assertEqual(operators.add_rmsnorm(drawn(0, 256), drawn(256)).shape, (0, 256))

    def test_an_output_without_the_other(self) -> None:
        values = torch.empty(4, 256, dtype=torch.float8_e4m3fn, device=DEVICE)
        with self.assertRaisesRegex(moetune.InvalidArgument, "out must hold all outputs; scales is missing"):
            operators.add_rmsnorm_e4m3(drawn(4, 256), drawn(256), out=(values, None))

    def test_refused(self) -> None:
        x, weight = drawn(4, 256), drawn(256)
        for message, given, options in (
                ("x_row is 257 elements; it must be a multiple of 16 bytes", (drawn(4, 257)[:, :256], weight), {}),
                ("'weight' is [255]; it must be [256]", (x, drawn(255)), {}),
                ("'x' is f32; it must be bf16 or f16", (x.float(), weight), {}),
                ("hidden must be a multiple of 8", (drawn(4, 12), drawn(12)), {}),
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


@unittest.skipIf(REASON, REASON)
class ActTest(SmallTest):
    def right(self, x: Any, interleaved: bool = False, clamped: bool = False) -> Any:
        wide = x.double()
        gate, up = (wide[:, ::2], wide[:, 1::2]) if interleaved else wide.chunk(2, 1)
        if clamped:
            gate, up = gate.clamp(max=7), up.clamp(-7, 7) + 1
        return gate * torch.sigmoid(gate * (1.702 if clamped else 1)) * up

    @if_tuned
    def test_silu(self) -> None:
        for x in (drawn(64, 400), drawn(50, 480)[:, 80:]):
            out = torch.empty(len(x), 200, dtype=x.dtype, device=DEVICE)
            self.assertIs(operators.act_mul(x, out=out), out)
            self.assert_near(out, self.right(x), 2 ** -8)
            self.assertTrue(torch.equal(operators.act_mul(x), out))

    @if_tuned
    def test_clamped_and_in_turn(self) -> None:
        x = drawn(64, 400, dtype="float16") * 6
        made = operators.act_mul(x, activation="swigluoai", interleaved=True)
        self.assert_near(made, self.right(x, True, True), 2 ** -11)

    @if_tuned
    def test_e4m3(self) -> None:
        x = drawn(64, 400)
        values, scales = operators.act_mul_e4m3(x)
        right = self.right(x)
        self.assertEqual((values.dtype, scales.shape), (torch.float8_e4m3fn, (64, 2)))
        self.assertLessEqual(float((widened(values, scales).double() - right).abs().max() / right.abs().max()), 2 ** -4)

    @if_tuned
    def test_compiled_and_checked(self) -> None:
        x = drawn(64, 400)
        for overload in (ops.act_mul.default, ops.act_mul_e4m3.default):
            torch.library.opcheck(overload, (x,), {})
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: operators.act_mul(x * 2) + 1, backend=backend, fullgraph=True)
            self.assertTrue(torch.equal(compiled(x), operators.act_mul(x * 2) + 1))

    def test_refused(self) -> None:
        for message, options in (("activation is 'gelu'; it must be silu or swigluoai", {"activation": "gelu"}),
                                 ("'out' is [4, 16]; it must be [4, 8]", {"out": drawn(4, 16)})):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                operators.act_mul(drawn(4, 16), **options)
            self.assertIn(message, str(caught.exception))


@unittest.skipIf(REASON, REASON)
class LinearTest(SmallTest):
    def right(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())

    @if_tuned
    def test_rows(self) -> None:
        weight = drawn(768, 256, seed=2)
        wide = drawn(768, 320, seed=2)[:, 64:]
        for x, of in ((drawn(1, 256), weight), (drawn(16, 256), weight), (drawn(7, 320)[:, 64:], wide)):
            self.assert_near(operators.few_rows_linear(x, of), self.right(x, of), 2 ** -7)
        out = torch.empty(1, 768, dtype=weight.dtype, device=DEVICE)
        self.assertIs(operators.few_rows_linear(drawn(1, 256), weight, out=out), out)
        self.assertTrue(torch.equal(out, operators.few_rows_linear(drawn(1, 256), weight)))

    @if_tuned
    def test_bias_of_fp16(self) -> None:
        x, weight, bias = (drawn(*shape, dtype="float16") for shape in ((5, 200), (72, 200), (72,)))
        self.assert_near(operators.few_rows_linear(x, weight, bias), self.right(x, weight, bias), 2 ** -9)

    @if_tuned
    def test_compiled_and_checked(self) -> None:
        x, weight = drawn(4, 256), drawn(768, 256, seed=2)
        torch.library.opcheck(ops.few_rows_linear.default, (x, weight), {})
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: operators.few_rows_linear(x * 2, weight) + 1, backend=backend,
                                     fullgraph=True)
            self.assertTrue(torch.equal(compiled(x), operators.few_rows_linear(x * 2, weight) + 1))

    @if_tuned
    def test_gate_and_routing(self) -> None:
        x, weight = (drawn(*shape, dtype="float16") for shape in ((9, 200), (12, 200)))
        correction = torch.linspace(-0.2, 0.2, 12, device=DEVICE)
        options = {"score": "sigmoid", "correction": correction, "renormalize": False, "scale": 2.5}
        logits, ids, weights = operators.gate_route(x, weight, 3, logits_type="f32", **options)
        self.assert_near(logits, self.right(x, weight), 2 ** -9)
        scores = logits.double().sigmoid()
        best = (scores + correction).topk(3).indices
        self.assertTrue(torch.equal(ids.long(), best))
        self.assert_near(weights, 2.5 * scores.gather(1, best), 1e-5)
        out = tuple(map(torch.empty_like, (logits, ids, weights)))
        for made, right in zip(operators.gate_route(x, weight, 3, logits_type="f32", out=out, **options),
                               (logits, ids, weights)):
            self.assertTrue(torch.equal(made, right))
        given = (x, weight, 3)
        torch.library.opcheck(ops.gate_route.default, given, {"logits_type": "f32", **options})

    def test_no_rows(self) -> None:
        self.assertEqual(operators.few_rows_linear(drawn(0, 256), drawn(768, 256)).shape, (0, 768))

    def test_refused(self) -> None:
        x, weight = drawn(4, 256), drawn(768, 256)
        for message, given in (
                ("tokens is 17; it must be from 1 to 16", (drawn(17, 256), weight)),
                ("'weight' is [768, 248]; it must be", (x, drawn(768, 248))),
                ("'bias' is [7]; it must be [768]", (x, weight, drawn(7))),
                ("in must be a multiple of 8", (drawn(4, 12), drawn(5, 12)))):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                operators.few_rows_linear(*given)
            self.assertIn(message, str(caught.exception))


def turned(heads: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    """RoPE in float64 of [tokens, heads, dim] by tables [tokens, rotary_dim / 2]."""
    wide, half = heads.double().clone(), cos.shape[1]
    cosine, sine = cos.double()[:, None], sin.double()[:, None]
    pairs = ([slice(0, 2 * half, 2), slice(1, 2 * half, 2)] if interleaved else [slice(0, half), slice(half, 2 * half)])
    x, y = (wide[..., pair].clone() for pair in pairs)
    wide[..., pairs[0]], wide[..., pairs[1]] = x * cosine - y * sine, y * cosine + x * sine
    return wide


class Projection:
    """64 tokens of 8 query heads and 2 key heads of 64, and what q and k should become."""

    def __init__(self, rotary: int = 64, tables: str = "float32", tokens: int = 64) -> None:
        self.qkv = drawn(tokens, 12 * 64)
        angles = torch.rand(tokens, rotary // 2, generator=torch.Generator().manual_seed(4)) * 6
        self.cos, self.sin = (each.to(getattr(torch, tables)).to(DEVICE) for each in (angles.cos(), angles.sin()))
        self.weights = {"q_weight": drawn(64, seed=5), "k_weight": drawn(64, seed=6)}
        self.q, self.k, self.v = self.qkv.view(tokens, 12, 64).clone().split([8, 2, 2], 1)

    def arguments(self) -> tuple[Any, ...]:
        return self.qkv, self.cos, self.sin, 8, 2

    def right(self) -> tuple[Any, Any]:
        q, k = (normalized(heads, self.weights[name], 1e-5) for heads, name in
                ((self.q, "q_weight"), (self.k, "k_weight")))
        return turned(q, self.cos, self.sin), turned(k, self.cos, self.sin)

    def pages(self) -> tuple[Any, Any, Any]:
        """Slots, two of them none, and a cache of keys and values in turn whose heads lie before their slots."""
        slots = torch.randperm(112, generator=torch.Generator().manual_seed(7))[:64].to(DEVICE)
        slots[3], slots[40] = -1, -1
        cache = torch.zeros(7, 2, 2, 16, 64, dtype=self.qkv.dtype, device=DEVICE)
        return slots, cache[:, 0].transpose(1, 2), cache[:, 1].transpose(1, 2)


@unittest.skipIf(REASON, REASON)
class RopeTest(SmallTest):
    def assert_near(self, made: Any, right: Any, share: float = 2 ** -7) -> None:
        super().assert_near(made, right, share)

    @if_tuned
    def test_norm_and_rope(self) -> None:
        of = Projection()
        q, k = operators.qk_norm_rope(*of.arguments(), eps=1e-5, **of.weights)
        self.assertEqual((q.shape, k.shape), ((64, 8, 64), (64, 2, 64)))
        for made, right in zip((q, k), of.right()):
            self.assert_near(made, right)

    @if_tuned
    def test_in_place(self) -> None:
        of = Projection()
        own = of.qkv.view(64, 12, 64)
        operators.qk_norm_rope(*of.arguments(), eps=1e-5, out=(own[:, :8], own[:, 8:10]), **of.weights)
        for made, right in zip(own.split([8, 2, 2], 1), (*of.right(), of.v)):
            self.assert_near(made, right)

    @if_tuned
    def test_neighbors_of_the_first_half_without_a_norm(self) -> None:
        of = Projection(32, "bfloat16", 50)
        wide = torch.cat((of.cos, of.cos), 1), torch.cat((of.sin, of.sin), 1)  # as transformers has tables
        made = operators.qk_norm_rope(of.qkv, wide[0][:, :16], wide[1][:, :16], 8, 2, interleaved=True)
        for mine, heads in zip(made, (of.q, of.k)):
            self.assert_near(mine, turned(heads, of.cos, of.sin, True))

    @if_tuned
    def test_into_pages(self) -> None:
        of = Projection()
        slots, k_cache, v_cache = of.pages()
        q = operators.qk_norm_rope_kv_write(of.qkv, of.cos, of.sin, slots, 8, 2, k_cache=k_cache, v_cache=v_cache,
                                            eps=1e-5, **of.weights)
        right_q, right_k = of.right()
        self.assert_near(q, right_q)
        written = slots >= 0
        places = slots[written] // 16, slots[written] % 16
        self.assert_near(k_cache[places], right_k[written])
        self.assertTrue(torch.equal(v_cache[places], of.v[written]))
        v_cache[places] = 0
        self.assertEqual(int(v_cache.count_nonzero()), 0)

    @if_tuned
    def test_into_pages_in_e4m3(self) -> None:
        of = Projection()
        for kv_scale, k_scale, v_scale in (("tensor", [0.02], [0.01]), ("head", [0.02, 0.03], [0.01, 0.04])):
            slots, k_cache, v_cache = (each.to(torch.float8_e4m3fn) if each.is_floating_point() else each
                                       for each in of.pages())
            k_scales, v_scales = (torch.tensor(each, device=DEVICE) for each in (k_scale, v_scale))
            operators.qk_norm_rope_kv_write(of.qkv, of.cos, of.sin, slots, 8, 2, k_cache=k_cache, v_cache=v_cache,
                                            eps=1e-5, k_scale=k_scales, v_scale=v_scales, kv_scale=kv_scale,
                                            **of.weights)
            written = slots >= 0
            places = slots[written] // 16, slots[written] % 16
            self.assert_near(k_cache[places].float() * k_scales[:, None], of.right()[1][written], 2 ** -4)
            self.assert_near(v_cache[places].float() * v_scales[:, None], of.v[written], 2 ** -4)

    def test_no_tokens_leave_caches_alone(self) -> None:
        of = Projection()
        slots, k_cache, v_cache = of.pages()
        k_cache.fill_(1)
        v_cache.fill_(2)
        q = operators.qk_norm_rope_kv_write(of.qkv[:0], of.cos[:0], of.sin[:0], slots[:0], 8, 2, k_cache=k_cache,
                                            v_cache=v_cache, **of.weights)
        self.assertEqual(len(q), 0)
        self.assertTrue(bool((k_cache == 1).all()) and bool((v_cache == 2).all()))

    def test_refused(self) -> None:
        of = Projection()
        qkv, cos, sin, *heads = of.arguments()
        slots, k_cache, v_cache = of.pages()
        for message, call in (
                ("'qkv' is [64, 768]; it must be [tokens, (q_heads + 2 * kv_heads) * head_dim] of some head_dim",
                 lambda: operators.qk_norm_rope(qkv, cos, sin, 7, 2)),
                ("rotary_dim must be a multiple of 16, at most head_dim",
                 lambda: operators.qk_norm_rope(qkv, cos[:, :12], sin[:, :12], *heads)),
                ("tensor 'k_weight' is missing",
                 lambda: operators.qk_norm_rope(qkv, cos, sin, *heads, q_weight=of.weights["q_weight"])),
                ("tensor 'k_scale' is missing",
                 lambda: operators.qk_norm_rope_kv_write(qkv, cos, sin, slots, *heads,
                                                         k_cache=k_cache.to(torch.float8_e4m3fn),
                                                         v_cache=v_cache.to(torch.float8_e4m3fn), **of.weights)),
                ("'slots' is i32; it must be i64",
                 lambda: operators.qk_norm_rope_kv_write(qkv, cos, sin, slots.int(), *heads, k_cache=k_cache,
                                                         v_cache=v_cache))):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    @if_tuned
    def test_compiled(self) -> None:
        def written(qkv: Any, cos: Any, sin: Any, slots: Any, k_cache: Any, v_cache: Any, weights: Any) -> Any:
            return operators.qk_norm_rope_kv_write(qkv * 2, cos, sin, slots, 8, 2, k_cache=k_cache, v_cache=v_cache,
                                                   **weights) + 1

        of = Projection()
        for backend in backends():
            torch._dynamo.reset()
            made = []
            for run in (torch.compile(written, backend=backend, fullgraph=True), written):
                slots, k_cache, v_cache = of.pages()
                made.append((run(of.qkv, of.cos, of.sin, slots, k_cache, v_cache, of.weights), k_cache, v_cache))
            for mine, theirs in zip(*made):
                self.assertTrue(torch.equal(mine, theirs))

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        of = Projection()
        slots, k_cache, v_cache = (each.contiguous() for each in of.pages())
        torch.library.opcheck(ops.qk_norm_rope.default, of.arguments(), of.weights)
        torch.library.opcheck(ops.qk_norm_rope_kv_write.default, (*of.arguments()[:3], slots, 8, 2),
                              {"k_cache": k_cache, "v_cache": v_cache, **of.weights})


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
