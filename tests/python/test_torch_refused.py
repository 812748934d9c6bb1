"""What the operators of moetune.torch refuse: before a family is looked for, with their own names, and of fake tensors
with the same words as of real ones."""

import itertools
import json
import subprocess
import sys
import unittest
from typing import Any, Callable, Iterator

import moetune
from moe_cases import Case, Experts, Rows, if_tuned
from test_torch import SCALE, Inputs
from test_torch_prefill import Sequences
from torch_support import DEVICE, REASON, VERBOSITY, backends

if not REASON:
    import torch

    import moe_reference as plain
    import moetune.torch as operators
    from moetune import _operators

    ops = torch.ops.moetune

# Every operator with tensors of the CPU; prints the exceptions' classes and sentences.
ON_CPU = """
import json, torch, moetune
import moetune.torch as operators
ints, row = torch.zeros(4, dtype=torch.int32), torch.zeros(4, 16, dtype=torch.bfloat16)
q, cache = torch.zeros(4, 8, 128, dtype=torch.bfloat16), torch.zeros(4, 16, 1, 128, dtype=torch.bfloat16)
calls = {
    "decode_attention": lambda: operators.decode_attention(q, cache, cache, None, ints, 0.1),
    "prefill_attention": lambda: operators.prefill_attention(q, cache[0], cache[0], ints, ints, None, None, 0.1),
    "route": lambda: operators.route(row, 2),
    "route_rows": lambda: operators.route_rows(row, 2),
    "route_ends": lambda: operators.route_ends(row, 2),
    "route_masked": lambda: operators.route_masked(row, 2, 8),
    "route_ranks": lambda: operators.route_ranks(row, 2, 4),
    "route_weights": lambda: operators.route_weights(row, 2),
    "route_plan": lambda: operators.route_plan(ints[:, None], 4),
    "route_plan_rows": lambda: operators.route_plan_rows(ints[:, None], 4),
    "route_plan_ends": lambda: operators.route_plan_ends(ints[:, None], 4),
    "route_plan_masked": lambda: operators.route_plan_masked(ints[:, None], 4, 8),
    "moe_dispatch": lambda: operators.moe_dispatch(row, ints, ints[:, None]),
    "moe_dispatch_e4m3": lambda: operators.moe_dispatch_e4m3(row, ints, ints[:, None]),
    "moe_combine": lambda: operators.moe_combine(row, ints[:, None], ints[:, None].float()),
    "moe_experts": lambda: operators.moe_experts(row, ints, ints, ints[:, None], row[:, :1].float(), row[None],
                                                 row[None]),
    "route.out": lambda: operators.route_weights(row, 2, out=(ints, row)),
}
shown = {}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        shown[name] = [type(error).__name__, str(error)]
print(json.dumps(shown))
"""


def sliced(tensor: Any) -> Any:
    """A copy whose rows lie 4 elements apart."""
    wider = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 4, dtype=tensor.dtype, device=DEVICE)
    wider[..., :-4] = tensor
    return wider[..., :-4]


def shifted(tensor: Any) -> Any:
    """A copy at an address that is a multiple of no more than its elements' size."""
    moved = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype, device=DEVICE)[1:].reshape(tensor.shape)
    return moved.copy_(tensor)


