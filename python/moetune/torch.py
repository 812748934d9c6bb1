"""PyTorch operators: `import moetune.torch` registers torch.ops.moetune.*.

    out = torch.ops.moetune.decode_attention(q, k_cache, v_cache, page_table, seq_lens, scale)
    out = torch.ops.moetune.prefill_attention(q, k, v, q_offsets, kv_offsets, None, None, scale, max_q=4096)

    ids, weights, counts, offsets, sorted, inverse, block_experts = torch.ops.moetune.route(logits, top_k)
    counts, offsets, sorted, inverse, block_experts = torch.ops.moetune.route_plan(ids, num_experts)  # of any router
    rows = torch.ops.moetune.moe_dispatch(x, sorted, inverse)
    out = torch.ops.moetune.moe_combine(experts(rows), inverse, weights)
    out = torch.ops.moetune.moe_experts(x, sorted, offsets, inverse, weights, w_gate_up, w_down)  # all of the layer

route_weights gives ids and weights alone, moe_dispatch_e4m3 rows in e4m3 and their scales. route_rows, route_ends and
route_masked are route for other grouped GEMMs, route_ranks is what a dispatch to other GPUs takes. route_plan_rows,
route_plan_ends and route_plan_masked are the same of route_plan. They work eagerly, under torch.compile and inside
torch.cuda.graph. None of them synchronizes or reads a tensor on the host. Each has an overload `.out`, which writes
what the caller allocated. The functions here are the operators with an optional `out`. They raise moetune.Error's
classes; the operators themselves raise RuntimeError, whose text begins with the class.
"""

# torch.ops has no types: a function returns what its operator's schema declares.
# mypy: no-warn-return-any

from typing import Any, NamedTuple, Optional, Sequence, TypeVar, Union

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        "moetune.torch registers operators for PyTorch, which is not installed here: pip install 'moetune[torch]', or "
        "the torch of your CUDA; `import moetune` goes without", name="torch") from None

import moetune
from moetune import _operators, _serving
from moetune._mapped import mapped
from moetune._mxfp4 import pack_mxfp4
from moetune._routed import (EndPlan, EndRouting, MaskedPlan, MaskedRouting, Plan, RankRouting, Routing, RowPlan,
                              RowRouting)
from moetune._serving import prepare, runtime, use

__all__ = ["EndPlan", "EndRouting", "Gated", "MaskedPlan", "MaskedRouting", "Plan", "RankRouting", "Routing",
           "RowPlan", "RowRouting", "act_mul", "act_mul_e4m3", "add_rmsnorm", "add_rmsnorm_e4m3", "add_rmsnorm_static",
           "decode_attention", "few_rows_linear", "gate_route", "kv_transfer", "latent_parts", "launch", "mapped",
           "mla_decode", "mla_decode_chosen", "moe_combine", "moe_dispatch", "moe_dispatch_e4m3", "moe_experts",
           "moe_experts_by_ids", "moe_experts_down", "moe_experts_up", "pack_mxfp4", "prefill_attention", "prepare",
           "qk_norm_rope", "qk_norm_rope_kv_write", "route", "route_ends", "route_masked", "route_plan",
           "route_plan_ends", "route_plan_masked", "route_plan_rows", "route_ranks", "route_rows", "route_weights",
           "runtime", "supports", "use"]


_Routed = TypeVar("_Routed", Routing, RowRouting, EndRouting, MaskedRouting, RankRouting, Plan, RowPlan, EndPlan,
                  MaskedPlan)


def _error_of(error: RuntimeError) -> Exception:
    """The class that a kernel's error names; PyTorch has one class for all."""
    name, _, sentence = str(error).partition(": ")
    kind = getattr(moetune, name.removeprefix("moetune."), None) if name.startswith("moetune.") else None
    return kind(sentence) if isinstance(kind, type) and issubclass(kind, moetune.Error) else error


def _call(overload: Any, *given: Any, **options: Any) -> Any:
    try:
        return overload(*given, **options)
    except RuntimeError as error:
        raise _error_of(error) from None


