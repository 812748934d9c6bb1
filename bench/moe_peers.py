"""moe_experts' peers: what other libraries need to get from rows and a router's tensors to a layer's output.

Every peer gets the inputs that moetune measures with: the same draw of experts, 16 orders of the experts' loads, and
weights twice, of which a call has other ones than the call before. Sorting and aligning come before the time counts.
Rows of SwiGLU and sums between a library's products are the Triton kernels below, which every peer shares.
"""
import ast
import bisect
import collections
import concurrent.futures
import functools
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl

ORDERS = 16  # kSequenceOrders in kernels/buffer.h
COPIES = 2   # as many as copies_for in tuner/worker/tensors.cc gives of weights past the L2 cache
SEED = 1     # moetune bench's own
WRONG = 2e-2

Layer = collections.namedtuple("Layer", "experts top_k hidden intermediate")


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


class Weights:
    """A layer's, in copies."""

    def __init__(self, layer, device="cuda", dtype=torch.bfloat16):
        def matrices(rows, columns):
            values = torch.empty(layer.experts, rows, columns, device=device, dtype=dtype)
            values.normal_(std=columns**-0.5)
            return [values, *(values.clone() for _ in range(COPIES - 1))]

        torch.manual_seed(SEED)
        self.layer = layer
        self.gate_up = matrices(2 * layer.intermediate, layer.hidden)
        self.down = matrices(layer.hidden, layer.intermediate)


class Inputs:
    """Of a number of tokens. `ids` [orders][tokens, top_k]."""

    def __init__(self, weights, tokens, skew):
        layer, some = weights.layer, weights.down[0]
        self.layer, self.tokens, self.weights = layer, tokens, weights
        x = torch.randn(tokens, layer.hidden, device=some.device).to(some.dtype)
        self.x = [x, *(x.clone() for _ in range(COPIES - 1))]
        share = 1 / layer.top_k
        self.shares = share + share / 4 * torch.randn(tokens, layer.top_k, device=some.device)
        drawn = torch.tensor(draw_experts(layer, tokens, skew))
        self.ids = []
        for order in range(ORDERS):
            names = list(range(layer.experts))
            if order > 0:
                random.Random(order).shuffle(names)
            self.ids.append(torch.tensor(names)[drawn].to(some.device))

    def turns(self):
        """(x, w_gate_up, w_down, ids) of one call after the other."""
        for order, ids in enumerate(self.ids):
            copy = order % COPIES
            yield self.x[copy], self.weights.gate_up[copy], self.weights.down[copy], ids

    def reference(self):
        """The first turn's output in float32."""
        x, gate_up, down, ids = next(self.turns())
        out = torch.zeros(self.tokens, self.layer.hidden, device=x.device)
        for expert in ids.unique().tolist():
            token, slot = (ids == expert).nonzero(as_tuple=True)
            gate, up = (x[token].float() @ gate_up[expert].float().T).chunk(2, -1)
            rows = (torch.nn.functional.silu(gate) * up) @ down[expert].float().T
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