def decode(q: Any = None, k: Any = None, v: Any = None, page_table: Any = None, seq_lens: Any = None,
           scale: float = SCALE, layout: str = "NHD", **options: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A call of decode_attention, or of its overload that takes the caller's outputs, with some arguments replaced."""
    inputs = Inputs()
    given = tuple(right if mine is None else mine for mine, right in zip(
        (q, k, v, page_table, seq_lens), (inputs.q, inputs.k, inputs.v, inputs.page_table, inputs.lengths)))
    overload = "out" if "out" in options else "lse" if "lse" in options else "default"
    return getattr(ops.decode_attention, overload), (*given, scale, layout), options


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def bad_routes() -> Iterator[tuple[str, Call]]:
    """Likewise of the router's operators."""
    one, case = torch.ones(1, device=DEVICE), Case(tokens=9, experts=24)
    logits, ids = case.logits, torch.zeros(9, 3, dtype=torch.int32, device=DEVICE)
    outs = operators.Routing(*(each.to(DEVICE) for each in Case(tokens=9, experts=24, top_k=3).right()))

    def route(top_k: int = 3, **options: Any) -> Call:
        return ops.route.default, (logits, top_k), options

    def into(**replaced: Any) -> Call:
        return ops.route.out, (logits, 3), {**outs._asdict(), **replaced}

    yield "route: top_k is 25; it must be from 1 to the 24 experts", route(25)
    yield "route: 'logits' has 3 dimensions; it must be .tokens, experts.", (ops.route.default, (logits[None], 3), {})
    yield "route: logits must be fp32, bf16 or fp16", (ops.route.default, (logits.double(), 3), {})
    yield "route: the elements of the last dimension of 'logits' must lie side by side", (
        ops.route.default, (logits.T.contiguous().T, 3), {})
    yield "route: align is 3; it must be a power of two", route(align=3)
    yield "route: scale is -1.0.*; it must be a positive number", route(scale=-1.0)
    yield "route: 'bias' is .23.; it must be .24.", route(bias=logits[0, :23])
    yield "route: 'bias' is bf16; it must be fp32", route(bias=logits[0].bfloat16())
    yield "route: 'bias' is not contiguous", route(bias=logits.T.contiguous().T[0])
    yield "route: 'expert_map' is i64; it must be i32", route(expert_map=logits[0].long())
    yield "route: 'bias' is fp64; it must be fp32", route(bias=logits[0].double())
    yield "route: 'bias' is of a type that no kernel takes; it must be fp32", route(
        bias=logits[0].to(torch.complex64))
    yield "route: 'token_count' is i64; it must be i32", route(token_count=one.long())
    yield "route: groups is 5; it must divide the 24 experts", route(groups=5)
    yield "route: groups_kept is 9; it must be from 1 to the 8 groups", route(groups=8, groups_kept=9)
    yield "route: top_k is 3; the groups that are kept have 2 experts", route(groups=12)
    yield "route: capacity is -1; it must be 0 or more", route(capacity=-1)
    yield "route: capacity is a share .* token_count", route(capacity=100, token_count=one.int())
    yield "route: ids_type is 'i8'; it must be i32 or i64", route(ids_type="i8")
    yield "route: 'ids' is .8, 3.; it must be .9, 3.", into(ids=ids[:8])
    yield "route: 'sorted' is not contiguous", into(sorted=outs.sorted.repeat(2)[::2])
    yield "route: 'dropped' is .8, 3.; it must be .9, 3.", into(capacity=100, dropped=ids[:8].bool())
    yield "route: 'dropped' is i32; it must be bool", into(capacity=100, dropped=ids)
    yield "route: 'dropped' needs a capacity, without which nothing is dropped", into(dropped=ids.bool())
    yield "route_weights: score is 'max'; it must be softmax, topk_softmax, sigmoid or sqrt_softplus", (
        ops.route_weights.default, (logits, 3), {"score": "max"})
    yield "route_weights: 'ids' is i64; it must be i32", (ops.route_weights.out, (logits, 3),
                                                           {"ids": ids.long(), "weights": ids.float()})
    yield "route_weights: 'weights' is .8, 3.; it must be .9, 3.", (
        ops.route_weights.out, (logits, 3), {"ids": ids, "weights": ids[:8].float()})
    yield "route_weights: 'weights' is not contiguous", (
        ops.route_weights.out, (logits, 3), {"ids": ids, "weights": ids.float().T.contiguous().T})
    yield "route_ranks: ranks is 7; it must divide", (ops.route_ranks.default, (logits, 3, 7), {})
    yield "route_masked: segment is 0", (ops.route_masked.default, (logits, 3, 0), {})


def bad_moves() -> Iterator[tuple[str, Call]]:
    """Likewise of moe_dispatch, moe_dispatch_e4m3, moe_combine and moe_experts."""
    rows, right = Rows(), Experts().arguments()

    def dispatch(x: Any = rows.x, sorted: Any = rows.sorted, inverse: Any = rows.inverse, **options: Any) -> Call:
        overload = ops.moe_dispatch.out if "rows" in options else ops.moe_dispatch.default
        return overload, (x, sorted, inverse), options

    def combine(inverse: Any = rows.inverse, weights: Any = rows.weights, **options: Any) -> Call:
        return (ops.moe_combine.out if options else ops.moe_combine.default), (rows.rows, inverse, weights), options

    def experts(place: int, replaced: Any, **options: Any) -> Call:
        given = (*right[:place], replaced, *right[place + 1:])
        return (ops.moe_experts.out if options else ops.moe_experts.default), given, options

    narrow = Experts(intermediate=128)
    scales = narrow.narrowed()

    def in_e4m3(**replaced: Any) -> Call:
        return ops.moe_experts.default, narrow.arguments(), {**scales, **replaced}

    yield "moe_experts: 'x' is fp32; it must be bf16, fp16 or e4m3", experts(0, right[0].float())
    yield "moe_experts: 'x_scale' belongs to an 'x' of e4m3", (
        ops.moe_experts.default, right, {"x_scale": scales["x_scale"]})
    yield "moe_experts: tensor 'x_scale' is missing", in_e4m3(x_scale=None)
    yield "moe_experts: 'gate_up_scale' is .16, 1, 2.; it must be .16, 2, 2.", in_e4m3(
        gate_up_scale=scales["gate_up_scale"][:, 1:].contiguous())
    yield "moe_experts: 'down_scale' is bf16; it must be fp32", in_e4m3(down_scale=scales["down_scale"].bfloat16())
    yield "moe_experts: hidden 256 and intermediate 40 must be multiples of 128", (
        ops.moe_experts.default, tuple(each.to(narrow.x.dtype) if place in (0, 5, 6) else each
                                       for place, each in enumerate(right)), scales)
    packed = Experts(intermediate=96)
    options = packed.packed()

    def in_mxfp4(place: int = 0, replaced: Any = packed.x, **others: Any) -> Call:
        given = packed.arguments()
        return ops.moe_experts.default, (*given[:place], replaced, *given[place + 1:]), {**options, **others}

    yield "moe_experts: weights in mxfp4 go with an 'x' of bf16", in_mxfp4(0, packed.x.half())
    yield "moe_experts: 'w_gate_up' has 3 dimensions; it must be .experts, intermediate / 8, blocks, 512.", in_mxfp4(
        5, packed.gate_up.flatten(2))
    yield "moe_experts: 'w_down' is .16, 15, 2, 512.; it must be .16, 16, 2, 512.", in_mxfp4(
        6, packed.down[:, :15].contiguous())
    yield "moe_experts: tensor 'gate_up_scale' is missing", in_mxfp4(gate_up_scale=None)
    yield "moe_experts: tensor 'down_bias' is missing", in_mxfp4(down_bias=None)
    yield "moe_experts: 'gate_up_bias' belongs to activation 'swigluoai'", in_mxfp4(activation="silu")
    yield "moe_experts: 'gate_up_bias' is fp32; it must be bf16", in_mxfp4(gate_up_bias=options["gate_up_bias"].float())
    yield "moe_experts: activation is 'swiglu'", in_mxfp4(activation="swiglu")
    yield "moe_experts: activation 'swigluoai' is not for e4m3", in_e4m3(activation="swigluoai")
    yield "moe_experts: 'w_gate_up' and 'w_down' are both missing", (
        ops.moe_experts.default, (*right[:5], None, None), {})
    yield "moe_experts: without 'w_down' the output has a row for each place", experts(6, None)
    yield "moe_experts: without 'w_gate_up' x has a row for each place", experts(5, None)
    yield "moe_experts: top_k is 0; it must be 1 or more", experts(3, None)
    yield "moe_experts: 'weights' go with 'inverse'", (
        ops.moe_experts.default, (*right[:3], None, *right[4:]), {"top_k": 2})
    yield "moe_experts: top_k is 3; that of 'inverse' is 2", (ops.moe_experts.default, right, {"top_k": 3})
    yield "moe_experts: 'down_scale' belongs to 'w_down', which is missing", (
        ops.moe_experts.default, Experts().up_alone(), {"top_k": 2, "down_scale": scales["down_scale"]})
    yield "moe_experts: 'sorted' has 2 dimensions; it must be .places.", experts(1, right[1][None])
    yield "moe_experts: the elements of the last dimension of 'w_down' must lie side by side", experts(
        6, right[6].repeat_interleave(2, 2)[..., ::2])
    aside = Experts().transpose_in_memory()
    yield "moe_experts: the elements of each column of 'w_gate_up' must lie side by side, as those of 'w_down' do", (
        experts(6, aside.down))
    yield "moe_experts: the elements of the last dimension of 'w_gate_up' must lie side by side", (
        experts(5, aside.gate_up))
    yield "moe_experts: the elements of the last dimension of 'w_gate_up' must lie side by side", (
        ops.moe_experts.default, narrow.transpose_in_memory().arguments(), scales)
    yield "moe_experts: 'offsets' is .16.; it must be .17.", experts(2, right[2][1:])
    yield "moe_experts: 'inverse' is .63, 2.; it must be .64, 2.", experts(3, right[3][:63])
    yield "moe_experts: 'weights' is bf16; it must be fp32", experts(4, right[4].bfloat16())
    yield "moe_experts: 'w_gate_up' is .16, 79, 256.; it must be .16, 80, 256.", experts(5, right[5][:, 1:])
    yield "moe_experts: 'w_gate_up' is fp16; it must be bf16", experts(5, right[5].half())
    yield "moe_experts: 'w_down' has 2 dimensions", experts(6, right[6][0])
    yield "moe_experts: 'out' is .63, 256.; it must be .64, 256.", experts(0, right[0], out=right[0][:63])
    yield "moe_dispatch: 'x' has 1 dimensions", dispatch(rows.x[0])
    yield "moe_dispatch: 'x' is fp32; it must be bf16", dispatch(rows.x.float())
    yield "dispatch: the elements of the last dimension of 'x' must lie side by side", dispatch(rows.x.T.contiguous().T)
    yield "moe_dispatch: 'sorted' has 2 dimensions", dispatch(sorted=rows.sorted[None])
    yield "moe_dispatch: 'sorted' is i64; it must be i32", dispatch(sorted=rows.sorted.long())
    yield "moe_dispatch: 'rows' is .*; it must be .[0-9]+, 256.", dispatch(rows=rows.rows[1:])
    yield "moe_dispatch: padding is 'ones'; it must be zeros or none", dispatch(padding="ones")
    e4m3 = ops.moe_dispatch_e4m3.default
    yield "moe_dispatch_e4m3: scale is 'row'", (e4m3, (rows.x, rows.sorted, rows.inverse), {"scale": "row"})
    yield "moe_dispatch_e4m3: 'inverse' is .63, 2.; it must be .64, 2.", (
        e4m3, (rows.x, rows.sorted, rows.inverse[:63]), {})
    yield "moe_combine: 'weights' is fp16; it must be fp32", combine(weights=rows.weights.half())
    yield "moe_combine: 'weights' is .64, 1.; it must be .64, 2.", combine(weights=rows.weights[:, :1])
    yield "moe_combine: 'inverse' is not contiguous", combine(rows.inverse.T.contiguous().T)
    yield "moe_combine: 'out' is .63, 256.; it must be .64, 256.", combine(out=rows.x[:63])


def bad_prefills() -> Iterator[tuple[str, Call]]:
    """Likewise of prefill_attention."""
    sequences = Sequences()
    right, pages = sequences.arguments(), sequences.paged()
    names = ("q", "k", "v", "q_offsets", "kv_offsets", "page_table", "seq_lens", "scale", "layout")

    def prefill(given: tuple[Any, ...] = right, options: Any = None, **replaced: Any) -> Call:
        return (ops.prefill_attention.default,
                tuple(replaced.get(name, value) for name, value in zip(names, (*given, "NHD"))), options or {})

    q, k, v, q_offsets, kv_offsets = right[:5]
    yield "'q' has 2 dimensions; it must be .tokens, heads, head_dim.", prefill(q=q[0])
    yield "'q' is fp32; it must be bf16 or fp16", prefill(q=q.float())
    yield "'q' has 8 heads, no multiple of the 58 of 'k'", prefill(layout="HND")
    yield "paged k and v need page_table and seq_lens", prefill(kv_offsets=None)
    yield "paged k and v need", prefill(pages[:8], kv_offsets=kv_offsets)
    yield "'k' has 3 dimensions; with page_table", prefill(pages[:8], k=k, v=v)
    yield "'v' is fp16; it must be bf16", prefill(v=v.half())
    yield "'k' has room for no token", prefill(k=k[:0], v=v[:0])
    yield "'q_offsets' is i64; it must be i32", prefill(q_offsets=q_offsets.long())
    yield "'kv_offsets' is i64; it must be i32", prefill(kv_offsets=kv_offsets.long())
    yield "'kv_offsets' is .3.; it must be .4.", prefill(kv_offsets=kv_offsets[:3])
    yield "'sinks' is fp16; it must be fp32", prefill(options={"sinks": torch.zeros(8, device=DEVICE).half()})
    yield "window is 5; it needs causal=True", prefill(options={"window": 5, "causal": False})
    yield "softcap is 101; it must be from 0 .none. to 100", prefill(options={"softcap": 101})
    yield "max_q is -1; it must be 0 or more", prefill(options={"max_q": -1})
    yield "max_q is 59; q has 58 tokens", prefill(options={"max_q": 59})
    yield "max_kv is 100; page_table, k and v have room for 58", prefill(options={"max_kv": 100})


def bad_plans() -> Iterator[tuple[str, Call]]:
    """Likewise of route_plan's operators."""
    ids, one = torch.zeros(9, 3, dtype=torch.int32, device=DEVICE), torch.ones(1, device=DEVICE)
    outs = operators.Plan(*(each.to(DEVICE) for each in plain.plan_of(ids.cpu(), 24)))

    def plan(num_experts: int = 24, **options: Any) -> Call:
        return ops.route_plan.default, (ids, num_experts), options

    yield "route_plan: 'ids' is i16; it must be i32 or i64", (ops.route_plan.default, (ids.short(), 24), {})
    yield "route_plan: 'ids' has 1 dimensions; it must be .tokens, top_k.", (ops.route_plan.default, (ids[0], 24), {})
    yield "route_plan: 'ids' is not contiguous", (ops.route_plan.default, (ids.T.contiguous().T, 24), {})
    yield "route_plan: 'ids' has no experts for its tokens", (ops.route_plan.default, (ids[:, :0], 24), {})
    yield "route_plan: num_experts is 0; it must be from 1 to 1024", plan(0)
    yield "route_plan: num_experts is 1025; it must be from 1 to 1024", plan(1025)
    yield "route_plan: align is 3; it must be a power of two", plan(align=3)
    yield "route_plan: 'expert_map' is i64; it must be i32", plan(expert_map=one.long())
    yield "route_plan: 'expert_map' must have one dimension", plan(expert_map=ids)
    yield "route_plan: 'expert_map' must have one dimension, and an entry for each id", plan(expert_map=ids[0, :0])
    yield "route_plan: 'expert_map' is not contiguous", plan(expert_map=ids[:, 0])
    yield "route_plan: 'token_count' is i64; it must be i32", plan(token_count=one.long())
    yield "route_plan: 'counts' is .23.; it must be .24.", (
        ops.route_plan.out, (ids, 24), {**outs._asdict(), "counts": outs.counts[:23]})
    yield "route_plan_masked: segment is 0; it must be from 1 to 65536", (
        ops.route_plan_masked.default, (ids, 24, 0), {})


def bad_calls() -> Iterator[tuple[str, Call]]:
    """What is said, and of what call. No family has most of the shapes."""
    yield from bad_routes()
    yield from bad_plans()
    yield from bad_moves()
    yield from bad_prefills()
    inputs, one = Inputs(), torch.ones(1, device=DEVICE)
    yield "layout is 'XYZ'; it must be NHD or HND", decode(layout="XYZ")
    yield "'q' has 2 dimensions", decode(q=inputs.q[0])
    yield "'q' is fp32; it must be bf16 or fp16", decode(q=inputs.q.float())
    yield "'q' has 3 heads, no multiple of the 2 of 'k_cache'", decode(
        q=inputs.q[:, :3], k=inputs.k.expand(-1, -1, 2, -1))
    yield "'k_cache' has 2 dimensions", decode(k=inputs.k[0, 0])
    yield "'k_cache' is fp32; it must be bf16 like 'q', or e4m3", decode(k=inputs.k.float())
    yield "'k_cache' has heads of 64 elements; those of 'q' have 128", decode(k=inputs.k[..., :64])
    yield "'v_cache' is .127, 16, 1, 128.; it must be .128, 16, 1, 128.", decode(v=inputs.v[:127])
    yield "'v_cache' is fp16; it must be bf16", decode(v=inputs.v.half())
    yield "'page_table' is i64; it must be i32", decode(page_table=inputs.page_table.long())
    yield "'page_table' is .3, 32.; it must be .4, 32.", decode(page_table=inputs.page_table[:3])
    yield "last dimension of 'page_table' must lie side by side", decode(
        page_table=inputs.page_table.T.contiguous().T)
    yield "'seq_lens' is .2, 2.; it must be .4.", decode(seq_lens=inputs.lengths.reshape(2, 2))
    yield "'seq_lens' is i64; it must be i32", decode(seq_lens=inputs.lengths.long())
    yield "'seq_lens' is not contiguous", decode(seq_lens=inputs.lengths.repeat(2)[::2])
    yield "'sinks' is bf16; it must be fp32", decode(sinks=inputs.q[0, :, 0].contiguous(), window=77)
    yield "'sinks' is .2, 4.; it must be .8.", decode(sinks=one.repeat(2, 4))
    yield "'k_scale' is for keys and values in e4m3; 'k_cache' is bf16", decode(k_scale=one, v_scale=one)
    yield "'v_scale' is for keys and values in e4m3", decode(v_scale=one)
    yield "'lse' is .8, 4.; it must be .4, 8.", decode(lse=one.expand(8, 4))
    yield "'lse' is .32.; it must be .4, 8.", decode(lse=one.repeat(32), out=torch.empty_like(inputs.q))
    yield "'lse' is .4, 8.; it must be .4, 1, 8.", decode(q=inputs.q[:, None], lse=one.repeat(4, 8))
    yield "'out' is fp32; it must be bf16", decode(out=inputs.q.float())
    yield "'out' is .3, 8, 128.; it must be .4, 8, 128.", decode(out=torch.empty_like(inputs.q[:3]))
    yield "softcap is -1; it must be from 0 .none. to 100", decode(softcap=-1)
    yield "max_context is -5; it must be 0 or more", decode(max_context=-5)
    yield "max_context is 513; page_table and cache have room for 512", decode(max_context=513)
    yield "min_context is 300; the longest context is 200", decode(max_context=200, min_context=300)
    yield "total_tokens is -1; it must be 0 or more", decode(total_tokens=-1)
    yield "scale is 0.0.*; it must be positive", decode(scale=0.0)
    yield "'k_cache' with 'page_table' has room for no token", decode(page_table=inputs.page_table[:, :0])
    yield "'k_cache' with 'page_table' has room for no token", decode(k=inputs.k[:0], v=inputs.v[:0])
    pages = torch.zeros(1, 128, 1, 128, dtype=torch.bfloat16, device=DEVICE)
    table = torch.zeros(1, (1 << 23) + 1, dtype=torch.int32, device=DEVICE).expand(4, -1)
    yield "'k_cache' with 'page_table' has room for sequences of 1073741952 tokens", decode(
        k=pages, v=pages, page_table=table)


@unittest.skipIf(REASON, REASON)
class ArgumentsTest(unittest.TestCase):
    def test_before_a_family_is_looked_for(self) -> None:
        for sentence, (overload, given, options) in bad_calls():
            with self.subTest(sentence):
                with self.assertRaisesRegex(RuntimeError, f"^moetune.InvalidArgument: .*{sentence}"):
                    overload(*given, **options)

    def test_what_is_not_tuned(self) -> None:
        """The sentence names the search that tunes this very call."""
        inputs, rows, logits, search = Inputs(), Rows(), Case().logits, "nothing is tuned for .*; run: moetune search "
        moved = rows.sorted, rows.inverse
        calls: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("decode_attention: " + search + "decode_attention --problem batch=4,q_heads=7,kv_heads=1,context=512,",
             lambda: operators.decode_attention(inputs.q[:, :7], *inputs.arguments()[1:])),
            ("prefill_attention: " + search + "prefill_attention --problem batch=3,q_heads=8,kv_heads=2,seqlen_q=40,"
             "seqlen_kv=58,head_dim=64,page=0,dtype=bf16,window=7$",
             lambda: operators.prefill_attention(*Sequences().arguments(), window=7, max_q=40)),
            ("route: " + search + "router --problem tokens=64,experts=16,top_k=3,score=softmax,dtype=fp32",
             lambda: operators.route(logits, 3)),
            ("top_k=2,score=topk_softmax,dtype=fp32$",
             lambda: operators.route(logits, 2, score="topk_softmax", renormalize=False)),
            ("layout=masked,segment=9$", lambda: operators.route_masked(logits, 2, 9)),
            ("outputs=ranks,ranks=2,ids=i64$", lambda: operators.route_ranks(logits, 2, 2)),
            ("route_plan: " + search + "route_plan --problem tokens=64,experts=9,top_k=2,ids=i64,map=local,align=4$",
             lambda: operators.route_plan(rows.inverse.long(), 9, align=4, expert_map=rows.sorted)),
            ("experts=16,top_k=2,layout=masked,segment=9,dropped=mask,count=device$",
             lambda: operators.route_plan_masked(rows.inverse, 16, 9, dropped=rows.inverse.bool(),
                                                 token_count=rows.sorted[:1])),
            (search + "moe_dispatch --problem tokens=64,hidden=128,top_k=2$",
             lambda: operators.moe_dispatch(rows.x[:, :128], *moved)),
            (search + "moe_dispatch --problem tokens=64,hidden=256,top_k=2,out=e4m3,scale=token,scale_layout=row,"
             "padding=none$", lambda: operators.moe_dispatch_e4m3(rows.x, *moved, scale="token", padding="none")),
            (search + "moe_experts --problem tokens=64,hidden=256,experts=16,top_k=2,intermediate=48,dtype=bf16$",
             lambda: operators.moe_experts(*Experts(intermediate=48).arguments())),
            (search + "moe_combine --problem tokens=64,hidden=128,top_k=2$",
             lambda: operators.moe_combine(rows.rows[:, :128].contiguous(), rows.inverse, rows.weights)))
        for sentence, work in calls:
            with self.subTest(sentence), self.assertRaisesRegex(moetune.NotTuned, sentence):
                work()
        with self.assertRaisesRegex(RuntimeError, "^moetune.NotTuned: route: nothing is tuned"):
            ops.route(logits, 3)

    def test_fake_tensors_with_the_same_words(self) -> None:
        for sentence, (overload, given, options) in bad_calls():
            with self.subTest(sentence):
                with self.assertRaises(RuntimeError) as real:
                    overload(*given, **options)
                with torch._subclasses.FakeTensorMode() as mode, self.assertRaises(RuntimeError) as fake:
                    def faked(value: Any) -> Any:
                        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

                    overload(*map(faked, given), **{name: faked(value) for name, value in options.items()})
                self.assertEqual(str(fake.exception), str(real.exception))

    def test_compiled_with_sizes_that_are_symbols(self) -> None:
        def routed(logits: Any) -> Any:
            return operators.route(logits, 17).ids

        for backend in backends():
            torch.compiler.reset()
            with self.assertRaisesRegex(Exception, "top_k is 17; it must be from 1 to the 16 experts"):
                torch.compile(routed, backend=backend, fullgraph=True, dynamic=True)(Case().logits)

    @if_tuned
    def test_a_check_of_fake_tensors_specializes_nothing(self) -> None:
        case = Case()
        torch.compiler.reset()
        compiled = torch.compile(lambda logits: operators.route(logits, 2).ids + 0, backend="aot_eager", fullgraph=True,
                                 dynamic=True)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for tokens in (64, 50, 7):
                self.assertTrue(torch.equal(compiled(case.logits[:tokens].clone()).cpu(), case.right()[0][:tokens]))

    def test_names_in_sentences_of_the_runtime(self) -> None:
        inputs = Inputs()
        for sentence, call in (
                ("out_head_stride=132 elements is not a multiple of 8", decode(out=sliced(inputs.q))),
                ("k_cache_token_stride=132 elements", decode(k=sliced(inputs.k))),
                ("tensor 'v_cache' is not aligned to 16 bytes", decode(v=shifted(inputs.v))),
                ("tensor 'out' is not aligned", decode(out=shifted(inputs.q)))):
            overload, given, options = call
            with self.subTest(sentence), self.assertRaisesRegex(
                    RuntimeError, f"^moetune.InvalidArgument: decode_attention: {sentence}"):
                overload(*given, **options)

    def test_a_name_with_a_null_is_no_other_name(self) -> None:
        overload, given, _ = decode(layout="NHD\0")
        with self.assertRaisesRegex(RuntimeError, "^moetune.InvalidArgument: decode_attention: layout is 'NHD"):
            overload(*given)

    def test_names_in_sentences_of_a_family(self) -> None:
        for sentence, work in (
                ("route_rows: top_k=33 is out of range", lambda: operators.route_rows(Case(experts=64).logits, 33)),
                ("moe_dispatch: hidden=12 is no multiple of 8",
                 lambda: operators.moe_dispatch(Rows().x[:, :12], Rows().sorted, Rows().inverse))):
            with self.subTest(sentence), self.assertRaisesRegex(moetune.InvalidArgument, f"^{sentence}"):
                work()

    def test_tensors_of_the_cpu(self) -> None:
        shown = subprocess.run([sys.executable, "-W", "ignore", "-c", ON_CPU], capture_output=True, text=True,
                               check=True)
        for name, (kind, sentence) in json.loads(shown.stdout).items():
            self.assertEqual((name, kind), (name, "WrongDevice"))
            self.assertRegex(sentence, "^[a-z0-9_]+: '(q|logits|ids|x|rows)' is not in the memory of a GPU$")
        self.assertEqual(len(json.loads(shown.stdout)), 17)

    @unittest.skipIf(DEVICE == "cpu", "there is no GPU")
    def test_tensors_of_two_devices(self) -> None:
        bias = torch.zeros(16)
        with self.assertRaisesRegex(moetune.WrongDevice, "route: 'bias' is not in the memory of a GPU"):
            operators.route(Case().logits, 2, bias=bias)


