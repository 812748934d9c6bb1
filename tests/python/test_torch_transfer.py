"""kv_transfer of moetune.torch, on a GPU or on the scripted driver."""

import unittest
from typing import Any

import moetune
from moe_cases import if_tuned
from torch_support import DEVICE, REASON, VERBOSITY, backends

if not REASON:
    import torch

    import moetune.torch as operators

    ops = torch.ops.moetune

SLOTS, HEADS, DIM = 16, 2, 64


def pool(pages: int, dtype: str = "bfloat16", seed: int = 1) -> Any:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(pages, 2, SLOTS, HEADS, DIM, generator=generator)
    return values.to(getattr(torch, dtype)).to(DEVICE)


def listed(*pages: int) -> Any:
    return torch.tensor(pages, dtype=torch.int32, device=DEVICE)


def bits(values: Any) -> Any:
    return values.contiguous().view(torch.uint8).cpu()


@unittest.skipIf(REASON, REASON)
class TransferTest(unittest.TestCase):
    def assert_same(self, made: Any, right: Any) -> None:
        self.assertEqual((made.dtype, made.shape), (right.dtype, right.shape))
        self.assertTrue(torch.equal(bits(made), bits(right)))

    @if_tuned
    def test_gather(self) -> None:
        source, pages = pool(40), listed(7, 39, 0, 7)
        source[7, 1, 3, 1, 5] = float("nan")
        right = source[pages.long()]
        made = operators.kv_transfer(source, pages)
        self.assert_same(made, right)
        self.assert_same(ops.kv_transfer(source, pages), right)
        target = torch.zeros_like(right)
        self.assertIs(operators.kv_transfer(source, pages, target=target), target)
        self.assert_same(target, right)

    @if_tuned
    def test_scatter_and_between_pools(self) -> None:
        source, target = pool(3), pool(20, seed=2)
        right = target.clone()
        right[listed(11, 2).long()] = source[listed(0, 2).long()]
        operators.kv_transfer(source, None, listed(11, -1, 2), target=target)
        self.assert_same(target, right)
        right[listed(5, 0).long()] = source[listed(2, 1).long()]
        operators.kv_transfer(source, listed(2, 1, -1), listed(5, 0, 9), target=target)
        self.assert_same(target, right)

    @if_tuned
    def test_keys_and_values_of_their_own_and_a_slice_of_heads(self) -> None:
        """vLLM's [2, pages, ...], and half of the heads of a wider pool."""
        source, pages = pool(40), listed(3, 9)
        apart = source.transpose(0, 1).contiguous()
        self.assert_same(operators.kv_transfer(apart.transpose(0, 1), pages), source[pages.long()])
        wide = torch.cat((source, source), 3)
        self.assert_same(operators.kv_transfer(wide[:, :, :, HEADS:], pages), source[pages.long()])

    @if_tuned
    def test_to_e4m3_with_heads_before_slots(self) -> None:
        source, pages = pool(30).transpose(2, 3).contiguous(), listed(29, 4)
        scales = torch.tensor([[0.5, 0.25], [0.125, 2]], device=DEVICE)
        made = operators.kv_transfer(source, pages, scales=scales, layout="HND")
        right = (source[pages.long()].float() / scales[:, :, None, None]).to(torch.float8_e4m3fn)
        self.assert_same(made, right)

    @if_tuned
    def test_from_e4m3_into_a_pool(self) -> None:
        source, target = pool(2).to(torch.float8_e4m3fn), pool(20, seed=2)
        scales = torch.tensor([[0.5, 0.3], [0.125, 2]], device=DEVICE)
        right = target.clone()
        right[listed(7, 3).long()] = (source.float() * scales[:, None, :, None]).to(torch.bfloat16)
        operators.kv_transfer(source, None, listed(7, 3), scales=scales, target=target)
        self.assert_same(target, right)

    @if_tuned
    def test_of_mapped_memory(self) -> None:
        """Here of DEVICE itself: the same memory, kept as long as a view of it."""
        source, target, pages = pool(24), pool(2, seed=2), listed(23, 1)
        view = operators.mapped(target[:, :, :, :1], DEVICE)
        self.assertEqual((view.dtype, view.stride(), view.data_ptr()),
                         (target.dtype, target.stride(), target.data_ptr()))
        operators.kv_transfer(source, pages, target=operators.mapped(target, DEVICE))
        self.assert_same(target, source[pages.long()])
        del target
        self.assert_same(view, source[pages.long()][:, :, :, :1])

    def test_memory_that_is_not_mapped(self) -> None:
        with self.assertRaisesRegex(moetune.WrongDevice, "mapped: the tensor is neither pinned nor a GPU's"):
            operators.mapped(torch.zeros(4), "cuda:0")

    @if_tuned
    def test_few_sms(self) -> None:
        source, pages = pool(24, "float16"), listed(23, 1)
        self.assert_same(operators.kv_transfer(source, pages, sms=4), source[pages.long()])

    @if_tuned
    def test_compiled_and_checked(self) -> None:
        source, pages = pool(24), listed(3, 1)
        torch.library.opcheck(ops.kv_transfer.default, (source, pages), {})
        torch.library.opcheck(ops.kv_transfer.out, (source, pages), {"target": torch.empty_like(source[:2])})
        for backend in backends():
            torch._dynamo.reset()
            compiled = torch.compile(lambda source: operators.kv_transfer(source * 2, pages) + 1, backend=backend,
                                     fullgraph=True)
            self.assertTrue(torch.equal(compiled(source), operators.kv_transfer(source * 2, pages) + 1))

    def test_no_pages(self) -> None:
        self.assertEqual(operators.kv_transfer(pool(3), listed()).shape, (0, 2, SLOTS, HEADS, DIM))

    def test_refused(self) -> None:
        source, pages = pool(4), listed(0, 1)
        narrow, scales = source.to(torch.float8_e4m3fn), torch.ones(2, 1, device=DEVICE)
        for message, given, options in (
                ("'target_pages' are pages of a pool: give it as 'target'", (source, None, pages), {}),
                ("'source' has 4 pages; 'target_pages' lists 2", (source, None, pages), {"target": source}),
                ("'target' has 4 pages; 'source_pages' lists 2", (source, pages), {"target": source}),
                ("neither 'source_pages' nor 'target_pages' is given", (source,), {}),
                ("sms is -1; it must be 0 or more", (source, pages), {"sms": -1}),
                ("'source' is f32; it must be bf16, f16 or e4m3", (source.float(), pages), {}),
                ("'source' has 4 dimensions; it must be", (source[0], pages), {}),
                ("width must be a multiple of 16 bytes", (source[..., :12].contiguous(), pages), {}),
                ("scale belongs to a conversion", (source, pages), {"scales": scales, "target": source[:2]}),
                ("scale belongs to a conversion", (source, pages), {"target": narrow[:2]}),
                ("'scales' is [2, 3]; it must be", (source, pages), {"scales": torch.ones(2, 3, device=DEVICE)})):
            with self.subTest(message), self.assertRaises(Exception) as caught:
                operators.kv_transfer(*given, **options)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
