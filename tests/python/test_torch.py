"""decode_attention of moetune.torch, on a GPU or on the scripted driver."""

import itertools
import math
import threading
import time
import unittest
from typing import Any

import moetune
from support import CACHE, SCRIPTED, FullQueue, settled_launches
from torch_support import DEVICE, NO_GPU, REASON, VERBOSITY, backends, why_no_inductor

if not REASON:
    import torch

    import moetune.torch as operators
    from moetune import _serving

    operator = torch.ops.moetune.decode_attention

SCALE = 1 / math.sqrt(128)


class Inputs:
    """4 sequences, 8 query heads, one KV head of 128, pages of 16; `columns` pages a sequence."""

    def __init__(self, layout: str = "NHD", columns: int = 32, lengths: tuple[int, ...] = (500, 1, 17, 300)) -> None:
        generator = torch.Generator().manual_seed(3)

        def normal(*shape: int) -> Any:
            return torch.randn(*shape, generator=generator).to(torch.bfloat16).to(DEVICE)

        pages = 4 * columns
        cache = (pages, 16, 1, 128) if layout == "NHD" else (pages, 1, 16, 128)
        self.layout = layout
        self.q, self.k, self.v = normal(4, 8, 128), normal(*cache), normal(*cache)
        table = torch.randperm(pages, generator=generator).to(torch.int32)
        self.page_table = table.reshape(4, columns).to(DEVICE)
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)

    def arguments(self) -> tuple[Any, ...]:
        return self.q, self.k, self.v, self.page_table, self.lengths, SCALE, self.layout

    def right(self) -> Any:
        """In float32."""
        rows = []
        for sequence in range(4):
            length, pages = int(self.lengths[sequence]), self.page_table[sequence].long()
            keys, values = (pool[pages].reshape(-1, 128)[:length].float() for pool in (self.k, self.v))
            rows.append(torch.softmax(self.q[sequence].float() @ keys.T * SCALE, -1) @ values)
        return torch.stack(rows)


