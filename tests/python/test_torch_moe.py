"""The MoE operators of moetune.torch behind the router, and all its MoE operators under torch.compile and in graphs."""

import contextlib
import io
import itertools
import os
import runpy
import unittest
from typing import Any

from moe_cases import HIDDEN, Case, Experts, Rows, if_tuned
from torch_support import DEVICE, NO_GPU, REASON, VERBOSITY, backends, largest_error, why_no_inductor

if not REASON:
    import torch

    import moe_reference as plain
    import moetune.torch as operators

    ops = torch.ops.moetune


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
    def test_experts(self) -> None:
        for tokens in (64, 50):
            inputs = Experts(tokens)
            made = operators.moe_experts(*inputs.arguments())
            self.assertEqual((made.shape, made.dtype), ((tokens, HIDDEN), torch.bfloat16))
            self.assertLess(largest_error(made, inputs.right()), 0.02)
            wide = torch.zeros(tokens, 2 * HIDDEN, dtype=torch.bfloat16, device=DEVICE)
            operators.moe_experts(*inputs.arguments(), out=wide[:, HIDDEN:])
            self.assertTrue(torch.equal(wide[:, HIDDEN:], made))
            self.assertFalse(wide[:, :HIDDEN].any())

    @if_tuned
    def test_experts_in_e4m3(self) -> None:
        inputs = Experts(intermediate=128)
        scales = inputs.narrowed()
        made = operators.moe_experts(*inputs.arguments(), **scales)
        self.assertEqual((made.shape, made.dtype), ((64, HIDDEN), torch.bfloat16))
        self.assertLess(largest_error(made, inputs.right_of_narrow()), 0.06)
        out = torch.zeros_like(made)
        self.assertIs(operators.moe_experts(*inputs.arguments(), **scales, out=out), out)
        self.assertTrue(torch.equal(out, made))

    @if_tuned
    def test_experts_of_gpt_oss_in_mxfp4(self) -> None:
        inputs = Experts(intermediate=96)
        options = inputs.packed()
        made = operators.moe_experts(*inputs.arguments(), **options)
        self.assertEqual((made.shape, made.dtype), ((64, HIDDEN), torch.bfloat16))
        self.assertLess(largest_error(made, inputs.right_of_packed()), 0.02)
        out = torch.zeros_like(made)
        self.assertIs(operators.moe_experts(*inputs.arguments(), **options, out=out), out)
        self.assertTrue(torch.equal(out, made))

    @if_tuned
    def test_experts_in_parts(self) -> None:
        inputs = Experts()
        x, sorted_, offsets, inverse, weights, gate_up, down = inputs.arguments()
        right, rows = inputs.right(), inputs.dispatched()
        self.assertLess(largest_error(operators.moe_experts(rows, None, *inputs.arguments()[2:]), right), 0.02)
        between = operators.moe_experts_up(x, sorted_, offsets, gate_up, 2)
        self.assertEqual((between.shape, between.dtype), ((len(sorted_), down.shape[2]), torch.bfloat16))
        filled = int(offsets[-1])  # places behind have no row
        again = operators.moe_experts_up(rows, None, offsets, gate_up, 2)
        self.assertLess(largest_error(again[:filled], between[:filled]), 0.02)
        made = operators.moe_experts_down(between, offsets, down, inverse, weights)
        self.assertEqual(made.shape, (64, HIDDEN))
        self.assertLess(largest_error(made, right), 0.02)
        for products in (operators.moe_experts_down(between, offsets, down, top_k=2),
                         operators.moe_experts(x, sorted_, offsets, None, None, gate_up, down, top_k=2)):
            self.assertEqual(products.shape, (len(sorted_), HIDDEN))
            self.assertLess(largest_error(operators.moe_combine(products, inverse, weights), right), 0.02)
        out = torch.zeros_like(between)
        self.assertIs(operators.moe_experts_up(x, sorted_, offsets, gate_up, 2, out=out), out)
        self.assertTrue(torch.equal(out[:filled], between[:filled]))
        self.assertFalse(out[filled:].any())

    @if_tuned
    def test_parts_of_experts_in_e4m3_and_mxfp4(self) -> None:
        inputs = Experts(intermediate=128)
        scales = inputs.narrowed()
        x, sorted_, offsets, inverse, weights, gate_up, down = inputs.arguments()
        between = operators.moe_experts_up(x, sorted_, offsets, gate_up, 2, x_scale=scales["x_scale"],
                                           gate_up_scale=scales["gate_up_scale"])
        self.assertEqual(between.dtype, torch.bfloat16)
        scale = between.float().abs().amax(1, keepdim=True).clamp(min=1e-10) / 448  # as a server quantizes
        made = operators.moe_experts_down((between.float() / scale).to(torch.float8_e4m3fn), offsets, down, inverse,
                                          weights, x_scale=scale, down_scale=scales["down_scale"])
        self.assertEqual(made.dtype, torch.bfloat16)
        self.assertLess(largest_error(made, inputs.right_of_narrow()), 0.06)
        inputs = Experts(intermediate=96)
        options = inputs.packed()
        x, sorted_, offsets, inverse, weights, gate_up, down = inputs.arguments()
        between = operators.moe_experts_up(x, sorted_, offsets, gate_up, 2, activation="swigluoai",
                                           gate_up_scale=options["gate_up_scale"], gate_up_bias=options["gate_up_bias"])
        made = operators.moe_experts_down(between, offsets, down, inverse, weights, activation="swigluoai",
                                          down_scale=options["down_scale"], down_bias=options["down_bias"])
        self.assertLess(largest_error(made, inputs.right_of_packed()), 0.02)

    @if_tuned
    def test_experts_whose_rows_lie_apart(self) -> None:
        inputs = Experts()
        right = operators.moe_experts(*inputs.arguments())
        for name in ("x", "gate_up", "down"):
            tensor = getattr(inputs, name)
            wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 8), float("nan"), dtype=tensor.dtype,
                              device=DEVICE)
            wide[..., :-8] = tensor
            setattr(inputs, name, wide[..., :-8])
        self.assertTrue(torch.equal(operators.moe_experts(*inputs.arguments()), right))

    @if_tuned
    def test_experts_of_n_major_weights(self) -> None:
        """Views of weights [experts, in, out]; of these sizes nothing is stored that reads a K-major copy."""
        inputs = Experts(intermediate=48)
        right = inputs.right()
        inputs.transpose_in_memory()
        made = operators.moe_experts(*inputs.arguments())
        self.assertLess(largest_error(made, right), 0.02)
        x, sorted_, offsets, *_ = inputs.up_alone()
        rows = operators.moe_experts_up(x, sorted_, offsets, inputs.gate_up, 2)
        gate, up = (inputs.dispatched().double()[:4] @ inputs.gate_up[0].double().T).chunk(2, -1)
        first = int(offsets[1])  # of the places of expert 0
        self.assertGreater(first, 4)
        self.assertLess(largest_error(rows[:4], torch.nn.functional.silu(gate) * up), 0.02)
        wide = torch.full((16, HIDDEN, 2 * 48 + 8), float("nan"), dtype=torch.bfloat16, device=DEVICE)
        wide[..., :-8] = inputs.gate_up.transpose(1, 2)
        inputs.gate_up = wide[..., :-8].transpose(1, 2)
        self.assertTrue(torch.equal(operators.moe_experts(*inputs.arguments()), made))

    @if_tuned
    def test_there_and_back(self) -> None:
        case, inputs = Case(), Rows()
        routing = operators.route(case.logits, 2)
        rows = operators.moe_dispatch(inputs.x, routing.sorted, routing.inverse)
        made = operators.moe_combine(rows, routing.inverse, routing.weights)
        self.assertLess(largest_error(made, inputs.x), 0.04)  # weights of a token add up to 1

    @unittest.skipUnless(os.environ.get("MOETUNE_SOURCE"), "there is no source folder beside the package")
    @if_tuned
    def test_example(self) -> None:
        example = runpy.run_path(f"{os.environ['MOETUNE_SOURCE']}/examples/moe_layer.py")
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            code = example["main"](DEVICE)
        self.assertEqual(code, 0, shown.getvalue())

    def test_nothing_to_move(self) -> None:
        x = torch.empty(0, HIDDEN, dtype=torch.bfloat16, device=DEVICE)
        sorted_, inverse = (torch.empty(*shape, dtype=torch.int32, device=DEVICE) for shape in ((0,), (0, 2)))
        self.assertEqual(operators.moe_dispatch(x, sorted_, inverse).shape, (0, HIDDEN))
        self.assertEqual(operators.moe_combine(x, inverse, inverse.float()).shape, (0, HIDDEN))
        experts = Experts()
        given = x, sorted_, experts.offsets, inverse, inverse.float(), experts.gate_up, experts.down
        self.assertEqual(operators.moe_experts(*given).shape, (0, HIDDEN))
        self.assertEqual(operators.moe_dispatch_e4m3(x, sorted_, inverse)[1].shape, (0, 2))
        places = torch.full((128,), -1, dtype=torch.int32, device=DEVICE)  # such as route_masked makes on an idle rank
        rows = operators.moe_dispatch(x, places, inverse)
        self.assertEqual((rows.shape, int(rows.count_nonzero())), ((128, HIDDEN), 0))