def _run(name: str, given: tuple[Any, ...], names: Union[str, tuple[str, ...]], out: Any, written: str = "",
         **options: Any) -> Any:
    """Calls `.out` with the caller's `out`, for the one output or tuple of outputs of these `names`, or, if it is None,
    the overload that returns them. A tensor that is written in place has the name `written`, if there is one, and an
    overload of its own."""
    operator, in_place = getattr(torch.ops.moetune, name), options.pop(written, None)
    also = {written: in_place} if written else {}
    if out is None:
        overload = operator.default if in_place is None else getattr(operator, written)
        return _call(overload, *given, **({} if in_place is None else also), **options)
    outputs = {names: out} if isinstance(names, str) else dict(zip(names, out))
    missing = [name for name, each in outputs.items() if each is None]
    if missing:
        raise moetune.InvalidArgument(f"out must hold all outputs; {missing[0]} is missing")
    _call(operator.out, *given, **outputs, **also, **options)
    return out


def supports(kernel: str, *, device: int = 0, **facts: Any) -> Optional[str]:
    """None if something is stored that serves a family of a kernel; else why not, in one sentence.

    `facts` are what a cubin has compiled in, by the names of `moetune kernels KERNEL`, with `group` for query heads of
    a KV head: supports("decode_attention", group=8, head_dim=128, page=64).
    """
    error = _serving.why_not(device, kernel, ",".join(f"{name}={value}" for name, value in facts.items()))
    return None if error is None else str(error)


def decode_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
                     seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: Optional[torch.Tensor] = None,
                     lse: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """Attention of the newest tokens over a paged KV cache; the operator with optional `out` and `lse`.

    q [batch, heads, dim] or [batch, q_len, heads, dim]; caches [pages, page, kv_heads, dim] (NHD) or [pages, kv_heads,
    page, dim] (HND), or [batch, ...] of contexts if page_table is None; page_table i32 [batch, columns]; seq_lens i32
    [batch]. Options: max_context (of all sequences now; 0 for what page_table has room for), min_context (a captured
    graph's choice is the best from here to max_context), total_tokens, window, sinks, k_scale, v_scale, kv_settled
    (seq_lens, page_table and caches, but for the newest tokens, are not written by launches just before this one, so
    that it may read them before those have ended).
    """
    return _run("decode_attention", (q, k_cache, v_cache, page_table, seq_lens, scale, layout), "out", out, "lse",
                lse=lse, **options)


def prefill_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_offsets: torch.Tensor,
                      kv_offsets: Optional[torch.Tensor], page_table: Optional[torch.Tensor],
                      seq_lens: Optional[torch.Tensor], scale: float, layout: str = "NHD", *,
                      out: Optional[torch.Tensor] = None, lse: Optional[torch.Tensor] = None,
                      **options: Any) -> torch.Tensor:
    """Attention of sequences' new tokens over their KV; the operator with optional `out` and `lse`.

    q [tokens, heads, dim], the new tokens of all sequences; q_offsets i32 [batch + 1], prefix sums of their numbers.
    Without pages: k and v [tokens, kv_heads, dim] (NHD) or [kv_heads, tokens, dim] (HND), kv_offsets i32 [batch + 1].
    With pages: k and v [pages, page, kv_heads, dim] (NHD) or [pages, kv_heads, page, dim] (HND), page_table i32
    [batch, columns], seq_lens i32 [batch], new tokens included. Options: max_q (no sequence has more new tokens: what
    is beyond is not computed; 0 for all of q), max_kv (likewise tokens, for the choice alone), min_kv (a captured
    graph's choice is the best from here to max_kv), causal (aligned at the sequences' ends), window, sinks. k and v in
    float8_e4m3fn come with k_scale and v_scale, f32 [1] or [kv_heads]; then q may be float8_e4m3fn with q_scale, too,
    and out is bf16 unless it is given.
    """
    given = (q, k, v, q_offsets, kv_offsets, page_table, seq_lens, scale, layout)
    return _run("prefill_attention", given, "out", out, "lse", lse=lse, **options)


def _route(kind: type[_Routed], name: str, given: tuple[Any, ...], out: Optional[_Routed],
           options: dict[str, Any]) -> _Routed:
    operator = getattr(torch.ops.moetune, name)
    if out is None and options.get("dropped") is None:
        options.pop("dropped", None)
        return kind(*_call(operator.default, *given, **options))
    if out is None:
        others = {option: value for option, value in options.items() if option != "dropped"}
        out = kind(*_operators.outputs_for(name, *given, **others))
    _call(operator.out, *given, **out._asdict(), **options)
    return out


