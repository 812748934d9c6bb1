"""route_plan and its kin of moetune.torch, and the experts by ids, on a GPU or on the scripted driver."""

import unittest
from typing import Any

from moe_cases import Case, Experts, if_tuned, poisoned
from torch_support import DEVICE, REASON, VERBOSITY, backends, largest_error

if not REASON:
    import torch

    import moe_reference as plain
    import moetune.torch as operators

    ops = torch.ops.moetune


class Given:
    """Ids that a router would not give: some twice in a token, some of no expert."""

    def __init__(self, tokens: int = 64, odd: int = 100) -> None:
        generator = torch.Generator().manual_seed(8)
        self.host_ids = torch.randint(0, 16, (tokens, 2), generator=generator, dtype=torch.int32)
        self.host_ids[1] = self.host_ids[1, 0]
        self.host_ids[2:5, 1] = torch.tensor([-1, odd, -(2 ** 31)], dtype=torch.int32)
        self.ids = self.host_ids.to(DEVICE)

    def right(self, **options: Any) -> tuple[Any, ...]:
        return plain.plan_of(self.host_ids, 16, **options)


def local_map() -> Any:
    """Of 18 experts: every other one is here, and two share a segment."""
    found = [each // 2 if each % 2 == 0 else -1 for each in range(18)]
    return torch.tensor([*found[:16], 99, 3], dtype=torch.int32)


@unittest.skipIf(REASON, REASON)
class RoutePlanTest(unittest.TestCase):
    def check_plan(self, made: Any, right: Any) -> None:
        self.assertEqual(len(made), len(right))
        for name, mine, theirs in zip(made._fields, made, right):
            mine = mine.cpu()
            self.assertEqual((name, mine.dtype, mine.shape), (name, theirs.dtype, theirs.shape))
            self.assertTrue(torch.equal(mine, theirs), f"{name}: {mine} is not {theirs}")

    @if_tuned
    def test_any_ids(self) -> None:
        for given in (Given(), Given(50)):
            self.check_plan(operators.route_plan(given.ids, 16), given.right())

    @if_tuned
    def test_what_route_chose(self) -> None:
        routing = operators.route(Case().logits, 2)
        self.check_plan(operators.route_plan(routing.ids, 16), [each.cpu() for each in routing[2:]])

    @if_tuned
    def test_every_option(self) -> None:
        given, count = Given(odd=17), torch.tensor([41], dtype=torch.int32)
        wide = given.ids.long()
        wide[6, 0] += 2 ** 32
        given.host_ids[6, 0] = -1
        given.host_ids[41:] = -1
        right = given.right(align=8, expert_map=local_map())
        self.assertGreater(int((right[3][:41] >= 0).sum()), 20)
        options = {"align": 8, "expert_map": local_map().to(DEVICE), "token_count": count.to(DEVICE)}
        self.check_plan(operators.route_plan(wide, 16, **options), right)

    @if_tuned
    def test_outputs_of_the_caller(self) -> None:
        given = Given()
        out = operators.Plan(*poisoned(each.to(DEVICE) for each in given.right()))
        self.assertIs(operators.route_plan(given.ids, 16, out=out), out)
        self.check_plan(out, given.right())

    @if_tuned
    def test_other_layouts(self) -> None:
        given = Given()
        *plan, _ = given.right()
        rows = plain.row_experts_of(plan[0], plan[1], len(plan[2]))
        self.check_plan(operators.route_plan_rows(given.ids, 16), [*plan, rows])
        self.check_plan(operators.route_plan_ends(given.ids, 16), [*plan, plan[1][1:]])

    @if_tuned
    def test_equal_segments(self) -> None:
        ids = Case().right()[0]
        *right, dropped = plain.masked_of(ids, 16, 7)
        self.assertTrue(dropped.any())
        mask = torch.zeros(64, 2, dtype=torch.bool, device=DEVICE)
        self.check_plan(operators.route_plan_masked(ids.to(DEVICE), 16, 7, dropped=mask), right)
        self.assertTrue(torch.equal(mask.cpu(), dropped))

    def test_no_tokens(self) -> None:
        right = plain.plan_of(torch.empty(0, 2, dtype=torch.int32), 16)
        self.check_plan(operators.route_plan(torch.empty(0, 2, dtype=torch.int32, device=DEVICE), 16), right)


@unittest.skipIf(REASON, REASON)
class CompiledPlanTest(unittest.TestCase):
    def test_results_have_the_names_of_the_schemas(self) -> None:
        for name, kind in (("route_plan", operators.Plan), ("route_plan_rows", operators.RowPlan),
                           ("route_plan_ends", operators.EndPlan), ("route_plan_masked", operators.MaskedPlan)):
            returned = getattr(ops, name).default._schema.returns
            self.assertEqual(tuple(each.name for each in returned), kind._fields)

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        given = Given()
        outs = operators.Plan(*(each.to(DEVICE) for each in given.right()))
        mask = torch.zeros(64, 2, dtype=torch.bool, device=DEVICE)
        masked = operators.route_plan_masked(given.ids, 16, 7, dropped=mask)
        for overload, arguments, options in (
                (ops.route_plan.default, (given.ids, 16), {}),
                (ops.route_plan.default, (given.ids.long(), 16), {"align": 1, "expert_map": local_map().to(DEVICE)}),
                (ops.route_plan.out, (given.ids, 16), outs._asdict()),
                (ops.route_plan_rows.default, (given.ids, 16), {}),
                (ops.route_plan_ends.default, (given.ids, 16), {}),
                (ops.route_plan_masked.out, (given.ids, 16, 7), {**masked._asdict(), "dropped": mask})):
            with self.subTest(overload=str(overload)):
                torch.library.opcheck(overload, arguments, options)

    @if_tuned
    def test_compiled(self) -> None:
        def planned(ids: Any) -> Any:
            return operators.route_plan(ids, 16).inverse + 0

        given = Given()
        for backend in backends():
            for dynamic in (False, True):
                torch._dynamo.reset()
                compiled = torch.compile(planned, backend=backend, fullgraph=True, dynamic=dynamic)
                for tokens in (64, 50):
                    self.assertTrue(torch.equal(compiled(given.ids[:tokens]), planned(given.ids[:tokens])))


@unittest.skipIf(REASON, REASON)
class ExpertsByIdsTest(unittest.TestCase):
    def right(self, experts: Any, ids: Any, weights: Any, **options: Any) -> Any:
        _, offsets, sorted_, inverse, _ = (each.to(DEVICE) for each in plain.plan_of(ids, 16, align=1, **options))
        return plain.experts_of(experts.x, sorted_, offsets, inverse, weights, experts.gate_up, experts.down)

    @if_tuned
    def test_the_routers_choice_in_any_type(self) -> None:
        experts, (ids, weights) = Experts(), Case().right()[:2]
        matrices = experts.gate_up, experts.down
        right = self.right(experts, ids, weights.to(DEVICE))
        made = operators.moe_experts_by_ids(experts.x, ids.to(DEVICE), weights.to(DEVICE), *matrices)
        self.assertLess(largest_error(made, right), 0.02)
        narrow = weights.bfloat16().to(DEVICE)
        out = torch.empty_like(experts.x)
        self.assertIs(operators.moe_experts_by_ids(experts.x, ids.to(DEVICE), narrow, *matrices, out=out), out)
        self.assertLess(largest_error(out, self.right(experts, ids, narrow.float())), 0.02)

    @if_tuned
    def test_some_of_the_experts(self) -> None:
        experts, weights = Experts(), Case().right()[1].to(DEVICE)
        given = Given(odd=17)
        made = operators.moe_experts_by_ids(experts.x, given.ids.long(), weights, experts.gate_up, experts.down,
                                            expert_map=local_map().to(DEVICE))
        right = self.right(experts, given.host_ids, weights, expert_map=local_map())
        self.assertLess(largest_error(made, right), 0.02)
        self.assertTrue((right.abs().sum(1) == 0).any())


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
