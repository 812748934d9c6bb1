"""moe_experts' peers: what other libraries need to get from rows and a router's tensors to a layer's output.

Every peer gets what moe_inputs.py makes. Sorting and aligning come before the time counts. Rows of SwiGLU and sums
between a library's products are the Triton kernels below, which every peer shares. WEIGHTS are a peer's types.
"""
import ast
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl

import side_by_side
from moe_inputs import COPIES, ORDERS, Inputs, Layer, Order, Weights

__all__ = ["DeepGemm", "Inputs", "Layer", "Torch", "TritonKernels", "Vllm", "WRONG", "Weights"]

WRONG = {"same": 2e-2, "e4m3": 4e-2, "mxfp4": 2e-2}  # of the norm


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
def silu_mul_e4m3_kernel(products, out, scales, counts, width: tl.constexpr, ROOM: tl.constexpr, SCALE_ROOM):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if ROOM > 0:
        if row % ROOM >= tl.load(counts + row // ROOM):
            return
    column = group * 128 + tl.arange(0, 128)
    gate = tl.load(products + row * 2 * width + column).to(tl.float32)
    up = tl.load(products + row * 2 * width + width + column).to(tl.float32)
    value = gate / (1 + tl.exp(-gate)) * up
    scale = tl.maximum(tl.max(tl.abs(value), 0), 1e-10) / 448
    tl.store(out + row * width + column, (value / scale).to(out.dtype.element_ty))
    tl.store(scales + (row // SCALE_ROOM * (width // 128) + group) * SCALE_ROOM + row % SCALE_ROOM, scale)


@triton.jit
def copy_scales_kernel(scales, tokens, places, out, groups, ROOM, BLOCK: tl.constexpr):
    slot, group = tl.program_id(0), tl.arange(0, BLOCK)
    source, target = tl.load(tokens + slot).to(tl.int64), tl.load(places + slot).to(tl.int64)
    value = tl.load(scales + source * groups + group, mask=group < groups)
    tl.store(out + (target // ROOM * groups + group) * ROOM + target % ROOM, value, mask=group < groups)


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


def empty_scales(like, rows, groups, room):
    """[rows, groups] in fp32; those of one group of `room` rows lie side by side, as DeepGEMM takes them."""
    return torch.empty(rows // room, groups, room, dtype=torch.float32, device=like.device).transpose(1, 2)


def silu_mul(products, counts=None, room=0, narrow=False):
    """silu(gate) * up of each row; with `room` rows of an expert, of its first `counts`. Narrow: in e4m3, and scales
    [rows / room, room, width / 128]."""
    rows, width = products.shape[0], products.shape[1] // 2
    if narrow:
        out = products.new_empty(rows, width, dtype=torch.float8_e4m3fn)
        scales = empty_scales(products, rows, width // 128, room or rows)
        silu_mul_e4m3_kernel[rows, width // 128](products, out, scales, counts, width, room, room or rows)
        return out, scales
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


def copy_scales(scales, tokens, places, rows, room):
    """Scales of places, of which some rows' are copied there: [rows / room, room, groups]."""
    groups = scales.shape[1]
    out = empty_scales(scales, rows, groups, room)
    copy_scales_kernel[len(tokens),](scales, tokens, places, out, groups, room, triton.next_power_of_2(groups))
    return out


def time_or_none(calls):
    """Microseconds of one of `calls`, for choosing among many configurations; None for one that the GPU or the library
    refuses."""
    torch.cuda.synchronize()  # what they read was made on another stream
    try:
        return side_by_side.graph_time(torch, calls, lead=False, replays=4, unsettled=1)
    except Exception:  # each library raises its own
        torch.cuda.synchronize()  # raises where nothing runs in this process any more
        return None


class Torch:
    """index_select and grouped_mm."""
    WEIGHTS = ["same"]

    def __init__(self, options):
        self.grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm

    def calls(self, inputs):
        def call(x, gate_up, down, order, offsets):
            products = self.grouped_mm(x.index_select(0, order.tokens), gate_up.transpose(-2, -1), offs=offsets)
            rows = self.grouped_mm(silu_mul(products), down.transpose(-2, -1), offs=offsets)
            return sum_rows(rows, inputs.tokens, inputs.layer.top_k, order.inverse, inputs.shares)

        calls = []
        for turn in inputs.turns():
            order = Order(turn.ids, inputs.layer.experts)
            calls.append(functools.partial(call, turn.x, turn.gate_up, turn.down, order,
                                           order.starts[1:].to(torch.int32)))
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
    WEIGHTS = ["same", "e4m3"]
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
        narrow = ",dtype=fp8_w8a8,block_shape=[128,128]" if layer.w == "e4m3" else ""
        name = f"E={layer.experts},N={layer.intermediate},device_name=NVIDIA_H200{narrow}.json"
        path = self.folder / "configs" / name
        published = json.loads(path.read_text()) if path.exists() else {}
        published.pop("triton_version", None)
        near = sorted(published, key=lambda number: abs(math.log(int(number) / tokens)))[:4]
        plain = dict(BLOCK_SIZE_M=16 if tokens <= 32 else 32 if tokens <= 96 else 64 if tokens <= 512 else 128,
                     BLOCK_SIZE_N=64 if tokens <= 64 else 128, BLOCK_SIZE_K=128 if tokens <= 64 else 64,
                     GROUP_SIZE_M=16 if tokens // layer.experts > 128 else 1, num_warps=4 if tokens <= 128 else 8,
                     num_stages=4 if tokens <= 32 else 3)
        return [published[number] for number in near] + [plain]

    def fits(self, config, narrow):
        m, n, k = (config[f"BLOCK_SIZE_{name}"] for name in "MNK")
        return (config["num_stages"] * (m + n) * k * (1 if narrow else 2) <= self.SHARED_BYTES and
                not (narrow and k > 128) and m * n <= 32 * config["num_warps"] * self.SUMS_OF_THREAD)

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

    def product(self, rows, matrices, out, shares, alignment, top_k, config, scales=None, run=None):
        """scales: of rows and of matrices, if both are e4m3."""
        narrow = scales is not None
        row_scales, matrix_scales = scales or (None, None)
        strides = ([*row_scales.stride(), matrix_scales.stride(0), matrix_scales.stride(2), matrix_scales.stride(1)]
                   if narrow else [0] * 5)
        sorted_ids, blocks, length = alignment
        m, slots = config["BLOCK_SIZE_M"], rows.shape[0] * top_k
        room = slots * m if sorted_ids is None else len(sorted_ids)
        if rows.shape[0] < m:
            room = min(room, slots * m)
        grid = (triton.cdiv(room, m) * triton.cdiv(matrices.shape[1], config["BLOCK_SIZE_N"]),)
        arguments = [rows, matrices, out, None, row_scales, matrix_scales, shares, sorted_ids, blocks, length,
                     matrices.shape[1], matrices.shape[2], room, slots, rows.stride(0), rows.stride(1),
                     matrices.stride(0), matrices.stride(2), matrices.stride(1), out.stride(0), out.stride(1), *strides,
                     0, 0, *([128, 128] if narrow else [0, 0])]
        named = dict(naive_block_assignment=sorted_ids is None, SPLIT_K=1, MUL_ROUTED_WEIGHT=shares is not None,
                     top_k=top_k, compute_type=tl.float16 if out.dtype == torch.float16 else tl.bfloat16,
                     use_fp8_w8a8=narrow, use_int8_w8a8=False, use_int8_w8a16=False, per_channel_quant=False,
                     HAS_BIAS=False, **config)
        if "SWAP_AB" in self.kernel.arg_names:  # from 0.33 on; the rule is its enable_swap_ab
            named["SWAP_AB"] = narrow and m < 64 and config["BLOCK_SIZE_N"] >= 64
        if run is None:
            self.kernel[grid](*arguments, **named)
        else:
            run(*arguments, grid=grid, **named)

    def empty(self, inputs):
        """The first product's rows, and the second's."""
        slots, like = inputs.tokens * inputs.layer.top_k, inputs.x[0]
        return [like.new_empty(slots, width, dtype=inputs.weights.dtype)
                for width in (2 * inputs.layer.intermediate, inputs.layer.hidden)]

    def calls_with(self, inputs, config):
        def call(turn, alignment):
            top_k, narrow = inputs.layer.top_k, inputs.layer.w == "e4m3"
            products, rows = self.empty(inputs)
            self.product(turn.x, turn.gate_up, products, None, alignment, top_k, config,
                         (turn.x_scale, turn.gate_up_scale) if narrow else None)
            between = silu_mul(products, narrow=narrow)
            between, scales = (between[0], (between[1][0], turn.down_scale)) if narrow else (between, None)
            self.product(between, turn.down, rows, inputs.shares, alignment, 1, config, scales)
            return sum_rows(rows, inputs.tokens, top_k)

        return [lambda turn=turn, alignment=alignment: call(turn, alignment)
                for turn, alignment in zip(inputs.turns(), self.aligned(inputs, config["BLOCK_SIZE_M"]))]

    def compile(self, inputs, configs):
        """All at once: compiling takes most of the search."""
        from triton.runtime import _async_compile
        turn, top_k, narrow = next(inputs.turns()), inputs.layer.top_k, inputs.layer.w == "e4m3"
        products, rows = self.empty(inputs)
        between = silu_mul(products, narrow=narrow)
        between, scales = (between[0], (between[1][0], turn.down_scale)) if narrow else (between, None)
        first = (turn.x_scale, turn.gate_up_scale) if narrow else None
        with concurrent.futures.ThreadPoolExecutor(8) as pool, \
                _async_compile.AsyncCompileMode(pool, ignore_errors=True):
            for config in configs:
                alignment = self.aligned(inputs, config["BLOCK_SIZE_M"])[0]
                for arguments in ((turn.x, turn.gate_up, products, None, alignment, top_k, config, first),
                                  (between, turn.down, rows, inputs.shares, alignment, 1, config, scales)):
                    self.product(*arguments, run=self.kernel.warmup)

    def calls(self, inputs):
        """Tuned coordinate by coordinate from the best of the starts, until nothing is better or the time is over."""
        self.alignments = {}
        end, times = time.monotonic() + self.seconds, {}
        sample = slice(0, ORDERS if inputs.tokens <= 1024 else 4)

        def best_of(configs):
            new = [c for c in configs if self.fits(c, inputs.layer.w == "e4m3") and tuple(c.items()) not in times]
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
    """matmul_ogs with SwiGLU or gpt-oss' activation in the first product, of columns of gate and up in turn, under its
    own choices and under constraints on them. Weights in mxfp4 are laid out as vLLM lays them out."""
    WEIGHTS = ["same", "mxfp4"]
    CONSTRAINTS = [{}, *({"is_persistent": persistent, "block_m": block}
                         for block in (16, 32, 64, 128) for persistent in (False, True))]

    def __init__(self, options):
        folder_of_third_party(options)
        from triton_kernels import matmul_ogs, routing
        from triton_kernels.matmul_ogs_details import opt_flags
        self.ogs, self.routing, self.flags = matmul_ogs, routing, opt_flags
        self.seconds = options.tune_seconds
        self.of, self.own = None, None

    def activation(self, layer):
        name, function, values = "silu_mul_pairs", silu_mul_pairs, {}
        if layer.w == "mxfp4":
            from triton_kernels.swiglu import swiglu_fn
            name, function, values = "swiglu", swiglu_fn, {"alpha": 1.702, "limit": 7.0}
        specs = self.ogs.FnSpecs(name, function, tuple(values))
        return self.ogs.FusedActivation(specs, tuple(values.values()), 2)

    def packed(self, values, scales):
        """Weights [experts, K, N] in mxfp4, and their precision: vLLM's _swizzle_mxfp4."""
        from triton_kernels.tensor import FP4, convert_layout, wrap_torch_tensor
        from triton_kernels.tensor_details import layout
        made, options = layout.make_default_matmul_mxfp4_w_layout(mx_axis=1)
        scale_made, scale_options = layout.make_default_matmul_mxfp4_w_scale_layout(mx_axis=1, num_warps=8)
        scales = torch.nn.functional.pad(scales, (0, -scales.shape[-1] % 4))
        weights = convert_layout(wrap_torch_tensor(values.transpose(1, 2), dtype=FP4), made, **options)
        scales = convert_layout(wrap_torch_tensor(scales.transpose(1, 2)), scale_made, **scale_options)
        return weights, self.ogs.PrecisionConfig(weight_scale=scales)

    def own_weights(self, weights):
        """(gate_up, its precision, down, its precision) of each copy. In bf16 w_gate_up [experts, hidden,
        2 * intermediate] is in pairs of columns; the values of a column lie together."""
        if self.of is weights:
            return self.own
        self.own = None
        if weights.layer.w == "mxfp4":
            self.own = [(*self.packed(up, up_scale), *self.packed(down, down_scale)) for up, up_scale, down, down_scale
                        in zip(weights.gate_up, weights.gate_up_scale, weights.down, weights.down_scale)]
        else:
            self.own = [(up.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2).transpose(1, 2), None,
                         down.transpose(1, 2), None) for up, down in zip(weights.gate_up, weights.down)]
        self.of = weights
        return self.own

    def routed(self, inputs, ids):
        order, layer, routing = Order(ids, inputs.layer.experts), inputs.layer, self.routing
        slots, places = order.slots.to(torch.int32), order.inverse.flatten()
        counts = order.counts.to(torch.int32)
        data = routing.RoutingData(inputs.shares.flatten()[order.slots], counts, layer.experts, layer.top_k,
                                   routing.compute_expt_data_torch(counts, layer.experts, len(slots)))
        return data, routing.GatherIndx(slots, places), routing.ScatterIndx(places, slots)

    def calls(self, inputs):
        matmul, own, activation = self.ogs.matmul_ogs, self.own_weights(inputs.weights), self.activation(inputs.layer)
        up_bias, down_bias = inputs.weights.biases or (None, None)
        always = {"split_k": 1} if inputs.layer.w == "mxfp4" else {}  # as vLLM on Hopper

        def call(constraints, turn, weights, data, gather, scatter):
            up, up_precision, down, down_precision = weights
            self.flags.reset_opt_flags_constraints()
            self.flags.update_opt_flags_constraints({**always, **constraints})
            rows = matmul(turn.x, up, up_bias, data, gather_indx=gather, precision_config=up_precision,
                          fused_activation=activation)
            return matmul(rows, down, down_bias, data, scatter_indx=scatter, precision_config=down_precision,
                          gammas=data.gate_scal)

        turns = [(turn, own[order % COPIES], *self.routed(inputs, turn.ids))
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
    """Its grouped products in bf16 or e4m3 of experts' rows one after the other, aligned, and, of few tokens, of as
    many places for every expert. Rows get there by one launch, their scales by another. It compiles when it runs, with
    nvcc or NVRTC."""
    WEIGHTS = ["same", "e4m3"]
    MASKED_TOKENS, ALIGN = 1024, 128

    def __init__(self, options):
        folder_of_third_party(options)
        if shutil.which("nvcc") is None:
            os.environ.setdefault("DG_JIT_USE_NVRTC", "1")
        import deep_gemm
        self.library = deep_gemm

    def product(self, kind, rows, weights, scale, out, *lists):
        """rows: a tensor, or with its scales."""
        if scale is None:
            return getattr(self.library, f"m_grouped_bf16_gemm_nt_{kind}")(rows, weights, out, *lists)
        return getattr(self.library, f"m_grouped_fp8_gemm_nt_{kind}")(rows, (weights, scale), out, *lists,
                                                                       disable_ue8m0_cast=True)

    def gathered(self, inputs, turn, order, places, rows, room):
        """Rows at their places [rows, hidden]; in e4m3 with their scales."""
        out = turn.x.new_empty(rows, inputs.layer.hidden)
        copy_rows(turn.x, order.tokens, places, out)
        return (out, copy_scales(turn.x_scale, order.tokens, places, rows, room)) if turn.x_scale is not None else out

    def contiguous_calls(self, inputs):
        layer, calls, narrow = inputs.layer, [], inputs.layer.w == "e4m3"
        align = self.library.get_mk_alignment_for_contiguous_layout()

        def call(turn, order, places, experts, inverse):
            rows = len(experts)
            products, out = (turn.x.new_empty(rows, width, dtype=inputs.weights.dtype)
                             for width in (2 * layer.intermediate, layer.hidden))
            given = self.gathered(inputs, turn, order, places, rows, rows)
            given = (given[0], given[1][0]) if narrow else given
            self.product("contiguous", given, turn.gate_up, turn.gate_up_scale, products, experts)
            given = silu_mul(products, narrow=narrow)
            given = (given[0], given[1][0]) if narrow else given
            self.product("contiguous", given, turn.down, turn.down_scale, out, experts)
            return sum_rows(out, inputs.tokens, layer.top_k, inverse, inputs.shares)

        for turn in inputs.turns():
            order = Order(turn.ids, layer.experts)
            places, used = order.padded_places(align)
            experts = torch.full((used,), -1, dtype=torch.int32, device=turn.ids.device)
            experts[places] = order.sorted_ids.to(torch.int32)
            calls.append(functools.partial(call, turn, order, places, experts, places[order.inverse.flatten()]))
        return calls

    def masked_calls(self, inputs):
        layer, calls, narrow = inputs.layer, [], inputs.layer.w == "e4m3"

        def call(turn, order, places, counts, inverse, room, expected):
            def split(rows):
                return rows.unflatten(0, (layer.experts, room))

            products, out = (turn.x.new_empty(layer.experts, room, width, dtype=inputs.weights.dtype)
                             for width in (2 * layer.intermediate, layer.hidden))
            given = self.gathered(inputs, turn, order, places, layer.experts * room, room)
            given = (split(given[0]), given[1]) if narrow else split(given)
            self.product("masked", given, turn.gate_up, turn.gate_up_scale, products, counts, expected)
            given = silu_mul(products.flatten(0, 1), counts, room, narrow)
            given = (split(given[0]), given[1]) if narrow else split(given)
            self.product("masked", given, turn.down, turn.down_scale, out, counts, expected)
            return sum_rows(out, inputs.tokens, layer.top_k, inverse, inputs.shares)

        for turn in inputs.turns():
            order = Order(turn.ids, layer.experts)
            room = triton.cdiv(int(order.counts.max()), self.ALIGN) * self.ALIGN
            ranks = torch.arange(len(order.slots), device=turn.ids.device) - order.starts[order.sorted_ids]
            places = order.sorted_ids * room + ranks
            expected = triton.cdiv(len(order.slots), int((order.counts > 0).sum()))
            calls.append(functools.partial(call, turn, order, places, order.counts.to(torch.int32),
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