def route(logits: torch.Tensor, top_k: int, *, out: Optional[Routing] = None, **options: Any) -> Routing:
    """Each token's experts and weights, and the permutation that brings the tokens of one expert together.

    logits fp32, bf16 or fp16 [tokens, experts], whose rows may lie apart. Options: score ("softmax", "topk_softmax",
    "sigmoid" or "sqrt_softplus"), bias (f32 [experts], for the selection alone), groups, groups_kept, renormalize,
    scale (of the weights), align (of the experts' segments), capacity (percent of the even share; 0 for all),
    expert_map (i32 [experts]), token_count (i32 [1]: how many tokens are routed, read on the device), ids_type ("i32"
    or "i64"), dropped (bool [tokens, top_k], which is written: the slots that no expert had room for).
    """
    return _route(Routing, "route", (logits, top_k), out, options)


def route_rows(logits: torch.Tensor, top_k: int, *, out: Optional[RowRouting] = None, **options: Any) -> RowRouting:
    """route with the expert of each place, for DeepGEMM's contiguous layout, which wants an align of 128."""
    return _route(RowRouting, "route_rows", (logits, top_k), out, options)


def route_ends(logits: torch.Tensor, top_k: int, *, out: Optional[EndRouting] = None, **options: Any) -> EndRouting:
    """route with the end of each segment, for torch._grouped_mm."""
    return _route(EndRouting, "route_ends", (logits, top_k), out, options)


def route_masked(logits: torch.Tensor, top_k: int, segment: int, *, out: Optional[MaskedRouting] = None,
                 **options: Any) -> MaskedRouting:
    """route with `segment` places for every expert, for DeepGEMM's masked layout. Slots beyond them are dropped.

    Options: those of route but for align.
    """
    return _route(MaskedRouting, "route_masked", (logits, top_k, segment), out, options)


def route_ranks(logits: torch.Tensor, top_k: int, ranks: int, *, out: Optional[RankRouting] = None,
                **options: Any) -> RankRouting:
    """Each token's experts and weights, and to which of the `ranks` it goes, for a dispatch by DeepEP.

    Options: those of route_weights; ids_type is "i64" if none is given.
    """
    return _route(RankRouting, "route_ranks", (logits, top_k, ranks), out, options)