def differentiable(overload: Any, given: tuple[Any, ...], options: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The call as often as it has tensors of floating point, each time with one that requires a gradient."""
    arguments = overload._schema.arguments
    for place, argument in enumerate(arguments):
        values = [*given], dict(options)
        held: Any = values[0] if place < len(given) else values[1]
        at: Any = place if place < len(given) else argument.name
        if place >= len(given) and at not in options:
            continue
        if isinstance(held[at], torch.Tensor) and held[at].dtype.is_floating_point:
            held[at] = held[at].detach().clone().requires_grad_()
            yield argument.name, values[0], values[1]


@unittest.skipIf(REASON, REASON)
class GradientTest(unittest.TestCase):
    def calls(self) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        """Of every overload."""
        case, rows, inputs, sequences = Case(), Rows(), Inputs(), Sequences()
        bias = {"bias": torch.zeros(16, device=DEVICE)}
        moved = rows.x, rows.sorted, rows.inverse
        tables = torch.zeros(len(rows.x), 8, device=DEVICE)
        pages = {name: torch.zeros(9, 16, 1, 64, device=DEVICE, dtype=rows.x.dtype) for name in ("k_cache", "v_cache")}
        latent = (rows.x.new_zeros(2, 1, 16, 576), rows.x.new_zeros(3, 16, 576),
                  *(torch.zeros(*shape, dtype=torch.int32, device=DEVICE) for shape in ((2, 8), (2,))))
        bases: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
            "decode_attention": (inputs.arguments(), {}),
            "prefill_attention": (sequences.arguments(), {}),
            **{name: ((case.logits, 2), bias) for name in ("route", "route_rows", "route_ends", "route_weights")},
            "route_masked": ((case.logits, 2, 7), bias),
            "route_ranks": ((case.logits, 2, 4), bias),
            **{name: ((rows.inverse, 16), {}) for name in ("route_plan", "route_plan_rows", "route_plan_ends")},
            "route_plan_masked": ((rows.inverse, 16, 7), {}),
            "moe_dispatch": (moved, {}),
            "moe_dispatch_e4m3": (moved, {}),
            "moe_combine": ((rows.rows, rows.inverse, rows.weights), {}),
            "moe_experts": (Experts().arguments(), {}),
            **{name: ((rows.x, rows.x[0].clone()), {}) for name in ("add_rmsnorm", "add_rmsnorm_e4m3")},
            **{name: ((rows.x,), {}) for name in ("act_mul", "act_mul_e4m3")},
            "add_rmsnorm_static": ((rows.x, rows.x[0].clone(), torch.ones(1, device=DEVICE)), {}),
            "few_rows_linear": ((rows.x[:2], rows.x[:7].clone()), {}),
            "gate_route": ((rows.x[:2], rows.x[:8].clone(), 2), {}),
            "kv_transfer": ((pages["k_cache"][:, None], torch.arange(3, device=DEVICE, dtype=torch.int32)), {}),
            "mla_decode": (latent, {}),
            "mla_decode_chosen": ((*latent[:2], torch.zeros(2, 1, 8, dtype=torch.int32, device=DEVICE)), {}),
            "qk_norm_rope": ((rows.x, tables, tables, 2, 1), {}),
            "qk_norm_rope_kv_write": ((rows.x, tables, tables, torch.arange(len(rows.x), device=DEVICE), 2, 1), pages),
        }
        for name in _operators._OVERLOADS:
            operator, _, kind = name.partition(".")
            if operator == "launch":  # its tensors are in lists: tests/python/test_torch_launch.py
                continue
            overload = getattr(getattr(ops, operator), kind or "default")
            given, options = bases[operator]
            if kind == "lse":
                options = {**options, "lse": torch.empty(given[0].shape[:-1], device=DEVICE)}
            if kind == "residual":
                options = {**options, "residual": torch.empty_like(given[0])}
            if kind == "out":
                made = _operators.outputs_for(operator, *given, **options)
                names = [argument.name for argument in overload._schema.arguments
                         if argument.alias_info is not None and argument.name not in ("lse", "dropped")]
                options = {**options, **dict(zip(names, made if isinstance(made, tuple) else (made,)))}
            yield overload, given, options

    def test_an_input_that_requires_one_is_refused(self) -> None:
        seen: set[str] = set()
        for overload, given, options in self.calls():
            for name, some, others in differentiable(overload, given, options):
                with self.subTest(f"{overload} {name}"), self.assertRaisesRegex(
                        RuntimeError, rf"^moetune.InvalidArgument: \w+: '{name}' requires a gradient.*inference_mode"):
                    overload(*some, **others)
                seen.add(f"{overload} {name}")
        for one in ("decode_attention.default q", "prefill_attention.lse k", "route.default bias",
                    "route_ranks.out logits", "moe_combine.out out", "moe_dispatch_e4m3.default x",
                    "moe_experts.default w_down", "add_rmsnorm.residual residual"):
            self.assertIn(f"moetune.{one}", seen)

    @if_tuned
    def test_without_grad_mode_it_is_served(self) -> None:
        case = Case()
        logits = case.logits.clone().requires_grad_()
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertEqual(operators.route(logits, 2).ids.tolist(), case.right()[0].tolist())
        self.assertEqual(operators.route(logits.detach(), 2).ids.tolist(), case.right()[0].tolist())
        with self.assertRaisesRegex(moetune.InvalidArgument, "route: 'logits' requires a gradient"):
            operators.route(logits, 2)

    @if_tuned
    def test_compiled(self) -> None:
        weight = torch.eye(16, device=DEVICE, requires_grad=True)
        case = Case()

        def routed(logits: Any) -> Any:
            return operators.route(logits @ weight, 2).ids + 0

        def unlearned(logits: Any) -> Any:
            with torch.no_grad():
                return operators.route(logits @ weight, 2).ids + 0

        for backend, dynamic in itertools.product(backends(), (False, True)):
            torch.compiler.reset()
            with self.assertRaisesRegex(Exception, "route: 'logits' requires a gradient"):
                torch.compile(routed, backend=backend, fullgraph=True, dynamic=dynamic)(case.logits)
            compiled = torch.compile(unlearned, backend=backend, fullgraph=True, dynamic=dynamic)
            self.assertEqual(compiled(case.logits).tolist(), case.right()[0].tolist())


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
