"""route, moe_dispatch and moe_combine of moetune.torch, on a GPU or on the scripted driver."""

import functools
import itertools
import unittest
from typing import Any, Callable, TypeVar

import moetune
from torch_support import DEVICE, NO_GPU, REASON, VERBOSITY, backends, largest_error, why_no_inductor

if not REASON:
    import torch

    import moe_reference as plain
    import moetune.torch as operators
    from moetune import _operators

    ops = torch.ops.moetune

Method = TypeVar("Method", bound=Callable[..., None])
HIDDEN = 256


def if_tuned(method: Method) -> Method:
    """Skips on a cache that lacks the test's families."""

    @functools.wraps(method)
    def run(self: Any) -> None:
        try:
            method(self)
        except (moetune.NotTuned, RuntimeError) as error:
            if "nothing is tuned" not in str(error):
                raise
            self.skipTest(str(error))

    return run  # type: ignore[return-value]


class Case:
    """Logits and options of one routing, on the CPU and on the device."""

    def __init__(self, tokens: int = 64, experts: int = 16, top_k: int = 2, dtype: str = "float32", seed: int = 3,
                 **options: Any) -> None:
        self.experts, self.top_k, self.options = experts, top_k, options
        self.host_logits = plain.distinct_logits(tokens, experts, getattr(torch, dtype), seed)
        self.logits = self.host_logits.to(DEVICE)

    @classmethod
    def with_everything(cls) -> "Case":
        bias = torch.randn(32, generator=torch.Generator().manual_seed(7)) / 10
        expert_map = torch.tensor([each // 2 if each % 2 == 0 else -1 for each in range(32)], dtype=torch.int32)
        return cls(50, 32, 4, "bfloat16", score="sigmoid", bias=bias, groups=4, groups_kept=2, renormalize=False,
                   scale=2.5, align=8, expert_map=expert_map, token_count=torch.tensor([41], dtype=torch.int32))

    def on_device(self) -> dict[str, Any]:
        return {name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
                for name, value in self.options.items()}

    def right(self) -> tuple[Any, ...]:
        plan_options = {name: self.options[name] for name in ("align", "capacity", "expert_map")
                        if name in self.options}
        others = {name: value for name, value in self.options.items() if name not in plan_options}
        ids, weights = plain.weights_of(self.host_logits, self.top_k, **others)
        return ids, weights, *plain.plan_of(ids, self.experts, **plan_options)


def poisoned(made: Any) -> Any:
    """Tensors like these, with values that no operator writes."""
    return [torch.full_like(each, -7) for each in made]


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
        case = Case(capacity=100)
        right = case.right()
        self.assertTrue((right[5] < 0).any())
        self.check_routing(operators.route(case.logits, case.top_k, capacity=100), right)

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

    def test_no_tokens(self) -> None:
        empty = torch.empty(0, 16, device=DEVICE)
        self.check_routing(operators.route(empty, 2), plan_of_nothing())
        out = operators.Routing(*poisoned(each.to(DEVICE) for each in plan_of_nothing()))
        self.check_routing(operators.route(empty, 2, out=out), plan_of_nothing())

    def test_refused(self) -> None:
        case, invalid = Case(), moetune.InvalidArgument
        logits = case.logits
        short = operators.Routing(*poisoned(each.to(DEVICE) for each in Case(tokens=63).right()))
        fit = short._replace(ids=torch.empty(64, 2, dtype=torch.int32, device=DEVICE))
        for kind, sentence, given, options in (
                (invalid, "'logits' has 3 dimensions; it must be .tokens, experts.", (logits[None], 2), {}),
                (invalid, "fp32, bf16 or fp16", (logits.double(), 2), {}),
                (invalid, "top_k is 17; it must be from 1 to the 16 experts", (logits, 17), {}),
                (invalid, "align is 3; it must be a power of two", (logits, 2), {"align": 3}),
                (invalid, "scale is -1", (logits, 2), {"scale": -1.0}),
                (invalid, "score is 'max'; it must be softmax, topk_softmax, sigmoid or sqrt_softplus", (logits, 2),
                 {"score": "max"}),
                (invalid, "'bias' is .15.; it must be .16.", (logits, 2), {"bias": logits[0, :15]}),
                (invalid, "'ids' is .63, 2.; it must be .64, 2.", (logits, 2), {"out": short}),
                (invalid, "'weights' is .63, 2.; it must be .64, 2.", (logits, 2), {"out": fit}),
                (invalid, "groups", (logits, 2), {"groups": 3}),
                (moetune.NotTuned, "moetune search router --problem tokens=64,experts=16,top_k=3,score=softmax,"
                 "dtype=fp32", (logits, 3), {})):
            with self.assertRaisesRegex(kind, sentence):
                operators.route(*given, **options)
        with self.assertRaisesRegex((moetune.NotTuned, RuntimeError), "^(moetune.NotTuned: )?route: nothing is tuned"):
            ops.route(logits, 3)

    @if_tuned
    def test_refused_by_the_family(self) -> None:
        case = Case()
        right = [each.to(DEVICE) for each in case.right()]
        out = operators.Routing(*right)
        for sentence, logits, wrong in (
                ("'ids' is i64; it must be i32", case.logits, out._replace(ids=out.ids.long())),
                ("'sorted' is not contiguous", case.logits, out._replace(sorted=out.sorted.repeat(2)[::2])),
                ("side by side", case.logits.T.contiguous().T, out)):
            with self.assertRaisesRegex(moetune.InvalidArgument, sentence):
                operators.route(logits, 2, out=wrong)
        if DEVICE == "cuda":
            with self.assertRaises(moetune.WrongDevice):
                operators.route(case.logits, 2, out=out._replace(ids=out.ids.cpu()))
        self.check_routing(operators.route(case.logits, 2, out=out), case.right())


def plan_of_nothing() -> tuple[Any, ...]:
    """What route returns without tokens, for 16 experts and top 2."""
    ids, weights = torch.empty(0, 2, dtype=torch.int32), torch.empty(0, 2)
    return ids, weights, *plain.plan_of(ids, 16)


class Rows:
    """A routing of 64 tokens among 16 experts, two each, and rows to move."""

    def __init__(self, tokens: int = 64) -> None:
        generator = torch.Generator().manual_seed(5)
        _, weights, _, _, sorted_, inverse, _ = Case(tokens).right()
        inverse[3, 1] = -1  # as one beyond its capacity
        self.sorted, self.inverse, self.weights = sorted_.to(DEVICE), inverse.to(DEVICE), weights.to(DEVICE)

        def normal(rows: int) -> Any:
            return torch.randn(rows, HIDDEN, generator=generator).bfloat16().to(DEVICE)

        self.x, self.rows = normal(tokens), normal(len(sorted_))

    def dispatched(self) -> Any:
        return plain.dispatched(self.x, self.sorted, 2)

    def combined(self) -> Any:
        return plain.combined(self.rows, self.inverse, self.weights)


@unittest.skipIf(REASON, REASON)
class RowsTest(unittest.TestCase):
    @if_tuned
    def test_dispatch(self) -> None:
        for tokens in (64, 50):
            inputs = Rows(tokens)
            inputs.inverse = Case(tokens).right()[5].to(DEVICE)
            made = operators.moe_dispatch(inputs.x, inputs.sorted, inputs.inverse)
            self.assertTrue(torch.equal(made, inputs.dispatched()))
            out = torch.full_like(made, 7)
            self.assertIs(operators.moe_dispatch(inputs.x, inputs.sorted, inputs.inverse, out=out), out)
            self.assertTrue(torch.equal(out, made))

    @if_tuned
    def test_dispatch_in_e4m3(self) -> None:
        inputs = Rows()
        inputs.inverse = Case().right()[5].to(DEVICE)
        given = inputs.x, inputs.sorted, inputs.inverse
        rows, scales = operators.moe_dispatch_e4m3(*given, scale_layout="column")
        places = len(inputs.sorted)
        self.assertEqual((rows.shape, scales.shape), ((places, HIDDEN), (2, (places + 3) // 4 * 4)))
        again = rows.float().reshape(places, 2, 128) * scales[:, :places].T[..., None]
        self.assertLess(largest_error(again.reshape(rows.shape), inputs.dispatched()), 0.15)
        out = torch.zeros_like(rows), torch.zeros_like(scales)
        self.assertIs(operators.moe_dispatch_e4m3(*given, scale_layout="column", out=out), out)
        self.assertTrue(torch.equal(out[0].view(torch.uint8), rows.view(torch.uint8)))
        self.assertTrue(torch.equal(out[1], scales))

    @if_tuned
    def test_combine(self) -> None:
        for tokens in (64, 50):
            inputs = Rows(tokens)
            made = operators.moe_combine(inputs.rows, inputs.inverse, inputs.weights)
            self.assertEqual((made.shape, made.dtype), ((tokens, HIDDEN), torch.bfloat16))
            self.assertLess(largest_error(made, inputs.combined()), 0.02)
            wide = torch.zeros(tokens, 2 * HIDDEN, dtype=torch.bfloat16, device=DEVICE)
            operators.moe_combine(inputs.rows, inputs.inverse, inputs.weights, out=wide[:, HIDDEN:])
            self.assertTrue(torch.equal(wide[:, HIDDEN:], made))
            self.assertFalse(wide[:, :HIDDEN].any())

    @if_tuned
    def test_there_and_back(self) -> None:
        case, inputs = Case(), Rows()
        routing = operators.route(case.logits, 2)
        rows = operators.moe_dispatch(inputs.x, routing.sorted, routing.inverse)
        made = operators.moe_combine(rows, routing.inverse, routing.weights)
        self.assertLess(largest_error(made, inputs.x), 0.04)  # weights of a token add up to 1

    def test_nothing_to_move(self) -> None:
        x = torch.empty(0, HIDDEN, dtype=torch.bfloat16, device=DEVICE)
        sorted_, inverse = (torch.empty(*shape, dtype=torch.int32, device=DEVICE) for shape in ((0,), (0, 2)))
        self.assertEqual(operators.moe_dispatch(x, sorted_, inverse).shape, (0, HIDDEN))
        self.assertEqual(operators.moe_combine(x, inverse, inverse.float()).shape, (0, HIDDEN))
        self.assertEqual(operators.moe_dispatch_e4m3(x, sorted_, inverse)[1].shape, (0, 2))

    def test_refused(self) -> None:
        inputs, invalid = Rows(), moetune.InvalidArgument
        x, sorted_, inverse, weights, rows = inputs.x, inputs.sorted, inputs.inverse, inputs.weights, inputs.rows
        for kind, sentence, work in (
                (invalid, "'x' has 1 dimensions", lambda: operators.moe_dispatch(x[0], sorted_, inverse)),
                (invalid, "'sorted' has 2 dimensions", lambda: operators.moe_dispatch(x, sorted_[None], inverse)),
                (invalid, "'inverse' is .63, 2.; it must be .64, 2.",
                 lambda: operators.moe_dispatch(x, sorted_, inverse[:63])),
                (invalid, "'rows' is ", lambda: operators.moe_dispatch(x, sorted_, inverse, out=rows[1:])),
                (invalid, "padding is 'ones'; it must be zeros or none",
                 lambda: operators.moe_dispatch(x, sorted_, inverse, padding="ones")),
                (invalid, "scale is 'row'", lambda: operators.moe_dispatch_e4m3(x, sorted_, inverse, scale="row")),
                (invalid, "hidden=12", lambda: operators.moe_dispatch(x[:, :12], sorted_, inverse)),
                (invalid, "'weights' is .64, 1.; it must be .64, 2.",
                 lambda: operators.moe_combine(rows, inverse, weights[:, :1])),
                (invalid, "'out' is .63, 256.; it must be .64, 256.",
                 lambda: operators.moe_combine(rows, inverse, weights, out=x[:63])),
                (moetune.NotTuned, "moetune search moe_dispatch --problem tokens=64,hidden=128,top_k=2$",
                 lambda: operators.moe_dispatch(x[:, :128], sorted_, inverse)),
                (moetune.NotTuned, "moe_dispatch --problem tokens=64,hidden=256,top_k=2,out=e4m3,scale=token,"
                 "scale_layout=row,padding=none$",
                 lambda: operators.moe_dispatch_e4m3(x, sorted_, inverse, scale="token", padding="none")),
                (moetune.NotTuned, "moetune search moe_combine --problem tokens=64,hidden=128,top_k=2$",
                 lambda: operators.moe_combine(rows[:, :128], inverse, weights))):
            with self.assertRaisesRegex(kind, sentence):
                work()

    @if_tuned
    def test_refused_by_the_family(self) -> None:
        inputs = Rows()
        x, sorted_, inverse, weights = inputs.x, inputs.sorted, inputs.inverse, inputs.weights
        for sentence, work in (
                ("'x' is f32; it must be bf16", lambda: operators.moe_dispatch(x.float(), sorted_, inverse)),
                ("'sorted' is i64; it must be i32", lambda: operators.moe_dispatch(x, sorted_.long(), inverse)),
                ("side by side", lambda: operators.moe_dispatch(x.T.contiguous().T, sorted_, inverse)),
                ("'weights' is bf16; it must be f32",
                 lambda: operators.moe_combine(inputs.rows, inverse, weights.bfloat16())),
                ("'inverse' is not contiguous",
                 lambda: operators.moe_combine(inputs.rows, inverse.T.contiguous().T, weights))):
            with self.assertRaisesRegex(moetune.InvalidArgument, sentence):
                work()


def moe(logits: Any, x: Any) -> Any:
    """An MoE layer whose experts double their rows."""
    routing = operators.route(logits, 2)
    rows = operators.moe_dispatch(x, routing.sorted, routing.inverse)
    return operators.moe_combine(rows * 2, routing.inverse, routing.weights)


@unittest.skipIf(REASON, REASON)
class CompiledTest(unittest.TestCase):
    def test_library_and_python_agree_on_the_schemas(self) -> None:
        schemas = []
        for text in _operators.signatures():
            operator, _, overload = text.partition("(")[0].partition(".")
            arguments = getattr(getattr(ops, operator), overload or "default")._schema.arguments
            schemas.append(f"{text.partition('(')[0]}({', '.join(argument.name for argument in arguments)})")
        self.assertEqual(schemas, _operators.signatures())
        self.assertEqual(len(schemas), len(_operators._OVERLOADS))

    @if_tuned
    def test_schemas_and_fake_tensors(self) -> None:
        case, inputs, everything = Case(), Rows(), Case.with_everything()
        inputs.inverse = Case().right()[5].to(DEVICE)
        names = operators.Routing._fields
        outs = dict(zip(names, (each.to(DEVICE) for each in case.right())))
        moved = inputs.x, inputs.sorted, inputs.inverse
        summed = inputs.rows, inputs.inverse, inputs.weights
        for overload, given, options in (
                (ops.route.default, (case.logits, 2), {}),
                (ops.route.default, (everything.logits, 4), everything.on_device()),
                (ops.route.out, (case.logits, 2), outs),
                (ops.route_weights.default, (case.logits, 2), {}),
                (ops.route_weights.out, (case.logits, 2), {name: outs[name] for name in names[:2]}),
                (ops.moe_dispatch.default, moved, {}),
                (ops.moe_dispatch.out, moved, {"rows": inputs.dispatched()}),
                (ops.moe_dispatch_e4m3.default, moved, {"scale_layout": "column"}),
                (ops.moe_combine.default, summed, {}),
                (ops.moe_combine.out, summed, {"out": torch.empty_like(inputs.x)})):
            with self.subTest(overload=str(overload)):
                torch.library.opcheck(overload, given, options)

    @if_tuned
    def test_fake_outputs_are_like_real_ones(self) -> None:
        case, inputs = Case.with_everything(), Rows()
        calls = ((ops.route, (case.logits, 4), case.on_device()), (ops.route, (Case().logits, 2), {}),
                 (ops.moe_dispatch_e4m3, (inputs.x, inputs.sorted, inputs.inverse), {"scale_layout": "column"}))
        for operator, given, options in calls:
            real = operator(*given, **options)
            with torch._subclasses.FakeTensorMode() as mode:
                def faked(value: Any) -> Any:
                    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

                fake = operator(*map(faked, given), **{name: faked(value) for name, value in options.items()})
            for mine, theirs in zip(fake, real):
                self.assertEqual((mine.shape, mine.stride(), mine.dtype), (theirs.shape, theirs.stride(), theirs.dtype))

    @if_tuned
    def test_compiled(self) -> None:
        case, inputs = Case(), Rows()
        right = moe(case.logits, inputs.x)
        self.assertLess(largest_error(right, inputs.x * 2), 0.08)
        for backend, dynamic in itertools.product(backends(), (False, True)):
            torch._dynamo.reset()
            compiled = torch.compile(moe, backend=backend, fullgraph=True, dynamic=dynamic)
            for tokens in (64, 50):
                made = compiled(case.logits[:tokens], inputs.x[:tokens])
                self.assertTrue(torch.equal(made, right[:tokens]))

    @if_tuned
    def test_compiled_writing(self) -> None:
        case, inputs = Case(), Rows()

        def writing(logits: Any, rows: Any, inverse: Any) -> Any:
            ids, weights = (torch.empty(64, 2, dtype=each, device=DEVICE) for each in (torch.int32, torch.float32))
            out = torch.empty(64, HIDDEN, dtype=torch.bfloat16, device=DEVICE)
            operators.route_weights(logits, 2, out=(ids, weights))
            return operators.moe_combine(rows, inverse, weights, out=out) + 0

        for backend in backends():
            compiled = torch.compile(writing, backend=backend, fullgraph=True)
            made = compiled(case.logits, inputs.rows, inputs.inverse)
            self.assertLess(largest_error(made, inputs.combined()), 0.02)


@unittest.skipIf(NO_GPU, NO_GPU)
class MoeGraphTest(unittest.TestCase):
    @if_tuned
    def test_captured(self) -> None:
        case, inputs = Case(), Rows()
        moe(case.logits, inputs.x)  # loads the families and makes workspaces ready
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            routing = operators.route(case.logits, 2)
            rows = operators.moe_dispatch(inputs.x, routing.sorted, routing.inverse)
            out = operators.moe_combine(rows, routing.inverse, routing.weights)
        for seed in range(3):
            other = Case(seed=seed)
            case.logits.copy_(other.host_logits)
            inputs.x.normal_()
            for written in (*routing, rows, out):
                written.zero_()
            graph.replay()
            torch.cuda.synchronize()
            for mine, theirs in zip(routing, other.right()):
                self.assertLess(largest_error(mine.cpu(), theirs), 1e-5)
            self.assertTrue(torch.equal(rows, plain.dispatched(inputs.x, routing.sorted, 2)))
            self.assertLess(largest_error(out, inputs.x), 0.04)

    @if_tuned
    def test_captured_with_more_tokens_than_before(self) -> None:
        small, large = Case(tokens=32), Case()
        operators.route(small.logits, 2)
        out = operators.Routing(*(each.to(DEVICE) for each in large.right()))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            operators.route(large.logits, 2, out=out)
        for written in out:
            written.zero_()
        graph.replay()
        torch.cuda.synchronize()
        for mine, theirs in zip(out, large.right()):
            self.assertLess(largest_error(mine.cpu(), theirs), 1e-5)

    @if_tuned
    def test_side_streams(self) -> None:
        case, inputs = Case(), Rows()
        right = moe(case.logits, inputs.x)
        for _ in range(4):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                made = moe(case.logits, inputs.x)
            stream.synchronize()
            self.assertTrue(torch.equal(made, right))

    @if_tuned
    def test_reduce_overhead(self) -> None:
        if reason := why_no_inductor():
            self.skipTest(reason)
        case, inputs = Case(), Rows()
        right = moe(case.logits, inputs.x)
        compiled = torch.compile(moe, mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            self.assertLess(largest_error(compiled(case.logits, inputs.x).clone(), right), 0.04)


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
