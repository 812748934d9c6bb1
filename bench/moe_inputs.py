"""What bench/moe_experts measures with: a layer's weights, rows, experts of the tokens and the right output.

As moetune's own: the same draw of experts, 16 orders of the experts' loads, and weights twice, of which a call has
other ones than the call before. Weights are bf16, e4m3 with a scale for 128 by 128 (rows: for 128 values), or gpt-oss'
mxfp4 with its activation and biases.
"""
import bisect
import collections
import itertools
import math
import random

import torch

ORDERS = 16  # kSequenceOrders in kernels/buffer.h
COPIES = 2   # as many as copies_for in tuner/worker/tensors.cc gives of weights past the L2 cache
SEED = 1     # moetune bench's own

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]

Layer = collections.namedtuple("Layer", "experts top_k hidden intermediate w", defaults=["same"])
Turn = collections.namedtuple("Turn", "x gate_up down ids x_scale gate_up_scale down_scale")


def mt19937_64(seed):
    """The numbers of std::mt19937_64."""
    state = [seed]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) & (1 << 64) - 1)
    while True:
        for i in range(312):
            x = state[i] & ~0x7FFFFFFF | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ x >> 1 ^ (x & 1) * 0xB5026F5AA96619E9
        for y in state:
            y ^= y >> 29 & 0x5555555555555555
            y ^= y << 17 & 0x71D67FFFEDA60000
            y ^= y << 37 & 0xFFF7EEE000000000
            yield y ^ y >> 43


def draw_experts(layer, tokens, skew):
    """draw_experts of kernels/moe/routing.cc: a list of every token's experts."""
    ranks = [e * 37 % layer.experts for e in range(layer.experts)]
    sums = list(itertools.accumulate(1 / (1 + rank) if skew == "zipf" else 1.0 for rank in ranks))
    drawn, ids = mt19937_64(SEED), []
    for _ in range(tokens):
        own = []
        while len(own) < layer.top_k:
            place = bisect.bisect_right(sums, (next(drawn) >> 11) * 2.0**-53 * sums[-1], 0, layer.experts - 1)
            if place not in own:
                own.append(place)
        ids.append(own)
    return ids


def repeated(scales, rows, columns):
    """A scale for each value of a matrix whose blocks of so many rows and columns share one."""
    return scales.repeat_interleave(rows, -2).repeat_interleave(columns, -1)