def route_weights(logits: torch.Tensor, top_k: int, *, out: Optional[tuple[torch.Tensor, torch.Tensor]] = None,
                  **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids and weights of route alone. Options: its own but for align, capacity, expert_map and
    dropped."""
    return _run("route_weights", (logits, top_k), ("ids", "weights"), out, **options)


def route_plan(ids: torch.Tensor, num_experts: int, *, out: Optional[Plan] = None, **options: Any) -> Plan:
    """The permutation that brings the tokens of one expert together, of experts that somebody else chose.

    ids i32 or i64 [tokens, top_k], contiguous: any integers. num_experts have a segment each, in the order of their
    ids; slots of other ids have no place. Options: expert_map (i32, one dimension: the segment of each id, -1 for an
    expert elsewhere; two ids may share one), align (of the segments), token_count (i32 [1]: how many tokens are placed,
    read on the device).
    """
    return _route(Plan, "route_plan", (ids, num_experts), out, options)


def route_plan_rows(ids: torch.Tensor, num_experts: int, *, out: Optional[RowPlan] = None, **options: Any) -> RowPlan:
    """route_plan with the expert of each place, for DeepGEMM's contiguous layout, which wants an align of 128."""
    return _route(RowPlan, "route_plan_rows", (ids, num_experts), out, options)


def route_plan_ends(ids: torch.Tensor, num_experts: int, *, out: Optional[EndPlan] = None, **options: Any) -> EndPlan:
    """route_plan with the end of each segment, for torch._grouped_mm."""
    return _route(EndPlan, "route_plan_ends", (ids, num_experts), out, options)


def route_plan_masked(ids: torch.Tensor, num_experts: int, segment: int, *, out: Optional[MaskedPlan] = None,
                      **options: Any) -> MaskedPlan:
    """route_plan with `segment` places for every expert, for DeepGEMM's masked layout. Slots beyond them are dropped.

    Options: expert_map, token_count, dropped (bool [tokens, top_k], which is written: the slots that no expert had room
    for).
    """
    return _route(MaskedPlan, "route_plan_masked", (ids, num_experts, segment), out, options)


def moe_dispatch(x: torch.Tensor, sorted: torch.Tensor, inverse: torch.Tensor, *, out: Optional[torch.Tensor] = None,
                 padding: str = "zeros") -> torch.Tensor:
    """bf16 [places, hidden]: the rows of x, bf16 [tokens, hidden], in the order of route's `sorted`.

    padding: "zeros", or "none" to leave the rows of places without a token as they are.
    """
    return _run("moe_dispatch", (x, sorted, inverse), "rows", out, padding=padding)


def moe_dispatch_e4m3(x: torch.Tensor, sorted: torch.Tensor, inverse: torch.Tensor, *,
                      out: Optional[tuple[torch.Tensor, torch.Tensor]] = None,
                      **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """moe_dispatch with rows in e4m3, and what they are multiplied by to get x back.

    Options: scale ("group" of 128 values, or "token"), scale_layout ("row": [places, groups]; "column": [groups, places
    rounded up to 4]), padding.
    """
    return _run("moe_dispatch_e4m3", (x, sorted, inverse), ("rows", "scales"), out, **options)


def moe_combine(rows: torch.Tensor, inverse: torch.Tensor, weights: torch.Tensor, *,
                out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """bf16 [tokens, hidden]: the sum of each token's rows, times their weights. rows bf16 [places, hidden]."""
    return _run("moe_combine", (rows, inverse, weights), "out", out)


def moe_experts(x: torch.Tensor, sorted: Optional[torch.Tensor], offsets: torch.Tensor,
                inverse: Optional[torch.Tensor], weights: Optional[torch.Tensor], w_gate_up: Optional[torch.Tensor],
                w_down: Optional[torch.Tensor], *, out: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """[tokens, hidden]: the sum over a token's experts of weight * down(silu(gate(x)) * up(x)).

    x bf16 or fp16; sorted, offsets, inverse and weights as route returns them; w_gate_up [experts, 2 * intermediate,
    hidden], the rows of gate before those of up; w_down [experts, hidden, intermediate]. Both and the result are of x's
    type. Or x and both are e4m3, the result bf16, and x_scale is f32 [tokens, hidden / 128], gate_up_scale [experts,
    2 * intermediate / 128, hidden / 128], down_scale [experts, hidden / 128, intermediate / 128]. Or x is bf16, and the
    weights and their scales come from pack_mxfp4. Weights [experts, in, out] of x's type are given as transposed views.
    With activation "swigluoai", gpt-oss', rows of gate and up take turns, and there are gate_up_bias [experts,
    2 * intermediate], in turn too, and down_bias [experts, hidden], of x's type.

    With sorted=None x was dispatched: [places, hidden], as moe_dispatch returns it. With inverse=None and weights=None
    the result is [places, hidden], which moe_combine takes; then top_k must be given. Rows of padding are zeros, or those
    that were dispatched. Options: x_scale, gate_up_scale, down_scale, gate_up_bias, down_bias, activation, top_k.
    """
    return _run("moe_experts", (x, sorted, offsets, inverse, weights, w_gate_up, w_down), "out", out, **options)


def moe_experts_up(x: torch.Tensor, sorted: Optional[torch.Tensor], offsets: torch.Tensor, w_gate_up: torch.Tensor,
                   top_k: int, **options: Any) -> torch.Tensor:
    """[places, intermediate]: moe_experts' first product with the activation alone, of x's type or bf16 from e4m3.

    Options: moe_experts' x_scale, gate_up_scale, gate_up_bias, activation and out. A server may quantize the result or
    send it elsewhere before moe_experts_down.
    """
    return moe_experts(x, sorted, offsets, None, None, w_gate_up, None, top_k=top_k, **options)


def moe_experts_down(x: torch.Tensor, offsets: torch.Tensor, w_down: torch.Tensor,
                     inverse: Optional[torch.Tensor] = None, weights: Optional[torch.Tensor] = None,
                     **options: Any) -> torch.Tensor:
    """[tokens, hidden]: moe_experts' second product and the sum over a token's experts. x is [places, intermediate].

    Without inverse and weights [places, hidden]; then top_k must be given. Options: moe_experts' x_scale (f32 [places,
    intermediate / 128]), down_scale, down_bias, activation, top_k and out.
    """
    return moe_experts(x, None, offsets, inverse, weights, None, w_down, **options)


def add_rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, residual: Optional[torch.Tensor] = None,
                plus_one: bool = False, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """[tokens, hidden]: h / sqrt(mean(h * h) + eps) * weight, where h is x, or x + residual.

    x bf16 or fp16 [tokens, hidden], whose rows may lie apart; weight [hidden] of its type. h is written to `residual`,
    of x's shape and type, if it is given. plus_one: times weight + 1. `out` may be x.
    """
    return _run("add_rmsnorm", (x, weight, eps), "out", out, "residual", residual=residual, plus_one=plus_one)


def add_rmsnorm_e4m3(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *,
                     residual: Optional[torch.Tensor] = None, plus_one: bool = False, scale: str = "group",
                     out: Optional[tuple[torch.Tensor, torch.Tensor]] = None) -> tuple[torch.Tensor, torch.Tensor]:
    """add_rmsnorm in e4m3, and the scales that it is multiplied by: f32 [tokens, hidden / 128 rounded up], or
    [tokens, 1] with scale="token"."""
    return _run("add_rmsnorm_e4m3", (x, weight, eps), ("out", "scales"), out, "residual", residual=residual,
                plus_one=plus_one, scale=scale)


def add_rmsnorm_static(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, eps: float = 1e-6, *,
                       residual: Optional[torch.Tensor] = None, plus_one: bool = False,
                       out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """add_rmsnorm in e4m3 with the caller's scale, fp32 [1], of a calibrated model: value = e4m3 * scale. What is beyond
    448 becomes 448."""
    return _run("add_rmsnorm_static", (x, weight, scale, eps), "out", out, "residual", residual=residual,
                plus_one=plus_one)


def act_mul(x: torch.Tensor, *, activation: str = "silu", interleaved: bool = False,
            out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """[tokens, intermediate]: silu(gate) * up, or gpt-oss' with activation "swigluoai".

    x bf16 or fp16 [tokens, 2 * intermediate], whose rows may lie apart: gate before up, or interleaved, a value of each
    in turn.
    """
    return _run("act_mul", (x,), "out", out, activation=activation, interleaved=interleaved)


def act_mul_e4m3(x: torch.Tensor, *, activation: str = "silu", interleaved: bool = False,
                 out: Optional[tuple[torch.Tensor, torch.Tensor]] = None) -> tuple[torch.Tensor, torch.Tensor]:
    """act_mul in e4m3, and the scales that it is multiplied by: f32 [tokens, intermediate / 128 rounded up]."""
    return _run("act_mul_e4m3", (x,), ("out", "scales"), out, activation=activation, interleaved=interleaved)


def few_rows_linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None, *,
                    out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """[tokens, out]: x weight^T + bias, for at most 16 tokens, as torch.nn.functional.linear.

    x bf16 or fp16 [tokens, in] and weight [out, in], whose rows may lie apart; bias [out]. The weights must be constants:
    they may be read before the kernel in front has ended.
    """
    return _run("few_rows_linear", (x, weight, bias), "out", out)


class Gated(NamedTuple):
    """What gate_route returns."""

    logits: torch.Tensor
    """[T, E], rounded to logits_type."""
    ids: torch.Tensor
    """i32 [T, k], or i64 with ids_type="i64": the experts, best first."""
    weights: torch.Tensor
    """f32 [T, k]."""


def gate_route(x: torch.Tensor, weight: torch.Tensor, top_k: int, bias: Optional[torch.Tensor] = None, *,
               score: str = "softmax", correction: Optional[torch.Tensor] = None, groups: int = 1, groups_kept: int = 1,
               renormalize: bool = True, scale: float = 1.0, logits_type: Optional[str] = None, ids_type: str = "i32",
               out: Optional[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = None) -> Gated:
    """few_rows_linear and route_weights in one kernel, for at most 64 tokens.

    x bf16 or fp16 [T, hidden] and weight [E, hidden], whose rows may lie apart; bias [E]; correction f32 [E], added for
    the selection alone. Logits are rounded to logits_type, "bf16", "f16" or "f32", before the selection; None: x's type.
    The other options are route's. The weights of the gate must be constants, as few_rows_linear's.
    """
    of_x = "f16" if x.dtype == torch.float16 else "bf16"
    return Gated(*_run("gate_route", (x, weight, top_k, bias), Gated._fields, out, score=score, correction=correction,
                       groups=groups, groups_kept=groups_kept, renormalize=renormalize, scale=scale,
                       logits_type=logits_type or of_x, ids_type=ids_type))


def kv_transfer(source: torch.Tensor, source_pages: Optional[torch.Tensor] = None,
                target_pages: Optional[torch.Tensor] = None, *, scales: Optional[torch.Tensor] = None,
                layout: str = "NHD", sms: int = 0, target: Optional[torch.Tensor] = None) -> torch.Tensor:
    """target: pages of a KV cache moved out of a pool, into it or between pools.

    source and target [pages, planes, slots, heads, dim] (NHD) or [pages, planes, heads, slots, dim] (HND), of which all
    but values of a row may lie apart; planes are keys, values and layers that have the same pages. An end with a list,
    int32 [pages], is a pool; the other has as many pages as the list. A negative page is left out. Without target and
    target_pages the result is new. Types are the same, or one is float8_e4m3fn: value = e4m3 * scale, scales fp32
    [planes, 1] or [planes, heads]. `sms`: blocks at most, each on an SM of its own; 0: as many as the GPU takes.
    """
    return _run("kv_transfer", (source, source_pages, target_pages), "target", target, scales=scales, layout=layout,
                sms=sms)


def mla_decode(q: torch.Tensor, kv: torch.Tensor, page_table: torch.Tensor, lengths: torch.Tensor,
               scale: float = 192 ** -0.5, *, context: int = 0, kv_scale: Optional[torch.Tensor] = None,
               group_scales: Optional[torch.Tensor] = None, rope: Optional[torch.Tensor] = None,
               out: Optional[torch.Tensor] = None, lse: Optional[torch.Tensor] = None) -> torch.Tensor:
    """[batch, queries, heads, 512]: attention of the newest tokens over a latent that all heads share.

    q bf16 or fp16 [batch, queries, heads, 576], the latent's part first; kv [pages, page, 576] of its type; page_table
    int32 [batch, columns]; lengths int32 [batch], new tokens included. `scale` is of q kv; DeepSeek's with YaRN is
    larger than the default. `context`: the longest length now; 0: what the page table has room for. Longer lengths are
    cut to it. `lse` fp32 [batch, queries, heads] gets the logarithm of each row's denominator.

    kv may be float8_e4m3fn with kv_scale, fp32 [1]: value = e4m3 * scale. Or it is [pages, page, 512] of that type, with
    group_scales fp32 [pages, page, 4], a scale for each 128 values, and rope [pages, page, 64] of q's type: the parts of
    a row of 656 bytes (latent_parts).
    """
    if context > 0:
        page_table = page_table[:, :-(-context // max(1, kv.shape[1]))]
    return _run("mla_decode", (q, kv, page_table, lengths, scale), "out", out, "lse", lse=lse, context=context,
                kv_scale=kv_scale, group_scales=group_scales, rope=rope)


def mla_decode_chosen(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, scale: float = 192 ** -0.5, *,
                      kv_scale: Optional[torch.Tensor] = None, group_scales: Optional[torch.Tensor] = None,
                      rope: Optional[torch.Tensor] = None, out: Optional[torch.Tensor] = None,
                      lse: Optional[torch.Tensor] = None) -> torch.Tensor:
    """mla_decode over chosen tokens, as of DeepSeek-V3.2: each query has a list of those that it sees.

    indices int32 [batch, queries, entries]: page * tokens of a page + place in it, in any order; negative: none. Nothing
    checks that they are the pool's.
    """
    return _run("mla_decode_chosen", (q, kv, indices, scale), "out", out, "lse", lse=lse, kv_scale=kv_scale,
                group_scales=group_scales, rope=rope)


def latent_parts(cache: torch.Tensor) -> dict[str, torch.Tensor]:
    """The kv, group_scales and rope of mla_decode in rows of 656 bytes, which are views of them, for q in bf16.

    cache uint8 [pages, page, 656]: 512 e4m3, 4 fp32 scales, 64 bf16, as of FlashMLA and of vLLM's fp8_ds_mla.
    """
    if cache.dtype != torch.uint8 or cache.ndim != 3 or cache.shape[2] != 656:
        raise moetune.InvalidArgument(f"the cache is {cache.dtype} {list(cache.shape)}; it must be torch.uint8 "
                                      "[pages, page, 656]")
    return {"kv": cache[..., :512].view(torch.float8_e4m3fn), "group_scales": cache[..., 512:528].view(torch.float32),
            "rope": cache[..., 528:].view(torch.bfloat16)}


def qk_norm_rope(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, q_heads: int, kv_heads: int, *,
                 out: Optional[tuple[torch.Tensor, torch.Tensor]] = None,
                 **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """q [tokens, q_heads, head_dim] and k [tokens, kv_heads, head_dim] with RMSNorm and RoPE.

    qkv bf16 or fp16 [tokens, (q_heads + 2 * kv_heads) * head_dim], the heads of q, k and v of each token; cos and sin
    fp32, bf16 or fp16 [tokens, rotary_dim / 2], whose rows may lie apart. What is behind rotary_dim is not turned.
    `out` may be heads of qkv. Options: q_weight and k_weight ([head_dim], of qkv's type; without them nothing is
    normalized), eps, interleaved (values 2 i and 2 i + 1 turn together, and not i and i + rotary_dim / 2).
    """
    return _run("qk_norm_rope", (qkv, cos, sin, q_heads, kv_heads), ("q", "k"), out, **options)


def qk_norm_rope_kv_write(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, slots: torch.Tensor, q_heads: int,
                          kv_heads: int, *, k_cache: torch.Tensor, v_cache: torch.Tensor,
                          out: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """q of qk_norm_rope; k and v go into pages.

    k_cache and v_cache [pages, page, kv_heads, head_dim] of qkv's type or e4m3, strides a multiple of 16 bytes but for
    the last; slots i64 [tokens]: page * number + place in it, or negative for a token that is not written. Options: as
    of qk_norm_rope; with e4m3, k_scale and v_scale, fp32 [1], or [kv_heads] with kv_scale="head": value = e4m3 * scale.
    """
    return _run("qk_norm_rope_kv_write", (qkv, cos, sin, slots, q_heads, kv_heads), "q", out, k_cache=k_cache,
                v_cache=v_cache, **options)


def launch(kernel: str, *tensors: Optional[torch.Tensor], facts: str = "", out: Optional[Sequence[torch.Tensor]] = None,
           integers: Sequence[int] = (), reals: Sequence[float] = ()) -> list[torch.Tensor]:
    """Launches a kernel that a kernel.json describes on the tensors that it reads; returns those that it writes.

    `facts` are dimensions that no tensor shows, `name=value` pairs; `integers` and `reals` the call's numbers.
    """
    outputs = None if out is None else list(out)
    return _run("launch", (kernel, list(tensors), facts), "out", outputs, integers=list(integers), reals=list(reals))


def moe_experts_by_ids(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, w_gate_up: torch.Tensor,
                       w_down: torch.Tensor, expert_map: Optional[torch.Tensor] = None, *,
                       out: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """moe_experts of experts that somebody else chose: route_plan, then moe_experts.

    ids i32 or i64 and weights of any floating type, [tokens, top_k]; expert_map as route_plan takes it, for a GPU that
    has some of the experts: those elsewhere count nothing. options are moe_experts': scales, biases and activation.
    """
    plan = route_plan(ids, w_down.shape[0], align=1, expert_map=expert_map)
    return moe_experts(x, plan.sorted, plan.offsets, plan.inverse, weights.float(), w_gate_up, w_down, out=out,
                       **options)