def moe(logits: Any, x: Any) -> Any:
    """An MoE layer whose experts double their rows."""
    routing = operators.route(logits, 2)
    rows = operators.moe_dispatch(x, routing.sorted, routing.inverse)
    return operators.moe_combine(rows * 2, routing.inverse, routing.weights)


@unittest.skipIf(REASON, REASON)
class CompiledTest(unittest.TestCase):
    def test_results_have_the_names_of_the_schemas(self) -> None:
        for name, kind in (("route", operators.Routing), ("route_rows", operators.RowRouting),
                           ("route_ends", operators.EndRouting), ("route_masked", operators.MaskedRouting),
                           ("route_ranks", operators.RankRouting)):
            returned = getattr(ops, name).default._schema.returns
            self.assertEqual(tuple(each.name for each in returned), kind._fields)

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
                (ops.moe_experts.default, Experts().arguments(), {}),
                (ops.moe_experts.out, Experts().arguments(), {"out": torch.empty_like(inputs.x)}),
                (ops.moe_experts.default, Experts().down_alone(), {}),
                (ops.moe_experts.default, Experts(intermediate=48).transpose_in_memory().arguments(), {}),
                (ops.moe_combine.default, summed, {}),
                (ops.moe_combine.out, summed, {"out": torch.empty_like(inputs.x)})):
            with self.subTest(overload=str(overload)):
                torch.library.opcheck(overload, given, options)
        narrow = Experts(intermediate=128)
        scales = narrow.narrowed()  # whose other checks compare inputs, which PyTorch cannot in e4m3
        torch.library.opcheck(ops.moe_experts.default, narrow.arguments(), scales, test_utils="test_faketensor")
        # Places behind the last segment are not written, and differ.
        torch.library.opcheck(ops.moe_experts.default, Experts().up_alone(), {"top_k": 2}, test_utils="test_faketensor")

    @if_tuned
    def test_fake_outputs_are_like_real_ones(self) -> None:
        case, inputs = Case.with_everything(), Rows()
        calls: tuple[Any, ...] = (
            (ops.route, (case.logits, 4), case.on_device()), (ops.route, (Case().logits, 2), {}),
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