@unittest.skipIf(REASON, REASON)
class TorchTest(unittest.TestCase):
    def close_to(self, made: Any, right: Any, limit: float = 0.02) -> None:
        self.assertEqual(made.shape, right.shape)
        self.assertLess(float((made.float() - right.float()).abs().max()), limit)

    def test_both_layouts(self) -> None:
        for layout in ("NHD", "HND"):
            inputs = Inputs(layout)
            self.close_to(operator(*inputs.arguments()), inputs.right())

    def test_outputs_of_the_caller(self) -> None:
        inputs = Inputs()
        out = torch.empty_like(inputs.q)
        self.assertIsNone(operator.out(*inputs.arguments(), out=out, max_context=500, total_tokens=818))
        self.close_to(out, inputs.right())
        again = torch.empty_like(out)
        operator(*inputs.arguments(), out=again)
        self.close_to(again, out, 1e-6)
        self.assertIs(operators.decode_attention(*inputs.arguments(), out=out), out)

    def test_log_sum_exp(self) -> None:
        inputs = Inputs()
        lse, out = torch.empty(4, 8, dtype=torch.float32, device=DEVICE), torch.empty_like(inputs.q)
        try:
            made = operators.decode_attention(*inputs.arguments(), lse=lse)
        except moetune.NotTuned:
            self.skipTest("the cache has no family with lse=natural")
        self.close_to(made, inputs.right())
        operators.decode_attention(*inputs.arguments(), out=out, lse=lse)
        self.close_to(out, inputs.right())
        if SCRIPTED:
            return  # its driver writes none
        keys = inputs.k[inputs.page_table[0].long()].reshape(-1, 128)[:int(inputs.lengths[0])].float()
        right = torch.logsumexp(inputs.q[0].float() @ keys.T * SCALE, -1)
        self.assertLess(float((lse[0] - right).abs().max()), 0.01)

    def test_the_word_that_kv_is_settled_reaches_the_launch_it_is_said_of(self) -> None:
        inputs = Inputs()
        out = torch.empty_like(inputs.q)
        before = settled_launches() if SCRIPTED else 0
        for said in (True, False, True):
            self.close_to(operator(*inputs.arguments(), kv_settled=said), inputs.right())
            operator.out(*inputs.arguments(), out=out, kv_settled=said)
            self.close_to(out, inputs.right())
        self.close_to(operators.decode_attention(*inputs.arguments(), kv_settled=True), inputs.right())
        if SCRIPTED:
            self.assertEqual(settled_launches() - before, 5)
        made = operator(*(each.to("meta") if isinstance(each, torch.Tensor) else each for each in inputs.arguments()),
                        kv_settled=True)
        self.assertEqual((made.shape, made.device.type), (inputs.q.shape, "meta"))

    def test_q_may_be_a_slice_of_a_projection(self) -> None:
        inputs = Inputs()
        joined = torch.cat([inputs.q, inputs.q + 1], dim=1)
        inputs.q = joined[:, :8]
        self.assertFalse(inputs.q.is_contiguous())
        self.close_to(operator(*inputs.arguments()), inputs.right())

    def test_calls_that_differ_in_one_thing(self) -> None:
        """Bound calls are remembered, a few a thread; each of these is another, or the same at other addresses."""
        sliced, cut = Inputs(), Inputs()
        sliced.q = torch.cat([sliced.q, sliced.q + 1], dim=1)[:, :8]
        cut.page_table = torch.cat([cut.page_table, cut.page_table], dim=1)[:, :32]
        moved = Inputs(lengths=(30, 500, 2, 0))
        moved.q = moved.q + 1
        calls = [Inputs(), sliced, cut, moved, Inputs("HND"), Inputs(columns=40)]
        moved.lengths[3] = 1
        for inputs in calls * 2 + calls[:2] * 2:
            self.close_to(operator(*inputs.arguments()), inputs.right())
        with self.assertRaisesRegex((moetune.InvalidArgument, RuntimeError), "page_table"):
            operator(*Inputs().arguments()[:3], Inputs().page_table[:3], *Inputs().arguments()[4:])

    def test_no_sequences(self) -> None:
        inputs = Inputs()
        empty = operator(inputs.q[:0], inputs.k, inputs.v, inputs.page_table[:0], inputs.lengths[:0], SCALE)
        self.assertEqual(tuple(empty.shape), (0, 8, 128))

    def test_compiled(self) -> None:
        def functional(q: Any, *others: Any) -> Any:
            return operators.decode_attention(q * 2, *others) + 1

        def writing(q: Any, *others: Any) -> Any:
            out = torch.empty_like(q)
            operators.decode_attention(q * 2, *others, out=out, max_context=500)
            return out + 1

        inputs = Inputs()
        inputs.q /= 2
        arguments = inputs.arguments()
        inputs.q = inputs.q * 2
        for function, backend in itertools.product((functional, writing), backends()):
            compiled = torch.compile(function, backend=backend, fullgraph=True)
            self.close_to(compiled(*arguments) - 1, inputs.right(), 0.04)

    def test_fake_tensors_and_schemas(self) -> None:
        inputs = Inputs()
        torch.library.opcheck(operator.default, inputs.arguments())
        torch.library.opcheck(operator.out, inputs.arguments(), {"out": torch.empty_like(inputs.q)})
        with torch.device("meta"):
            q = torch.empty(4, 8, 128, dtype=torch.bfloat16)
            k = torch.empty(128, 16, 1, 128, dtype=torch.bfloat16)
            table, lengths = torch.empty(4, 32, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
        with torch._subclasses.FakeTensorMode() as mode:
            faked = [mode.from_tensor(each) for each in (q, k, k, table, lengths)]
            self.assertEqual(operator(*faked, 0.1).shape, q.shape)

    def test_another_runtime_takes_over(self) -> None:
        inputs = Inputs()
        operator(*inputs.arguments())
        before = operators.runtime().counts.launches
        operators.use(moetune.open([CACHE]))
        self.close_to(operator(*inputs.arguments()), inputs.right())
        self.assertEqual(operators.runtime().counts.launches, 1)
        self.assertGreater(before, 0)

    def test_a_larger_call_than_prepared(self) -> None:
        operators.prepare(max_batch=1, max_context=16)
        try:
            inputs = Inputs()
            self.close_to(operator(*inputs.arguments()), inputs.right())
        finally:
            operators.prepare(max_batch=16, max_context=4096)

    @unittest.skipUnless(SCRIPTED, "the scripted driver is not in MOETUNE_LIBCUDA")
    def test_the_operators_are_set_up_while_a_launch_waits(self) -> None:
        inputs, out = Inputs(), torch.empty(4, 8, 128, dtype=torch.bfloat16)
        operator(*inputs.arguments())
        with FullQueue():
            waiting = threading.Thread(target=lambda: operator.out(*inputs.arguments(), out=out))
            begin = time.monotonic()
            waiting.start()
            time.sleep(0.2)
            operators.use(moetune.open([CACHE]))
            _serving._add_workspace(0, 12345, torch.zeros(1 << 21, dtype=torch.uint8))
            self.assertTrue(waiting.is_alive())
        waiting.join()
        self.assertLess(time.monotonic() - begin, 8)
        self.close_to(out, inputs.right())

    def test_limits_and_runtimes_that_are_none(self) -> None:
        for kind, limit in ((moetune.InvalidArgument, 0), (moetune.InvalidArgument, -1), (TypeError, "x"), (TypeError, 1.5)):
            for name in ("max_batch", "max_context", "max_tokens"):
                with self.assertRaisesRegex(kind, name):
                    operators.prepare(**{name: limit})  # type: ignore[arg-type]
        closed = moetune.open([CACHE])
        closed.close()
        with self.assertRaisesRegex(moetune.InvalidArgument, "closed"):
            operators.use(closed)
        with self.assertRaisesRegex(TypeError, "Runtime"):
            operators.use(None)  # type: ignore[arg-type]
        inputs = Inputs()
        self.close_to(operator(*inputs.arguments()), inputs.right())


@unittest.skipIf(NO_GPU, NO_GPU)
class GraphTest(unittest.TestCase):
    def test_captured_once_while_contexts_grow(self) -> None:
        inputs = Inputs()
        out = torch.empty_like(inputs.q)
        operator.out(*inputs.arguments(), out=out)  # loads the family and makes workspaces ready
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(3):
                operator.out(*inputs.arguments(), out=out)
        for lengths in ((1, 1, 1, 1), (500, 2, 3, 400), (512, 512, 512, 512)):
            inputs.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
            out.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            self.assertLess(float((out.float() - inputs.right()).abs().max()), 0.02)

    def replays_rightly(self, graph: Any, out: Any, right: Any) -> None:
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        self.assertLess(float((out.float() - right).abs().max()), 0.02)

    def test_captures_on_streams_that_never_called(self) -> None:
        inputs = Inputs()
        operator(*inputs.arguments())  # loads the family, on another stream
        captured = []
        for _ in range(3):
            out, graph = torch.empty_like(inputs.q), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                operator.out(*inputs.arguments(), out=out)
            captured.append((graph, out))
        for graph, out in captured:
            self.replays_rightly(graph, out, inputs.right())

    def test_captures_however_many_streams_pytorch_has_handed_out(self) -> None:
        inputs = Inputs()
        operator(*inputs.arguments())
        for others in (30, 31, 32):  # PyTorch hands out 32 in turn
            out, graph, capturing = torch.empty_like(inputs.q), torch.cuda.CUDAGraph(), torch.cuda.Stream()
            for _ in range(others):
                torch.cuda.Stream()
            with torch.cuda.graph(graph, stream=capturing):
                _serving._add_workspace(0, capturing.cuda_stream, _serving._Allocation(0, 4 << 20, None).result())
                operator.out(*inputs.arguments(), out=out)
            self.replays_rightly(graph, out, inputs.right())

    def test_workspaces_are_made_while_another_thread_captures(self) -> None:
        inputs = Inputs()
        operator(*inputs.arguments())
        right = inputs.right()
        out, beside, graph = torch.empty_like(inputs.q), torch.empty_like(inputs.q), torch.cuda.CUDAGraph()
        stream, failures = torch.cuda.Stream(), []

        # With an output of the caller's: PyTorch cannot allocate one for a new stream meanwhile.
        def call_on_new_stream() -> None:
            try:
                with torch.cuda.stream(stream):
                    operator.out(*inputs.arguments(), out=beside)
            except Exception as error:
                failures.append(error)

        with torch.cuda.graph(graph, capture_error_mode="global"):
            thread = threading.Thread(target=call_on_new_stream)
            thread.start()
            thread.join()
            operator.out(*inputs.arguments(), out=out)
        self.assertEqual(failures, [])
        torch.cuda.synchronize()
        self.assertLess(float((beside.float() - right).abs().max()), 0.02)
        self.replays_rightly(graph, out, right)

    def test_a_workspace_grows_while_its_stream_captures(self) -> None:
        inputs = Inputs()
        stream, out = torch.cuda.Stream(), torch.empty_like(inputs.q)
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            operator(*inputs.arguments())
        with torch.cuda.graph(first, stream=stream):
            operator.out(*inputs.arguments(), out=out)
        address = stream.cuda_stream
        before = int(_serving._workspace_bytes(0, address))
        for opened in _serving._families.values():
            opened.seen_bytes = before + (1 << 20)
        _serving._bytes.clear()
        with torch.cuda.graph(second, stream=stream):
            _serving._grow_workspace(0, address, True)
            operator.out(*inputs.arguments(), out=out)
        self.assertGreater(int(_serving._workspace_bytes(0, address)), before)
        for graph in (first, second, first):
            self.replays_rightly(graph, out, inputs.right())

    def test_side_streams(self) -> None:
        inputs = Inputs()
        right = inputs.right()
        for _ in range(4):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                out = operator(*inputs.arguments())
            stream.synchronize()
            self.assertLess(float((out.float() - right).abs().max()), 0.02)

    def test_reduce_overhead(self) -> None:
        if reason := why_no_inductor():
            self.skipTest(reason)
        inputs = Inputs()
        compiled = torch.compile(lambda *each: operators.decode_attention(*each) + 1, mode="reduce-overhead",
                                 fullgraph=True)
        for _ in range(4):
            made = compiled(*inputs.arguments()).clone()
            self.assertLess(float((made.float() - 1 - inputs.right()).abs().max()), 0.04)

    def test_direct_launches_with_torch_tensors(self) -> None:
        inputs = Inputs()
        runtime = operators.runtime()
        family = runtime.family("decode_attention", "group=8,head_dim=128,page=16")
        out = torch.empty_like(inputs.q)
        arguments = family.bind(inputs.q, inputs.k, inputs.v, inputs.page_table, inputs.lengths, out,
                                layout="tokens_first", scale=SCALE)
        workspace = torch.empty(family.workspace_bytes(4, 1, 512), dtype=torch.uint8, device=DEVICE)
        for stream in (torch.cuda.Stream(), torch.cuda.current_stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                runtime.init_workspace(workspace)
                family.launch(family.pick(4, 1, 500), arguments, workspace)
            family.launch(family.pick(4, 1, 500), arguments, workspace, stream=stream.cuda_stream)
            stream.synchronize()
            self.assertLess(float((out.float() - inputs.right()).abs().max()), 0.02)


@unittest.skipIf(NO_GPU or torch.cuda.device_count() < 2, NO_GPU or "there is one GPU")
class SecondDeviceTest(unittest.TestCase):
    def test_a_thread_keeps_its_current_device(self) -> None:
        operators.use(moetune.open([CACHE], device=1))
        inputs = Inputs()
        for name in ("q", "k", "v", "page_table", "lengths"):
            setattr(inputs, name, getattr(inputs, name).to("cuda:1"))
        made: list[Any] = []

        def call_twice() -> None:
            for _ in range(2):
                made.append((operator(*inputs.arguments()), torch.cuda.current_device()))

        thread = threading.Thread(target=call_twice)  # without a context of its own
        thread.start()
        thread.join()
        torch.cuda.synchronize(1)
        self.assertEqual([device for _, device in made], [0, 0])
        for out, _ in made:
            self.assertEqual(out.device.index, 1)
            self.assertLess(float((out.float() - inputs.right()).abs().max()), 0.02)


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
