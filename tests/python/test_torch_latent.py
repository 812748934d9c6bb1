"""mla_decode of moetune.torch, on a GPU or on the scripted driver."""

import unittest
from typing import Any

from moe_cases import if_tuned
from torch_support import DEVICE, REASON, VERBOSITY, backends

if not REASON:
    import torch

    import moetune.torch as operators

    ops = torch.ops.moetune

LATENT, WIDTH = 512, 576
SCALE = 192 ** -0.5


class Latent:
    """Sequences whose pages lie in a pool of more, in no order; what no sequence has is NaN."""

    def __init__(self, lengths: list[int], heads: int = 16, queries: int = 1, page: int = 16, context: int = 128,
                 dtype: str = "bfloat16") -> None:
        generator = torch.Generator().manual_seed(1)
        batch, columns = len(lengths), -(-context // page)
        kind = getattr(torch, dtype)
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
        order = torch.randperm(batch * columns, generator=generator)
        self.page_table = (order + 2).reshape(batch, columns).int().to(DEVICE)
        self.q = torch.randn(batch, queries, heads, WIDTH, generator=generator).to(kind).to(DEVICE)
        kv = torch.randn(batch * columns + 2, page, WIDTH, generator=generator).to(kind)
        kv[:2] = float("nan")
        for sequence, length in enumerate(lengths):
            for column in range(columns):
                kv[order.reshape(batch, columns)[sequence, column] + 2, max(0, length - column * page):] = float("nan")
        self.kv = kv.to(DEVICE)

    def arguments(self) -> tuple[Any, Any, Any, Any]:
        return self.q, self.kv, self.page_table, self.lengths

    def right(self, scale: float = SCALE, longest: int = 1 << 20, kv: Any = None,
              indices: Any = None) -> tuple[Any, Any]:
        """The output and the logarithms of the denominators, in float64; of `kv`, and of the tokens in `indices`."""
        batch, queries, heads, _ = self.q.shape
        out = torch.zeros(batch, queries, heads, LATENT, dtype=torch.float64)
        lse = torch.full((batch, queries, heads), float("-inf"), dtype=torch.float64)
        pool = (self.kv if kv is None else kv).double().cpu()
        for sequence, length in enumerate(self.lengths.tolist()):
            for query in range(queries):
                if indices is None:
                    tokens = pool[self.page_table[sequence].long().cpu()].reshape(-1, WIDTH)
                    tokens = tokens[:max(0, min(length, longest) - queries + 1 + query)]
                else:
                    places = indices[sequence, query].long().cpu()
                    tokens = pool.reshape(-1, WIDTH)[places[places >= 0]]
                if len(tokens) > 0:
                    logits = self.q[sequence, query].double().cpu() @ tokens.T * scale
                    out[sequence, query] = logits.softmax(-1) @ tokens[:, :LATENT]
                    lse[sequence, query] = logits.logsumexp(-1)
        return out, lse

    def chosen(self, entries: int) -> Any:
        """Tokens that the sequences have, with holes, another list for each query."""
        batch, queries = self.q.shape[:2]
        page = self.kv.shape[1]
        lists = torch.full((batch, queries, entries), -1, dtype=torch.int32)
        for sequence, length in enumerate(self.lengths.tolist()):
            for query in range(queries):
                tokens = torch.arange(query, length, 2 + query)[:entries // 2]
                pages = self.page_table[sequence].cpu()[tokens // page]
                lists[sequence, query, :2 * len(tokens):2] = pages * page + tokens % page
        return lists.to(DEVICE)


def narrowed(kv: Any) -> tuple[Any, Any]:
    """A latent in e4m3 with one scale, and what it means."""
    scale = torch.full((1,), 0.25, device=DEVICE)
    narrow = (kv.float() / scale).to(torch.float8_e4m3fn)
    return {"kv": narrow, "kv_scale": scale}, narrow.double() * scale


def packed_rows(kv: Any) -> tuple[Any, Any]:
    """A latent in rows of 656 bytes, and what they mean."""
    groups = kv[..., :LATENT].float().unflatten(-1, (4, 128))
    scales = groups.abs().amax(-1).nan_to_num(1) / 448
    narrow = (groups / scales[..., None]).to(torch.float8_e4m3fn)
    rows = torch.empty(*kv.shape[:2], 656, dtype=torch.uint8, device=DEVICE)
    parts = operators.latent_parts(rows)
    for name, part in (("kv", narrow.flatten(-2)), ("group_scales", scales), ("rope", kv[..., LATENT:])):
        parts[name].copy_(part)
    meant = (narrow.double() * scales[..., None]).flatten(-2)
    return parts, torch.cat((meant, kv[..., LATENT:].double()), -1)


@unittest.skipIf(REASON, REASON)
class LatentTest(unittest.TestCase):
    def assert_near(self, made: Any, right: Any, most: float) -> None:
        self.assertLessEqual(float((made.double().cpu() - right).abs().max()), most)

    @if_tuned
    def test_ragged_lengths(self) -> None:
        case = Latent([100, 17])
        made = operators.mla_decode(*case.arguments())
        self.assertEqual((made.dtype, made.shape), (torch.bfloat16, (2, 1, 16, LATENT)))
        self.assert_near(made, case.right()[0], 2 ** -6)
        self.assertTrue(torch.equal(ops.mla_decode(*case.arguments()), made))
        self.assert_near(operators.mla_decode(*case.arguments(), scale=0.3), case.right(0.3)[0], 2 ** -5)
        out = torch.empty_like(made)
        self.assertIs(operators.mla_decode(*case.arguments(), out=out), out)
        self.assertTrue(torch.equal(out, made))

    @if_tuned
    def test_log_sum_exp(self) -> None:
        case = Latent([128, 0])
        right, logarithms = case.right()
        lse = torch.empty(2, 1, 16, device=DEVICE)
        for out in (None, torch.empty(2, 1, 16, LATENT, dtype=torch.bfloat16, device=DEVICE)):
            lse.fill_(7)
            made = operators.mla_decode(*case.arguments(), lse=lse, out=out)
            self.assert_near(made, right, 2 ** -6)
            self.assert_near(lse[0], logarithms[0], 1e-3)
            self.assertTrue(bool(torch.isneginf(lse[1]).all()))

    @if_tuned
    def test_several_queries_of_fp16(self) -> None:
        """The new tokens are causal among themselves; the first of them sees nothing in a sequence of one."""
        case = Latent([90, 1], heads=8, queries=2, page=64, dtype="float16")
        lse = torch.empty(2, 2, 8, device=DEVICE)
        made = operators.mla_decode(*case.arguments(), lse=lse)
        right, logarithms = case.right()
        self.assert_near(made, right, 2 ** -9)
        self.assert_near(lse[0], logarithms[0], 1e-3)
        self.assertEqual(float(made[1, 0].abs().max()), 0)

    @if_tuned
    def test_slices_and_a_shorter_context(self) -> None:
        """q, the tokens and the table's columns lie in wider rows; longer lengths are cut to the context."""
        case = Latent([100, 17], context=144)
        right = case.right(longest=40)[0]
        wide = torch.zeros(*case.kv.shape[:2], WIDTH + 64, dtype=case.kv.dtype, device=DEVICE)
        wide[..., :WIDTH] = case.kv
        case.kv, heads = wide[..., :WIDTH], torch.cat((case.q, case.q), -1)
        case.q = heads[..., :WIDTH]
        self.assert_near(operators.mla_decode(*case.arguments(), context=40), right, 2 ** -6)

    @if_tuned
    def test_compiled_and_checked(self) -> None:
        case = Latent([100, 17])
        torch.library.opcheck(ops.mla_decode.default, case.arguments(), {"context": 128})
        torch.library.opcheck(ops.mla_decode.lse, case.arguments(), {"lse": torch.empty(2, 1, 16, device=DEVICE)})
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(lambda q: operators.mla_decode(q * 2, *case.arguments()[1:], context=120) + 1,
                                     backend=backend, fullgraph=True)
            self.assertTrue(torch.equal(
                compiled(case.q), operators.mla_decode(case.q * 2, *case.arguments()[1:], context=120) + 1))

    @if_tuned
    def test_latents_in_e4m3(self) -> None:
        case = Latent([100, 17])
        for made in (narrowed, packed_rows):
            with self.subTest(made.__name__):
                parts, meant = made(case.kv)
                got = operators.mla_decode(case.q, parts.pop("kv"), case.page_table, case.lengths, **parts)
                self.assert_near(got, case.right(kv=meant)[0], 2 ** -5)

    @if_tuned
    def test_chosen_tokens(self) -> None:
        case = Latent([100, 17])
        indices = case.chosen(64)
        made = operators.mla_decode_chosen(case.q, case.kv, indices)
        self.assertEqual((made.dtype, made.shape), (torch.bfloat16, (2, 1, 16, LATENT)))
        self.assert_near(made, case.right(indices=indices)[0], 2 ** -6)
        torch.library.opcheck(ops.mla_decode_chosen.default, (case.q, case.kv, indices))
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(lambda q: operators.mla_decode_chosen(q * 2, case.kv, indices) + 1,
                                     backend=backend, fullgraph=True)
            self.assertTrue(torch.equal(compiled(case.q), operators.mla_decode_chosen(case.q * 2, case.kv, indices) + 1))

    @if_tuned
    def test_chosen_tokens_of_packed_rows(self) -> None:
        """Several queries, of which one has chosen nothing."""
        case = Latent([100, 1], queries=2)
        indices = case.chosen(64)
        self.assertTrue(bool((indices[1, 1] < 0).all()))
        parts, meant = packed_rows(case.kv)
        lse = torch.empty(2, 2, 16, device=DEVICE)
        made = operators.mla_decode_chosen(case.q, parts.pop("kv"), indices, **parts, lse=lse)
        right, logarithms = case.right(kv=meant, indices=indices)
        self.assert_near(made, right, 2 ** -5)
        self.assert_near(lse[0], logarithms[0], 2 ** -6)
        self.assertTrue(bool(torch.isneginf(lse[1, 1]).all()))
        self.assertEqual(float(made[1, 1].abs().max()), 0)

    def test_no_sequences(self) -> None:
        case = Latent([5])
        made = operators.mla_decode(case.q[:0], case.kv, case.page_table[:0], case.lengths[:0])
        self.assertEqual(made.shape, (0, 1, 16, LATENT))

    def test_refused(self) -> None:
        case, odd = Latent([5, 6]), Latent([5, 6], page=24)
        q, kv, table, lengths = case.arguments()
        for message, given, options in (
                ("'kv' is [18, 16, 512]; it must be", (q, kv[..., :512], table, lengths), {}),
                ("kv_dtype must be dtype or e4m3", (q, kv.half(), table, lengths), {}),
                ("'kv_scale'", (q, kv.to(torch.float8_e4m3fn), table, lengths), {}),
                ("kv_scale belongs to kv_dtype=e4m3", (q, kv[..., :512], table, lengths),
                 {"group_scales": torch.ones(18, 16, 4, device=DEVICE), "rope": kv[..., 512:]}),
                ("'q' is f32; it must be bf16 or f16", (q.float(), kv, table, lengths), {}),
                ("'q' has 3 dimensions; it must be", (q[:, 0], kv, table, lengths), {}),
                ("page must be 1, 16, 32, 64 or 128", odd.arguments(), {}),
                ("queries is 5; it must be from 1 to 4", (q.expand(2, 5, 16, WIDTH), kv, table, lengths), {}),
                ("context is -1; it must be 0 or more", (q, kv, table, lengths), {"context": -1}),
                ("'page_table' is [2, 8]; it must be", (q, kv, table, lengths), {"context": 129}),
                ("'lse' is [2, 1, 15]; it must be", (q, kv, table, lengths), {"lse": torch.empty(2, 1, 15, device=DEVICE)})):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                operators.mla_decode(*given, **options)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
