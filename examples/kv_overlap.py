"""Decode of layer i while pages of layer i + 1 come from the host: two streams in one CUDA graph.

    python kv_overlap.py PATH... [--batch 64] [--context 4096] [--pages 64] [--layers 16] [--sms 0]

A layer is a projection, decode_attention over paged KV and a projection, of Qwen3-30B-A3B's sizes. Before it, `pages`
pages of its pool come from pinned memory by kv_transfer, which were NaN until then. The same work is timed one after
the other, launched eagerly and as a graph, and overlapped; the results must be the same bits. PATHs are caches or packs
that hold both kernels' families; without one of them moetune names the search.
"""

import argparse
import statistics
import sys

import torch

import moetune
import moetune.torch

HIDDEN, HEADS, KV_HEADS, DIM, PAGE, ROUNDS = 2048, 32, 4, 128, 64, 20
GPU = torch.device("cuda", 0)


def normal(*shape, scale=1.0):
    return torch.randn(*shape, device=GPU, dtype=torch.bfloat16) * scale


def on_host(rows):
    return rows.cpu().pin_memory()


class Layers:
    """Pools of keys and values by layer, and what of them is on the host."""

    def __init__(self, options):
        self.options, self.count, columns = options, options.layers, -(-options.context // PAGE)
        batch = options.batch
        self.table = torch.randperm(batch * columns, device=GPU).int().view(batch, columns)
        self.lengths = torch.full((batch,), options.context, dtype=torch.int32, device=GPU)
        self.moved = self.table.flatten()[:: max(1, batch * columns // options.pages)][: options.pages].contiguous()
        self.pools = [normal(batch * columns, 2, PAGE, KV_HEADS, DIM) for _ in range(self.count)]
        self.host = [on_host(pool[self.moved.long()]) for pool in self.pools]
        self.mapped = [moetune.torch.mapped(rows, GPU) for rows in self.host]
        self.weights = [(normal(HIDDEN, HEADS * DIM, scale=HIDDEN**-0.5), normal(HEADS * DIM, HIDDEN, scale=HIDDEN**-0.5))
                        for _ in range(self.count)]
        self.x = normal(batch, HIDDEN)

    def forget(self):
        for pool in self.pools:
            pool[self.moved.long()] = float("nan")

    def move(self, layer):
        moetune.torch.kv_transfer(self.mapped[layer], None, self.moved, sms=self.options.sms, target=self.pools[layer])

    def decode(self, layer, x):
        into, back = self.weights[layer]
        pool = self.pools[layer]
        out = torch.ops.moetune.decode_attention((x @ into).view(len(x), HEADS, DIM), pool[:, 0], pool[:, 1], self.table,
                                                 self.lengths, DIM**-0.5, max_context=self.options.context)
        return x + out.flatten(1) @ back

    def in_turn(self, moves=True, decodes=True):
        x = self.x
        for layer in range(self.count):
            if moves:
                self.move(layer)
            if decodes:
                x = self.decode(layer, x)
        return x

    def overlapped(self):
        """Pages of a layer move on a stream of their own, which decode waits for layer by layer."""
        main, beside, x = torch.cuda.current_stream(), torch.cuda.Stream(), self.x
        beside.wait_stream(main)
        there = [torch.cuda.Event() for _ in range(self.count)]
        for layer in range(self.count):
            with torch.cuda.stream(beside):
                self.move(layer)
                there[layer].record()
            main.wait_event(there[layer])
            x = self.decode(layer, x)
        main.wait_stream(beside)
        return x


def captured(work):
    """A CUDA graph of `work`, which ran before, and what it returns."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def median_us(run):
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(), run(), end.record(), end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    for name, value in (("batch", 64), ("context", 4096), ("pages", 64), ("layers", 16), ("sms", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    moetune.torch.use(moetune.open(options.paths))
    layers = Layers(options)
    with torch.inference_mode():
        right = layers.in_turn().clone()
        torch.cuda.synchronize()
        works = {"moves alone": lambda: layers.in_turn(decodes=False), "decode alone": lambda: layers.in_turn(moves=False),
                 "in turn": layers.in_turn, "overlapped": layers.overlapped}
        times, wrong = {"in turn, eager": median_us(layers.in_turn)}, 0
        for name, work in works.items():
            work()
            graph, result = captured(work)
            if name in ("in turn", "overlapped"):
                layers.forget()
                graph.replay()
                torch.cuda.synchronize()
                wrong += not torch.equal(result, right)
            times[name] = median_us(graph.replay)
    moved, alone, turn, both = (times[name] for name in works)
    gib = sum(rows.numel() * rows.element_size() for rows in layers.host) / 2**30
    print(f"{options.layers} layers, {options.batch} sequences of {options.context} tokens, {gib:.2f} GiB from the host")
    for name, time in times.items():
        print(f"{name:15} {time:10.1f} us {time / turn:6.1%} of in turn")
    print(f"moves {moved / (moved + alone):.1%} of the work; overlap hides {(turn - both) / min(moved, alone):.1%} of the "
          f"shorter part: {turn / both:.3f} times as fast as in turn, {times['in turn, eager'] / both:.3f} as eager")
    print("results are the same" if wrong == 0 else "RESULTS DIFFER")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
