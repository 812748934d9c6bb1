"""prefill_attention of moetune.torch, on a GPU or on the scripted driver."""

import unittest
import unittest.mock
from typing import Any, Optional

import moetune
from moe_cases import if_tuned
from torch_support import DEVICE, NO_GPU, REASON, VERBOSITY, backends, largest_error

if not REASON:
    import torch

    import moetune.torch as operators
    from moetune import _serving

    ops = torch.ops.moetune

HEADS, KV_HEADS, DIM = 8, 2, 64
SCALE = 0.125


class Sequences:
    """Sequences of 40, 1 and 17 new tokens, with 60, 0 and 23 tokens before them if `past`."""

    NEW = (40, 1, 17)

    def __init__(self, dtype: str = "bfloat16", past: bool = False, dim: int = DIM) -> None:
        torch.manual_seed(3)
        self.dim = dim
        self.tokens = [new + before for new, before in zip(self.NEW, (60, 0, 23) if past else (0, 0, 0))]
        self.q = self.random(sum(self.NEW), HEADS, dtype=dtype)
        self.k, self.v = (self.random(sum(self.tokens), KV_HEADS, dtype=dtype) for _ in range(2))
        self.scales, self.q_scale = [torch.ones(1, device=DEVICE)] * 2, torch.ones(1, device=DEVICE)
        self.q_offsets, self.kv_offsets = self.offsets(self.NEW), self.offsets(self.tokens)

    def random(self, tokens: int, heads: int, dtype: str) -> Any:
        return torch.randn(tokens, heads, self.dim).to(getattr(torch, dtype)).to(DEVICE)

    @staticmethod
    def offsets(counts: Any) -> Any:
        return torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE)

    def arguments(self) -> tuple[Any, ...]:
        return self.q, self.k, self.v, self.q_offsets, self.kv_offsets, None, None, SCALE

    def paged(self, heads_first: bool = False) -> tuple[Any, ...]:
        """The same in pages of 16, in any order, with ids past the lengths that no page has."""
        order, table = torch.randperm(20).tolist(), torch.full((3, 9), 1 << 20, dtype=torch.int32)
        pools = torch.full((2, 20, 16, KV_HEADS, DIM), float("nan")).to(self.k.dtype)
        for sequence, tokens in enumerate(self.tokens):
            begin = int(self.kv_offsets[sequence])
            for first in range(0, tokens, 16):
                page, count = order.pop(), min(16, tokens - first)
                table[sequence, first // 16] = page
                for pool, source in zip(pools, (self.k, self.v)):
                    pool[page, :count] = source[begin + first:begin + first + count].cpu()
        k, v = (pool.transpose(1, 2).contiguous() if heads_first else pool for pool in pools.to(DEVICE))
        lengths = torch.tensor(self.tokens, dtype=torch.int32, device=DEVICE)
        return self.q, k, v, self.q_offsets, None, table.to(DEVICE), lengths, SCALE, "HND" if heads_first else "NHD"

    def narrow(self, head_scales: bool = False) -> dict[str, Any]:
        """Puts k and v into e4m3 and gives their scales; `right` then is that of the dequantized ones."""
        self.scales = [torch.rand(KV_HEADS if head_scales else 1, device=DEVICE) + 0.5 for _ in range(2)]
        self.k, self.v = ((each.float() / 2).to(torch.float8_e4m3fn) for each in (self.k, self.v))
        return dict(zip(("k_scale", "v_scale"), self.scales))

    def narrow_queries(self) -> dict[str, Any]:
        """As narrow, q too; scales are those of KV heads."""
        scales = self.narrow(head_scales=True)
        self.q_scale = torch.rand(KV_HEADS, device=DEVICE) + 0.5
        self.q = self.q.to(torch.float8_e4m3fn)
        return {**scales, "q_scale": self.q_scale}

    def right(self, causal: bool = True, window: int = 0, sinks: Optional[Any] = None,
              softcap: int = 0) -> tuple[Any, Any]:
        """o and lse, in float64."""
        outputs, lses = [], []
        for sequence, (new, tokens) in enumerate(zip(self.NEW, self.tokens)):
            q = self.q[int(self.q_offsets[sequence]):][:new].cpu().float().double()
            q = q * self.q_scale.cpu().double().repeat_interleave(HEADS // len(self.q_scale))[:, None]
            k, v = ((each.cpu().float().double() * scale.cpu().double()[:, None])[
                int(self.kv_offsets[sequence]):][:tokens].repeat_interleave(HEADS // KV_HEADS, 1)
                    for each, scale in zip((self.k, self.v), self.scales))
            scores = torch.einsum("qhd,khd->hqk", q, k) * SCALE
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            last = torch.arange(new)[:, None] + tokens - new
            if causal:
                scores = scores.masked_fill(torch.arange(tokens) > last, float("-inf"))
            if window:
                scores = scores.masked_fill(torch.arange(tokens) <= last - window, float("-inf"))
            lse = scores.logsumexp(-1)
            if sinks is not None:
                lse = torch.logaddexp(lse, sinks.cpu().double()[:, None])
            outputs.append(torch.einsum("hqk,khd->qhd", (scores - lse[..., None]).exp(), v))
            lses.append(lse.T)
        return torch.cat(outputs), torch.cat(lses)


class FewBlocks:
    """What the operators ask of a family, one that serves at most 1000 new tokens."""

    def workspace_bytes(self, batch: int, kv_heads: int, seqlen_q: int, seqlen_kv: int) -> int:
        if kv_heads < 1 or batch * seqlen_q > 1000:
            raise moetune.InvalidArgument("too many blocks")
        return batch * kv_heads * seqlen_kv


@unittest.skipIf(REASON, REASON)
class WorkspaceSizeTest(unittest.TestCase):
    def test_of_the_calls_that_were_seen_and_not_of_their_product(self) -> None:
        opened = _serving._Opened("prefill_attention", FewBlocks())  # type: ignore[arg-type]
        self.assertEqual(opened.workspace_bytes(), 0)
        opened.saw((1, 8, 1000, 5000))
        opened.saw((100, 8, 10, 300))
        with self.assertRaises(moetune.InvalidArgument):
            opened.saw((2, 16, 1000, 1000))
        for tokens, bytes_ in ((32768, 100 * 8 * 300), (256, 256 * 8 * 131072)):
            with unittest.mock.patch.dict(_serving._largest, batch=256, context=131072, tokens=tokens):
                self.assertEqual(opened.workspace_bytes(), bytes_)


@unittest.skipIf(REASON, REASON)
class PrefillTest(unittest.TestCase):
    def close_to(self, made: Any, right: Any, error: float = 0.02) -> None:
        self.assertEqual(made.shape, right.shape)
        self.assertLess(largest_error(made.cpu(), right), error)

    @if_tuned
    def test_sequences_one_after_another(self) -> None:
        inputs = Sequences()
        made = ops.prefill_attention(*inputs.arguments())
        self.assertEqual(made.dtype, torch.bfloat16)
        self.close_to(made, inputs.right()[0])
        self.close_to(ops.prefill_attention(*inputs.arguments(), max_q=40, max_kv=40), inputs.right()[0])

    @if_tuned
    def test_not_causal_in_fp16(self) -> None:
        inputs = Sequences(dtype="float16")
        self.close_to(operators.prefill_attention(*inputs.arguments(), causal=False), inputs.right(causal=False)[0])

    @if_tuned
    def test_pages_window_and_sinks(self) -> None:
        inputs = Sequences(past=True)
        sinks = torch.randn(HEADS, device=DEVICE)
        right = inputs.right(window=30, sinks=sinks)[0]
        for heads_first in (False, True):
            self.close_to(ops.prefill_attention(*inputs.paged(heads_first), window=30, sinks=sinks, max_q=40), right)

    @if_tuned
    def test_softcap(self) -> None:
        inputs = Sequences()
        self.close_to(ops.prefill_attention(*inputs.arguments(), softcap=2), inputs.right(softcap=2)[0])

    @if_tuned
    def test_keys_and_values_in_e4m3(self) -> None:
        inputs = Sequences()
        scales = inputs.narrow()
        self.close_to(ops.prefill_attention(*inputs.arguments(), **scales), inputs.right()[0])
        with self.assertRaisesRegex(Exception, "k_scale"):
            ops.prefill_attention(*inputs.arguments())
        inputs = Sequences(past=True)
        with self.assertRaisesRegex(Exception, "'k_scale' is for keys and values in e4m3; 'k' is bf16"):
            ops.prefill_attention(*inputs.arguments(), k_scale=inputs.scales[0])
        scales = inputs.narrow(head_scales=True)
        self.close_to(operators.prefill_attention(*inputs.paged(), **scales, max_q=40), inputs.right()[0])

    @if_tuned
    def test_queries_in_e4m3(self) -> None:
        inputs = Sequences(past=True)
        with self.assertRaisesRegex(Exception, "'q_scale' is for queries in e4m3; 'q' is bf16"):
            ops.prefill_attention(*inputs.arguments(), q_scale=inputs.q_scale)
        scales = inputs.narrow_queries()
        made = ops.prefill_attention(*inputs.paged(), **scales, max_q=40)
        self.assertEqual(made.dtype, torch.bfloat16)
        self.close_to(made, inputs.right()[0], 0.2)
        self.assertEqual(torch.compile(ops.prefill_attention)(*inputs.paged(), **scales, max_q=40).dtype, torch.bfloat16)
        with self.assertRaisesRegex(Exception, "q_scale"):
            ops.prefill_attention(*inputs.paged(), k_scale=scales["k_scale"], v_scale=scales["v_scale"])
        for wrong, why in ((inputs.k.float(), "'k' is fp32; it must be e4m3 like 'q'"), (inputs.k.bfloat16(), "like 'q'")):
            with self.assertRaisesRegex(Exception, why):
                ops.prefill_attention(inputs.q, wrong, wrong, *inputs.arguments()[3:], **scales)
        with self.assertRaisesRegex(Exception, "'out' is e4m3; it must be bf16 or fp16"):
            operators.prefill_attention(*inputs.paged(), **scales, out=torch.empty_like(inputs.q))

    @if_tuned
    def test_heads_of_other_lengths(self) -> None:
        for dim in (96, 192, 256):
            inputs = Sequences(dim=dim)
            self.close_to(ops.prefill_attention(*inputs.arguments()), inputs.right()[0])

    @if_tuned
    def test_outputs_of_the_caller_and_log_sum_exp(self) -> None:
        inputs = Sequences()
        out, lse = torch.empty_like(inputs.q), torch.empty(58, HEADS, device=DEVICE)
        self.assertIs(operators.prefill_attention(*inputs.arguments(), out=out), out)
        self.close_to(out, inputs.right()[0])
        self.close_to(operators.prefill_attention(*inputs.arguments(), lse=lse), inputs.right()[0])
        self.close_to(lse, inputs.right()[1], 0.001)
        lse.zero_()
        operators.prefill_attention(*inputs.arguments(), out=out, lse=lse)
        self.close_to(lse, inputs.right()[1], 0.001)

    @if_tuned
    def test_q_k_and_v_may_be_slices_of_a_projection(self) -> None:
        inputs = Sequences()
        fused = torch.cat([inputs.q, inputs.k, inputs.v], dim=1)
        inputs.q, inputs.k, inputs.v = fused.split([HEADS, KV_HEADS, KV_HEADS], dim=1)
        self.assertFalse(inputs.k.is_contiguous())
        self.close_to(ops.prefill_attention(*inputs.arguments()), inputs.right()[0])

    @if_tuned
    def test_rows_behind_the_last_sequence_stay_as_they_are(self) -> None:
        inputs = Sequences()
        right = inputs.right()[0]
        inputs.q = torch.cat([inputs.q, inputs.q[:7]])
        out = torch.full_like(inputs.q, 9)
        operators.prefill_attention(*inputs.arguments(), out=out, max_q=40)
        self.close_to(out[:58], right)
        self.assertTrue((out[58:] == 9).all())

    def test_no_tokens(self) -> None:
        inputs = Sequences()
        empty = ops.prefill_attention(inputs.q[:0], *inputs.arguments()[1:])
        self.assertEqual(tuple(empty.shape), (0, HEADS, DIM))

    @if_tuned
    def test_compiled(self) -> None:
        def functional(q: Any, *others: Any) -> Any:
            return operators.prefill_attention(q * 1, *others, max_q=40) + 1

        inputs = Sequences()
        right = inputs.right()[0] + 1
        for backend in backends():
            torch.compiler.reset()
            self.close_to(torch.compile(functional, backend=backend, fullgraph=True)(*inputs.arguments()), right)


@unittest.skipIf(NO_GPU, NO_GPU)
class PrefillGraphTest(unittest.TestCase):
    """One graph, captured with the longest sequences, replayed with others: how a server runs chunks."""

    STEPS = (((40, 1, 17), (100, 1, 40)), ((1, 1, 1), (100, 90, 80)), ((0, 40, 3), (0, 40, 3)),
             ((2, 0, 5), (60, 30, 5)), ((40, 1, 17), (100, 1, 40)))

    @if_tuned
    def test_captured_once_while_lengths_change(self) -> None:
        for paged in (False, True):
            with self.subTest(paged=paged):
                self.replay(paged)

    def replay(self, paged: bool) -> None:
        inputs = Sequences(past=True)
        inputs.k, inputs.v = (inputs.random(300, KV_HEADS, "bfloat16") for _ in range(2))
        # Sequence i has pages 7i to 7i + 6 of 16 tokens.
        table = torch.arange(21, dtype=torch.int32, device=DEVICE).reshape(3, 7)
        pools = [torch.zeros(21, 16, KV_HEADS, DIM, dtype=torch.bfloat16, device=DEVICE) for _ in range(2)]
        lengths = torch.tensor(inputs.tokens, dtype=torch.int32, device=DEVICE)
        given = (inputs.q, *pools, inputs.q_offsets, None, table, lengths, SCALE) if paged else inputs.arguments()
        out = torch.empty_like(inputs.q)
        operators.prefill_attention(*given, out=out, max_q=40, max_kv=100)  # loads the family
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            operators.prefill_attention(*given, out=out, max_q=40, max_kv=100)
        for new, tokens in self.STEPS:
            inputs.NEW, inputs.tokens = new, list(tokens)
            inputs.q_offsets.copy_(inputs.offsets(new))
            inputs.kv_offsets.copy_(inputs.offsets(tokens))
            lengths.copy_(torch.tensor(tokens, dtype=torch.int32))
            for sequence, (begin, count) in enumerate(zip(inputs.kv_offsets.tolist(), tokens)):
                for pool, source in zip(pools, (inputs.k, inputs.v)):
                    pool.view(3, 112, KV_HEADS, DIM)[sequence, :count] = source[begin:begin + count]
            out.fill_(9)
            graph.replay()
            torch.cuda.synchronize()
            right = inputs.right()[0]
            self.assertLess(largest_error(out[:sum(new)].cpu(), right), 0.02)
            self.assertTrue((out[sum(new):] == 9).all())


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