@triton.jit
def silu_mul_kernel(products, out, counts, width: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if ROOM > 0:
        if row % ROOM >= tl.load(counts + row // ROOM):
            return
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(products + row * 2 * width + column, mask=inside, other=0).to(tl.float32)
    up = tl.load(products + row * 2 * width + width + column, mask=inside, other=0).to(tl.float32)
    value = gate / (1 + tl.exp(-gate)) * up
    tl.store(out + row * width + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def sum_kernel(rows, inverse, shares, out, hidden: tl.constexpr, top_k: tl.constexpr, PLACED: tl.constexpr,
               WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < hidden
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(top_k):
        place = token * top_k + k
        share = 1.0
        if WEIGHTED:
            share = tl.load(shares + place)
        if PLACED:
            place = tl.load(inverse + place).to(tl.int64)
        total += share * tl.load(rows + place * hidden + column, mask=inside, other=0).to(tl.float32)
    tl.store(out + token * hidden + column, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def copy_rows_kernel(rows, tokens, places, out, hidden: tl.constexpr, BLOCK: tl.constexpr):
    slot = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < hidden
    source, target = tl.load(tokens + slot).to(tl.int64), tl.load(places + slot).to(tl.int64)
    tl.store(out + target * hidden + column, tl.load(rows + source * hidden + column, mask=inside), mask=inside)


def silu_mul(products, counts=None, room=0):
    """silu(gate) * up of each row; with `room` rows of an expert, of its first `counts`."""
    rows, width = products.shape[0], products.shape[1] // 2
    out = products.new_empty(rows, width)
    block = min(1024, triton.next_power_of_2(width))
    silu_mul_kernel[rows, triton.cdiv(width, block)](products, out, counts, width, room, block)
    return out


def sum_rows(rows, tokens, top_k, inverse=None, shares=None):
    """[tokens, hidden]: a token's rows, at their slots or at `inverse`, and times their shares if any."""
    hidden = rows.shape[-1]
    out = rows.new_empty(tokens, hidden)
    block = min(512, triton.next_power_of_2(hidden))
    sum_kernel[tokens, triton.cdiv(hidden, block)](rows, inverse, shares, out, hidden, top_k, inverse is not None,
                                                  shares is not None, block)
    return out


def copy_rows(x, tokens, places, out):
    hidden = x.shape[1]
    block = min(1024, triton.next_power_of_2(hidden))
    copy_rows_kernel[len(tokens), triton.cdiv(hidden, block)](x, tokens, places, out, hidden, block)


def quick_time(calls):
    """Microseconds of one of `calls`, for choosing among many configurations."""
    torch.cuda.synchronize()  # what they read was made on another stream
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        times = []
        for _ in range(4):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / len(calls))
    return statistics.median(times[1:])


def time_or_none(calls):
    """The same of some calls; None for a configuration that the GPU or the library refuses."""
    try:
        return quick_time(calls)
    except Exception:  # each library raises its own
        torch.cuda.synchronize()  # raises where nothing runs in this process any more
        return None


class Torch:
    """index_select and grouped_mm."""

    def __init__(self, options):
        self.grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm

    def calls(self, inputs):
        def call(x, gate_up, down, order, offsets):
            products = self.grouped_mm(x.index_select(0, order.tokens), gate_up.transpose(-2, -1), offs=offsets)
            rows = self.grouped_mm(silu_mul(products), down.transpose(-2, -1), offs=offsets)
            return sum_rows(rows, inputs.tokens, inputs.layer.top_k, order.inverse, inputs.shares)

        calls = []
        for x, gate_up, down, ids in inputs.turns():
            order = Order(ids, inputs.layer.experts)
            offsets = order.starts[1:].to(torch.int32)
            calls.append(lambda *a, order=order, offsets=offsets, x=x, gate_up=gate_up, down=down:
                         call(x, gate_up, down, order, offsets))
        return calls, None


def jitted_functions(path, name):
    """The source of a Triton kernel of a file, and of the file's own jitted functions that it calls. The file itself
    is not run, whose imports need the whole library."""
    text = path.read_text()
    jitted = {node.name: node for node in ast.parse(text).body
              if isinstance(node, ast.FunctionDef) and [ast.unparse(d) for d in node.decorator_list] == ["triton.jit"]}
    if name not in jitted:
        raise ImportError(f"{path} has no {name}")
    wanted, left = set(), [name]
    while left:
        one = left.pop()
        if one not in wanted:
            wanted.add(one)
            left += [n.id for n in ast.walk(jitted[one]) if isinstance(n, ast.Name) and n.id in jitted]
    lines = text.splitlines()
    parts = ["\n".join(lines[node.decorator_list[0].lineno - 1:node.end_lineno])
             for node in jitted.values() if node.name in wanted]
    return "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n"


class Vllm:
    """vLLM's fused_moe_kernel, with one configuration for both products as vLLM has."""
    CHOICES = {"BLOCK_SIZE_M": [16, 32, 64, 128, 256], "BLOCK_SIZE_N": [32, 64, 128, 256],
               "BLOCK_SIZE_K": [64, 128, 256], "num_stages": [2, 3, 4, 5], "num_warps": [4, 8],
               "GROUP_SIZE_M": [1, 16, 32, 64]}
    SHARED_BYTES = 227 << 10
    SUMS_OF_THREAD = 128

    def __init__(self, options):
        if not options.vllm:
            raise ImportError("needs --vllm FOLDER")
        self.folder = pathlib.Path(options.vllm) / "vllm/model_executor/layers/fused_moe"
        self.seconds = options.tune_seconds
        self.written = tempfile.TemporaryDirectory()
        source = pathlib.Path(self.written.name) / "fused_moe_kernel_of_vllm.py"
        source.write_text(jitted_functions(self.folder / "fused_moe.py", "fused_moe_kernel"))
        sys.path.insert(0, self.written.name)
        import fused_moe_kernel_of_vllm
        self.kernel = fused_moe_kernel_of_vllm.fused_moe_kernel

    def starts(self, layer, tokens):
        """The published configurations for numbers of tokens near this one, nearest first, and a plain one."""
        path = self.folder / "configs" / f"E={layer.experts},N={layer.intermediate},device_name=NVIDIA_H200.json"
        published = json.loads(path.read_text()) if path.exists() else {}
        published.pop("triton_version", None)
        near = sorted(published, key=lambda number: abs(math.log(int(number) / tokens)))[:4]
        plain = dict(BLOCK_SIZE_M=16 if tokens <= 32 else 32 if tokens <= 96 else 64 if tokens <= 512 else 128,
                     BLOCK_SIZE_N=64 if tokens <= 64 else 128, BLOCK_SIZE_K=128 if tokens <= 64 else 64,
                     GROUP_SIZE_M=16 if tokens // layer.experts > 128 else 1, num_warps=4 if tokens <= 128 else 8,
                     num_stages=4 if tokens <= 32 else 3)
        return [published[number] for number in near] + [plain]

    def fits(self, config):
        m, n, k = (config[f"BLOCK_SIZE_{name}"] for name in "MNK")
        return (config["num_stages"] * (m + n) * k * 2 <= self.SHARED_BYTES and
                m * n <= 32 * config["num_warps"] * self.SUMS_OF_THREAD)

    def aligned(self, inputs, block):
        """sorted_token_ids, expert_ids and num_tokens_post_padded of each turn. Few slots are not sorted: every one is
        a block."""
        if block in self.alignments:
            return self.alignments[block]
        found = self.alignments[block] = []
        experts, slots = inputs.layer.experts, inputs.tokens * inputs.layer.top_k
        for ids in inputs.ids:
            if slots * 4 <= experts:
                length = torch.full((1,), slots * block, dtype=torch.int32, device=ids.device)
                found.append((None, ids.flatten().to(torch.int32), length))
                continue
            order = Order(ids, experts)
            places, used = order.padded_places(block)
            room = slots + experts * (block - 1)
            room = min(room, slots * block) if slots < experts else room
            sorted_ids = torch.full((room,), slots, dtype=torch.int32, device=ids.device)
            sorted_ids[places] = order.slots.to(torch.int32)
            blocks = torch.zeros(triton.cdiv(room, block), dtype=torch.int32, device=ids.device)
            blocks[places // block] = order.sorted_ids.to(torch.int32)
            found.append((sorted_ids, blocks, torch.full((1,), used, dtype=torch.int32, device=ids.device)))
        return found

    def product(self, rows, matrices, out, shares, alignment, top_k, config, run=None):
        sorted_ids, blocks, length = alignment
        m, slots = config["BLOCK_SIZE_M"], rows.shape[0] * top_k
        room = slots * m if sorted_ids is None else len(sorted_ids)
        if rows.shape[0] < m:
            room = min(room, slots * m)
        grid = (triton.cdiv(room, m) * triton.cdiv(matrices.shape[1], config["BLOCK_SIZE_N"]),)
        arguments = [rows, matrices, out, None, None, None, shares, sorted_ids, blocks, length, matrices.shape[1],
                     matrices.shape[2], room, slots, rows.stride(0), rows.stride(1), matrices.stride(0),
                     matrices.stride(2), matrices.stride(1), out.stride(0), out.stride(1), 0, 0, 0, 0, 0, 0, 0, 0, 0]
        named = dict(naive_block_assignment=sorted_ids is None, SPLIT_K=1, MUL_ROUTED_WEIGHT=shares is not None,
                     top_k=top_k, compute_type=tl.bfloat16 if rows.dtype == torch.bfloat16 else tl.float16,
                     use_fp8_w8a8=False, use_int8_w8a8=False, use_int8_w8a16=False, per_channel_quant=False,
                     HAS_BIAS=False, **config)
        if run is None:
            self.kernel[grid](*arguments, **named)
        else:
            run(*arguments, grid=grid, **named)

    def calls_with(self, inputs, config):
        def call(turn, alignment):
            x, gate_up, down, _ = turn
            slots, top_k = inputs.tokens * inputs.layer.top_k, inputs.layer.top_k
            products = x.new_empty(slots, gate_up.shape[1])
            self.product(x, gate_up, products, None, alignment, top_k, config)
            rows = x.new_empty(slots, inputs.layer.hidden)
            self.product(silu_mul(products), down, rows, inputs.shares, alignment, 1, config)
            return sum_rows(rows, inputs.tokens, top_k)

        return [lambda turn=turn, alignment=alignment: call(turn, alignment)
                for turn, alignment in zip(inputs.turns(), self.aligned(inputs, config["BLOCK_SIZE_M"]))]

    def compile(self, inputs, configs):
        """All at once: compiling takes most of the search."""
        from triton.runtime import _async_compile
        turn, top_k = next(inputs.turns()), inputs.layer.top_k
        products = turn[0].new_empty(inputs.tokens * top_k, turn[1].shape[1])
        between = products[:, :inputs.layer.intermediate].contiguous()
        rows = turn[0].new_empty(inputs.tokens * top_k, inputs.layer.hidden)
        with concurrent.futures.ThreadPoolExecutor(8) as pool, \
                _async_compile.AsyncCompileMode(pool, ignore_errors=True):
            for config in configs:
                alignment = self.aligned(inputs, config["BLOCK_SIZE_M"])[0]
                for arguments in ((turn[0], turn[1], products, None, alignment, top_k, config),
                                  (between, turn[2], rows, inputs.shares, alignment, 1, config)):
                    self.product(*arguments, run=self.kernel.warmup)

    def calls(self, inputs):
        """Tuned coordinate by coordinate from the best of the starts, until nothing is better or the time is over."""
        self.alignments = {}
        end, times = time.monotonic() + self.seconds, {}
        sample = slice(0, ORDERS if inputs.tokens <= 1024 else 4)

        def best_of(configs):
            new = [c for c in configs if self.fits(c) and tuple(c.items()) not in times]
            if new and (time.monotonic() < end or not times):
                self.compile(inputs, new)
                for config in new:
                    times[tuple(config.items())] = time_or_none(self.calls_with(inputs, config)[sample]) or math.inf
            return dict(min(times, key=times.get))

        best = best_of([{key: start[key] for key in self.CHOICES}
                        for start in self.starts(inputs.layer, inputs.tokens)])
        before = None
        while best != before and time.monotonic() < end:
            before = best
            for name, values in self.CHOICES.items():
                best = best_of([{**best, name: value} for value in values])
        return self.calls_with(inputs, best), {"config": best, "tried": len(times),
                                               "finished": time.monotonic() < end}


@triton.jit
def silu_mul_pairs(input):
    gate, up = tl.split(tl.reshape(input, (input.shape[0], input.shape[1] // 2, 2)))
    return gate / (1 + tl.exp(-gate)) * up


def folder_of_third_party(options):
    if not options.vllm:
        raise ImportError("needs --vllm FOLDER")
    folder = str(pathlib.Path(options.vllm).resolve() / "vllm" / "third_party")
    if folder not in sys.path:
        sys.path.insert(0, folder)


class TritonKernels:
    """matmul_ogs with SwiGLU in the first product, of columns of gate and up in turn, under its own choices and under
    constraints on them."""
    CONSTRAINTS = [{}, *({"is_persistent": persistent, "block_m": block}
                         for block in (16, 32, 64, 128) for persistent in (False, True))]

    def __init__(self, options):
        folder_of_third_party(options)
        from triton_kernels import matmul_ogs, routing
        from triton_kernels.matmul_ogs_details import opt_flags
        self.ogs, self.routing, self.flags = matmul_ogs, routing, opt_flags
        self.activation = matmul_ogs.FusedActivation(matmul_ogs.FnSpecs("silu_mul_pairs", silu_mul_pairs, ()), (), 2)
        self.seconds = options.tune_seconds
        self.of, self.pairs = None, None

    def paired(self, weights):
        """w_gate_up [experts, hidden, 2 * intermediate] in pairs of columns; the values of a column lie together."""
        if self.of is not weights:
            self.pairs = None
            self.pairs = [w.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2).transpose(1, 2)
                          for w in weights.gate_up]
            self.of = weights
        return self.pairs

    def routed(self, inputs, ids):
        order, layer, routing = Order(ids, inputs.layer.experts), inputs.layer, self.routing
        slots, places = order.slots.to(torch.int32), order.inverse.flatten()
        counts = order.counts.to(torch.int32)
        data = routing.RoutingData(inputs.shares.flatten()[order.slots], counts, layer.experts, layer.top_k,
                                   routing.compute_expt_data_torch(counts, layer.experts, len(slots)))
        return data, routing.GatherIndx(slots, places), routing.ScatterIndx(places, slots)

    def calls(self, inputs):
        matmul, pairs = self.ogs.matmul_ogs, self.paired(inputs.weights)

        def call(constraints, turn, pair, data, gather, scatter):
            self.flags.reset_opt_flags_constraints()
            self.flags.update_opt_flags_constraints(constraints)
            rows = matmul(turn[0], pair, None, data, gather_indx=gather, fused_activation=self.activation)
            return matmul(rows, turn[2].transpose(1, 2), None, data, scatter_indx=scatter, gammas=data.gate_scal)

        turns = [(turn, pairs[order % COPIES], *self.routed(inputs, turn[3]))
                 for order, turn in enumerate(inputs.turns())]
        sample = slice(0, ORDERS if inputs.tokens <= 1024 else 4)
        end, times = time.monotonic() + self.seconds, {}
        # Its own block_m is about the tokens of an expert: the nearest first.
        even = math.log2(max(1, inputs.tokens * inputs.layer.top_k / inputs.layer.experts))
        for number, one in sorted(enumerate(self.CONSTRAINTS),
                                  key=lambda c: abs(math.log2(c[1]["block_m"]) - even) if c[1] else -1):
            if not times or time.monotonic() < end:
                times[number] = time_or_none([lambda t=t, one=one: call(one, *t) for t in turns[sample]]) or math.inf
        best = self.CONSTRAINTS[min(times, key=times.get)]
        return [lambda t=t: call(best, *t) for t in turns], {"config": best, "tried": len(times)}


class DeepGemm:
    """Its grouped products in bf16 of experts' rows one after the other, aligned, and, of few tokens, of as many places
    for every expert. Rows get there by one launch. It compiles when it runs, with nvcc or NVRTC."""
    MASKED_TOKENS, ALIGN = 1024, 128

    def __init__(self, options):
        folder_of_third_party(options)
        if shutil.which("nvcc") is None:
            os.environ.setdefault("DG_JIT_USE_NVRTC", "1")
        import deep_gemm
        self.library = deep_gemm

    def contiguous_calls(self, inputs):
        library, layer, calls = self.library, inputs.layer, []
        align = library.get_mk_alignment_for_contiguous_layout()

        def call(x, gate_up, down, tokens, places, experts, inverse):
            rows = len(experts)
            gathered, products, out = (x.new_empty(rows, width) for width in
                                       (layer.hidden, 2 * layer.intermediate, layer.hidden))
            copy_rows(x, tokens, places, gathered)
            library.m_grouped_bf16_gemm_nt_contiguous(gathered, gate_up, products, experts)
            library.m_grouped_bf16_gemm_nt_contiguous(silu_mul(products), down, out, experts)
            return sum_rows(out, inputs.tokens, layer.top_k, inverse, inputs.shares)

        for x, gate_up, down, ids in inputs.turns():
            order = Order(ids, layer.experts)
            places, used = order.padded_places(align)
            experts = torch.full((used,), -1, dtype=torch.int32, device=ids.device)
            experts[places] = order.sorted_ids.to(torch.int32)
            calls.append(functools.partial(call, x, gate_up, down, order.tokens, places, experts,
                                           places[order.inverse.flatten()]))
        return calls

    def masked_calls(self, inputs):
        library, layer, calls = self.library, inputs.layer, []

        def call(x, gate_up, down, tokens, places, counts, inverse, room, expected):
            gathered, products, out = (x.new_empty(layer.experts, room, width) for width in
                                       (layer.hidden, 2 * layer.intermediate, layer.hidden))
            copy_rows(x, tokens, places, gathered)
            library.m_grouped_bf16_gemm_nt_masked(gathered, gate_up, products, counts, expected)
            between = silu_mul(products.flatten(0, 1), counts, room).unflatten(0, (layer.experts, room))
            library.m_grouped_bf16_gemm_nt_masked(between, down, out, counts, expected)
            return sum_rows(out, inputs.tokens, layer.top_k, inverse, inputs.shares)

        for x, gate_up, down, ids in inputs.turns():
            order = Order(ids, layer.experts)
            room = triton.cdiv(int(order.counts.max()), self.ALIGN) * self.ALIGN
            ranks = torch.arange(len(order.slots), device=ids.device) - order.starts[order.sorted_ids]
            places = order.sorted_ids * room + ranks
            expected = triton.cdiv(len(order.slots), int((order.counts > 0).sum()))
            calls.append(functools.partial(call, x, gate_up, down, order.tokens, places, order.counts.to(torch.int32),
                                           places[order.inverse.flatten()], room, expected))
        return calls

    def calls(self, inputs):
        choices = {"contiguous": lambda: self.contiguous_calls(inputs)}
        if inputs.tokens <= self.MASKED_TOKENS:
            choices["masked"] = lambda: self.masked_calls(inputs)
        times = {}
        for name, make in choices.items():
            calls = make()
            times[name] = time_or_none(calls if inputs.tokens <= 1024 else calls[:4]) or math.inf
        best = min(times, key=times.get)
        return choices[best](), {"config": best}