class Weights:
    """A layer's, in copies."""

    def __init__(self, layer, device="cuda", dtype=torch.bfloat16):
        def copies(values):
            return [values, *(values.clone() for _ in range(COPIES - 1))]

        def matrices(rows, columns):
            shape = layer.experts, rows, columns
            if layer.w == "mxfp4":
                # Codes of e2m1 are 2.9 on average, so that the values are those of the other types.
                middle = 127 - round(math.log2(2.9 * columns**0.5))
                values = torch.randint(256, (*shape[:2], columns // 2), device=device, dtype=torch.uint8)
                scales = torch.randint(middle - 1, middle + 2, (*shape[:2], columns // 32), device=device,
                                       dtype=torch.uint8)
                return copies(values), copies(scales)
            values = torch.empty(shape, device=device, dtype=dtype)
            if layer.w == "e4m3":
                values = values.normal_().to(torch.float8_e4m3fn)
                scales = torch.rand(layer.experts, rows // 128, columns // 128, device=device) + 0.5
                return copies(values), copies(scales * columns**-0.5)
            return copies(values.normal_(std=columns**-0.5)), [None] * COPIES

        torch.manual_seed(SEED)
        self.layer, self.dtype = layer, dtype
        self.gate_up, self.gate_up_scale = matrices(2 * layer.intermediate, layer.hidden)
        self.down, self.down_scale = matrices(layer.hidden, layer.intermediate)
        self.biases = None
        if layer.w == "mxfp4":
            self.biases = [torch.randn(layer.experts, width, device=device) / 4
                           for width in (2 * layer.intermediate, layer.hidden)]

    def wide(self, name, expert):
        """In float32 [rows, columns]."""
        values, scales = getattr(self, name)[0][expert], getattr(self, f"{name}_scale")[0]
        if self.layer.w == "same":
            return values.float()
        if self.layer.w == "e4m3":
            return values.float() * repeated(scales[expert], 128, 128)
        table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=values.device)
        codes = torch.stack((values & 15, values >> 4), -1).flatten(-2).long()  # the low half comes first
        return table[codes] * repeated(2.0 ** (scales[expert].float() - 127), 1, 32)


class Inputs:
    """Of a number of tokens. `ids` [orders][tokens, top_k]."""

    def __init__(self, weights, tokens, skew):
        layer, device = weights.layer, weights.down[0].device
        self.layer, self.tokens, self.weights = layer, tokens, weights
        x = torch.randn(tokens, layer.hidden, device=device)
        self.x_scale = None
        if layer.w == "e4m3":
            self.x_scale = torch.rand(tokens, layer.hidden // 128, device=device) + 0.5
        x = x.to(torch.float8_e4m3fn if layer.w == "e4m3" else weights.dtype)
        self.x = [x, *(x.clone() for _ in range(COPIES - 1))]
        share = 1 / layer.top_k
        self.shares = share + share / 4 * torch.randn(tokens, layer.top_k, device=device)
        drawn = torch.tensor(draw_experts(layer, tokens, skew))
        self.ids = []
        for order in range(ORDERS):
            names = list(range(layer.experts))
            if order > 0:
                random.Random(order).shuffle(names)
            self.ids.append(torch.tensor(names)[drawn].to(device))

    def turns(self):
        """A Turn for one call after the other."""
        weights = self.weights
        for order, ids in enumerate(self.ids):
            copy = order % COPIES
            yield Turn(self.x[copy], weights.gate_up[copy], weights.down[copy], ids, self.x_scale,
                       weights.gate_up_scale[copy], weights.down_scale[copy])

    def between(self, products, expert):
        """Rows between the two products."""
        if self.weights.biases is None:
            gate, up = products.chunk(2, -1)
            return torch.nn.functional.silu(gate) * up
        products = products + self.weights.biases[0][expert]
        gate, up = products[:, ::2].clamp(max=7), products[:, 1::2].clamp(-7, 7)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)

    def reference(self):
        """The first turn's output in float32."""
        turn, weights = next(self.turns()), self.weights
        out = torch.zeros(self.tokens, self.layer.hidden, device=turn.x.device)
        for expert in turn.ids.unique().tolist():
            token, slot = (turn.ids == expert).nonzero(as_tuple=True)
            x = turn.x[token].float()
            if self.x_scale is not None:
                x = x * repeated(self.x_scale[token], 1, 128)
            rows = self.between(x @ weights.wide("gate_up", expert).T, expert) @ weights.wide("down", expert).T
            if weights.biases is not None:
                rows = rows + weights.biases[1][expert]
            out.index_add_(0, token, rows * self.shares[token, slot][:, None])
        return out


class Order:
    """Slots sorted by expert. `starts` [experts + 1] without padding; `inverse` [tokens, top_k]: a slot's place."""

    def __init__(self, ids, experts):
        flat = ids.flatten()
        self.slots = flat.argsort(stable=True)
        self.sorted_ids = flat[self.slots]
        self.counts = torch.bincount(flat, minlength=experts)
        self.starts = torch.nn.functional.pad(self.counts.cumsum(0), (1, 0))
        self.tokens = self.slots // ids.shape[1]
        self.inverse = self.slots.argsort().to(torch.int32).view_as(ids)

    def padded_places(self, align):
        """Each sorted slot's place where experts begin at multiples of `align`, and all places' number."""
        padded = (self.counts + align - 1) // align * align
        shift = padded.cumsum(0) - padded - self.starts[:-1]
        return torch.arange(len(self.slots), device=shift.device) + shift[self.sorted_ids], int(padded.sum())
