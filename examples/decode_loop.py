"""A decode loop: 48 layers of Qwen3-30B-A3B's attention with paged KV and growing contexts, in CUDA graphs.

    python decode_loop.py [--paths FILE...] [--buckets 1,8,32,64] [--context 4096] [--page 64] [--layers 48]

Projections are plain matmuls with random weights; there are no experts. Beside it runs the same loop with the faster of
PyTorch's cuDNN and flash SDPA, on contiguous KV. Prints tokens per second, attention's ratio, and the largest error.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import moetune
import moetune.torch

HIDDEN, HEADS, KV_HEADS, DIM, STEPS, ROUNDS = 2048, 32, 4, 128, 64, 5
SCALE, GPU = DIM**-0.5, torch.device("cuda", 0)


def normal(*shape, scale=1.0):
    return torch.randn(*shape, device=GPU, dtype=torch.bfloat16) * scale


def captured(work):
    """A CUDA graph of `work`, which runs once before."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def medians(loops):
    """Seconds of each loop: rounds in turn, so that clocks are alike."""
    seconds = [[] for _ in loops]
    for _ in range(ROUNDS):
        for loop, taken in zip(loops, seconds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(), loop(), end.record(), end.synchronize()
            taken.append(begin.elapsed_time(end) / 1e3)
    return [statistics.median(taken) for taken in seconds]


def step(weights, x, attention):
    for layer, (qkv, out) in enumerate(weights):
        joined = (F.rms_norm(x, (HIDDEN,)) @ qkv).view(len(x), HEADS + 2 * KV_HEADS, DIM)
        x = x + attention(layer, *joined.split((HEADS, KV_HEADS, KV_HEADS), 1)) @ out
    return x


class Paged:
    """Pages of a pool in random order; contexts grow from `context` on."""

    def __init__(self, layers, batch, context, page):
        self.page, self.context, columns = page, context, -(-(context + STEPS) // page)
        self.table = torch.randperm(batch * columns, device=GPU).to(torch.int32).view(batch, columns)
        self.k, self.v = ([normal(batch * columns, page, KV_HEADS, DIM) for _ in range(layers)] for _ in range(2))
        self.lengths = torch.full((batch,), context, dtype=torch.int32, device=GPU)
        self.o = torch.empty(batch, HEADS, DIM, dtype=torch.bfloat16, device=GPU)

    def advance(self):
        position = self.lengths.long()
        self.slots = position % self.page + self.page * self.table.gather(1, (position // self.page)[:, None])[:, 0]
        self.lengths += 1

    def attention(self, layer, q, k=None, v=None):
        if k is not None:
            for pool, new in ((self.k, k), (self.v, v)):
                pool[layer].flatten(0, 1).index_copy_(0, self.slots, new)
        torch.ops.moetune.decode_attention.out(q, self.k[layer], self.v[layer], self.table, self.lengths, SCALE,
                                               out=self.o, min_context=self.context, max_context=self.context + STEPS,
                                               total_tokens=len(q) * (self.context + STEPS))
        return self.o.flatten(1)

    def error(self, q):
        """Of layer 0, against float32."""
        made, length = self.attention(0, q).view_as(q).float(), int(self.lengths[0])
        k, v = (pool[0][self.table.long()].flatten(1, 2)[:, :length].float() for pool in (self.k, self.v))
        scores = torch.einsum("bgrd,btgd->bgrt", q.float().view(len(q), KV_HEADS, -1, DIM), k) * SCALE
        right = torch.einsum("bgrt,btgd->bgrd", scores.softmax(-1), v).reshape(q.shape)
        return float((made - right).abs().max())


class Contiguous:
    """The same for SDPA, whose length a graph freezes: the middle of the range."""

    def __init__(self, layers, batch, context, backend):
        self.backend, self.last = backend, context + STEPS // 2 - 1
        self.k, self.v = ([normal(batch, KV_HEADS, self.last + 1, DIM) for _ in range(layers)] for _ in range(2))

    def attention(self, layer, q, k=None, v=None):
        if k is not None:
            self.k[layer][:, :, self.last], self.v[layer][:, :, self.last] = k, v
        with sdpa_kernel([self.backend]):
            o = F.scaled_dot_product_attention(q[:, :, None], self.k[layer], self.v[layer], enable_gqa=True)
        return o.flatten(1)


def run_bucket(weights, batch, context, page):
    layers, x, q = len(weights), normal(batch, HIDDEN), normal(batch, HEADS, DIM)
    paged = Paged(layers, batch, context, page)
    error = paged.error(q)
    ours = captured(lambda: (paged.advance(), step(weights, x, paged.attention)))
    ours_alone = captured(lambda: [paged.attention(layer, q) for layer in range(layers)])
    sdpa = Contiguous(layers, batch, context, SDPBackend.CUDNN_ATTENTION)
    rivals = {}
    for name, sdpa.backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            rivals[name] = (captured(lambda: step(weights, x, sdpa.attention)),
                            captured(lambda: [sdpa.attention(layer, q) for layer in range(layers)]))
        except RuntimeError as refused:
            print(f"{name} refuses batch {batch}: {str(refused).splitlines()[0]}")

    def decode(graph):
        paged.lengths.fill_(context)
        for _ in range(STEPS):
            graph.replay()

    paged.lengths.fill_(context + STEPS // 2)
    alone, *theirs = medians([ours_alone.replay] + [graphs[1].replay for graphs in rivals.values()])
    best, (name, graphs) = min(zip(theirs, rivals.items()), key=lambda each: each[0])
    mine, other = medians([lambda: decode(ours), lambda: decode(graphs[0])])
    print(f"{batch:>6} {batch * STEPS / mine:>12.0f} {batch * STEPS / other:>13.0f} {alone / layers * 1e6:>9.2f} "
          f"{best / layers * 1e6:>9.2f} {name:>6} {best / alone:>6.3f} {error:>9.5f}", flush=True)
    return best / alone, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", nargs="*", default=[])
    parser.add_argument("--buckets", default="1,8,32,64")
    for name, default in (("--context", 4096), ("--page", 64), ("--layers", 48)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    moetune.torch.use(moetune.open(options.paths))
    weights = [(normal(HIDDEN, (HEADS + 2 * KV_HEADS) * DIM, scale=HIDDEN**-0.5),
                normal(HEADS * DIM, HIDDEN, scale=(HEADS * DIM)**-0.5)) for _ in range(options.layers)]
    print(" batch     tokens/s SDPA tokens/s  layer us   SDPA us  which  ratio max error")
    rows = [run_bucket(weights, int(batch), options.context, options.page) for batch in options.buckets.split(",")]
    ratios, errors = zip(*rows)
    print(f"attention over SDPA: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}; "
          f"max error {max(errors):.5f}")


if __name__ == "__main__":
    main()
