"""route's kin in moetune.torch, for other consumers of a routing, on a GPU or on the scripted driver."""

import unittest
from typing import Any

from moe_cases import Case, if_tuned, poisoned
from torch_support import DEVICE, REASON, VERBOSITY

if not REASON:
    import torch

    import moe_reference as plain
    import moetune.torch as operators

    ops = torch.ops.moetune


def ends_with_drops() -> tuple[Any, Any, Any]:
    """A case, what route_ends returns for it, and its mask of dropped slots."""
    case = Case(capacity=100)
    *plan, _ = case.right()
    return case, operators.EndRouting._make((*plan, plan[3][1:])), plan[5] < 0


def masked_case() -> tuple[Any, Any, Any]:
    case = Case()
    ids, weights = case.right()[:2]
    counts, sorted_, inverse, dropped = plain.masked_of(ids, case.experts, 7)
    return case, operators.MaskedRouting(ids, weights, counts, sorted_, inverse), dropped


@unittest.skipIf(REASON, REASON)
class LayoutsTest(unittest.TestCase):
    def check_routing(self, made: Any, right: Any) -> None:
        self.assertIs(type(made), type(right))
        for name, mine, theirs in zip(right._fields, made, right):
            mine = mine.cpu()
            self.assertEqual((name, mine.dtype, mine.shape), (name, theirs.dtype, theirs.shape))
            if name == "weights":
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
            else:
                self.assertTrue(torch.equal(mine, theirs), f"{name}: {mine} is not {theirs}")

    def out_for(self, right: Any) -> Any:
        return type(right)(*poisoned(each.to(DEVICE) for each in right))

    @if_tuned
    def test_the_expert_of_each_place(self) -> None:
        case = Case()
        ids, *plan, _ = case.right()
        right = operators.RowRouting._make((ids.long(), *plan, plain.row_experts_of(plan[1], plan[2], len(plan[3]))))
        self.check_routing(operators.route_rows(case.logits, 2, ids_type="i64"), right)
        out = self.out_for(right)
        self.assertIs(operators.route_rows(case.logits, 2, ids_type="i64", out=out), out)
        self.check_routing(out, right)

    @if_tuned
    def test_the_end_of_each_segment(self) -> None:
        case, right, dropped = ends_with_drops()
        self.assertTrue(dropped.any())
        mask = torch.zeros(64, 2, dtype=torch.bool, device=DEVICE)
        made = operators.route_ends(case.logits, 2, dropped=mask, **case.on_device())
        self.check_routing(made, right)
        self.assertTrue(torch.equal(mask.cpu(), dropped))
        out = self.out_for(right)
        ops.route_ends.out(case.logits, 2, **out._asdict(), dropped=mask.zero_(), **case.on_device())
        self.check_routing(out, right)
        self.assertTrue(torch.equal(mask.cpu(), dropped))

    @if_tuned
    def test_equal_segments(self) -> None:
        case, right, dropped = masked_case()
        self.assertTrue(dropped.any())
        mask = torch.zeros(64, 2, dtype=torch.bool, device=DEVICE)
        self.check_routing(operators.route_masked(case.logits, 2, 7, dropped=mask), right)
        self.assertTrue(torch.equal(mask.cpu(), dropped))

    @if_tuned
    def test_ranks(self) -> None:
        case = Case()
        ids, weights = case.right()[:2]
        right = operators.RankRouting(ids.long(), weights, *plain.ranks_of(ids, 16, 4))
        self.check_routing(operators.route_ranks(case.logits, 2, 4), right)
        out = right._replace(in_rank=right.in_rank.byte())  # bytes will do
        out = self.out_for(out)._replace(in_rank=out.in_rank.to(DEVICE) + 7)
        operators.route_ranks(case.logits, 2, 4, out=out)
        self.check_routing(out._replace(in_rank=out.in_rank.bool()), right)

    def test_no_tokens(self) -> None:
        empty = torch.empty(0, 16, device=DEVICE)
        self.assertEqual(operators.route_rows(empty, 2).row_experts.shape, (0,))
        self.assertEqual(operators.route_ends(empty, 2).ends.tolist(), [0] * 16)
        masked = operators.route_masked(empty, 2, 3)
        self.assertEqual(masked.sorted.tolist(), [0] * 48)  # T * k, which is none
        ranks = operators.route_ranks(empty, 2, 4)
        self.assertEqual((ranks.tokens_per_rank.tolist(), ranks.in_rank.shape), ([0] * 4, (0, 4)))

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        case, ends, dropped = ends_with_drops()
        _, masked, _ = masked_case()

        def outs(right: Any) -> dict[str, Any]:
            return {**self.out_for(right)._asdict(), "dropped": torch.zeros_like(dropped).to(DEVICE)}

        checks: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = (
            (ops.route_rows.default, (case.logits, 2), {"ids_type": "i64"}),
            (ops.route_ends.out, (case.logits, 2), {**outs(ends), "capacity": 100}),
            (ops.route_masked.out, (case.logits, 2, 7), outs(masked)),
            (ops.route_ranks.default, (case.logits, 2, 4), {}))
        for overload, given, options in checks:
            with self.subTest(str(overload)):
                torch.library.opcheck(overload, given, options)


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
