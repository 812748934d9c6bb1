"""route and route_weights of moetune.torch, on a GPU or on the scripted driver."""

import unittest
from typing import Any

from moe_cases import Case, if_tuned, plan_of_nothing, poisoned
from torch_support import DEVICE, REASON, VERBOSITY

if not REASON:
    import torch

    import moetune.torch as operators


@unittest.skipIf(REASON, REASON)
class RouteTest(unittest.TestCase):
    def check_routing(self, made: Any, right: Any) -> None:
        self.assertEqual(len(made), len(right))
        for name, mine, theirs in zip(operators.Routing._fields, made, right):
            mine = mine.cpu()
            self.assertEqual((name, mine.dtype, mine.shape), (name, theirs.dtype, theirs.shape))
            if name == "weights":
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
            else:
                self.assertTrue(torch.equal(mine, theirs), f"{name}: {mine} is not {theirs}")

    @if_tuned
    def test_experts_and_permutation(self) -> None:
        for case in (Case(), Case(tokens=50, seed=4)):
            self.check_routing(operators.route(case.logits, case.top_k), case.right())

    @if_tuned
    def test_every_option(self) -> None:
        case = Case.with_everything()
        self.check_routing(operators.route(case.logits, case.top_k, **case.on_device()), case.right())

    @if_tuned
    def test_a_capacity(self) -> None:
        case = Case(dtype="bfloat16", capacity=100, renormalize=False)
        right = case.right()
        self.assertTrue((right[5] < 0).any())
        self.check_routing(operators.route(case.logits, case.top_k, **case.on_device()), right)

    @if_tuned
    def test_weights_alone(self) -> None:
        case = Case(scale=0.5)
        self.check_routing(operators.route_weights(case.logits, case.top_k, scale=0.5), case.right()[:2])

    @if_tuned
    def test_outputs_of_the_caller(self) -> None:
        case = Case()
        right = case.right()
        out = operators.Routing(*poisoned(each.to(DEVICE) for each in right))
        self.assertIs(operators.route(case.logits, case.top_k, out=out), out)
        self.check_routing(out, right)
        pair = tuple(poisoned(each.to(DEVICE) for each in right[:2]))
        self.assertIs(operators.route_weights(case.logits, case.top_k, out=pair), pair)
        self.check_routing(pair, right[:2])

    @if_tuned
    def test_logits_may_be_a_slice(self) -> None:
        case = Case()
        case.logits = torch.cat([case.logits, case.logits + 1], dim=1)[:, :16]
        self.assertFalse(case.logits.is_contiguous())
        self.check_routing(operators.route(case.logits, case.top_k), case.right())

    @if_tuned
    def test_plus_and_minus_zero_are_equal(self) -> None:
        case = Case()
        signs = torch.randint(0, 2, case.host_logits.shape, generator=torch.Generator().manual_seed(9)) * 2 - 1
        case.host_logits = signs * torch.zeros_like(case.host_logits)
        case.host_logits[:, ::3] = -1.0
        case.logits = case.host_logits.to(DEVICE)
        self.check_routing(operators.route(case.logits, 2), case.right())
        self.assertEqual(operators.route_weights(case.logits, 2)[0].tolist(), [[1, 2]] * 64)

    def test_no_tokens(self) -> None:
        empty = torch.empty(0, 16, device=DEVICE)
        self.check_routing(operators.route(empty, 2), plan_of_nothing())
        out = operators.Routing(*poisoned(each.to(DEVICE) for each in plan_of_nothing()))
        self.check_routing(operators.route(empty, 2, out=out), plan_of_nothing())


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
