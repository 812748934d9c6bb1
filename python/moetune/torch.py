"""PyTorch operators: `import moetune.torch` registers torch.ops.moetune.*.

    out = torch.ops.moetune.decode_attention(q, k_cache, v_cache, page_table, seq_lens, scale)

    ids, weights, counts, offsets, sorted, inverse, block_experts = torch.ops.moetune.route(logits, top_k)
    rows = torch.ops.moetune.moe_dispatch(x, sorted, inverse)
    out = torch.ops.moetune.moe_combine(experts(rows), inverse, weights)

route_weights gives ids and weights alone, moe_dispatch_e4m3 rows in e4m3 and their scales. They work eagerly, under
torch.compile and inside torch.cuda.graph. Nothing of them synchronizes or reads a tensor on the host. Each has an
overload `.out`, which writes what the caller allocated. The functions here are the operators with an optional `out`.
They raise moetune.Error's classes; the operators themselves raise RuntimeError, whose text begins with the class.
"""

from typing import Any, NamedTuple, Optional

import torch

import moetune
from moetune import _operators
from moetune._serving import prepare, runtime, use

__all__ = ["Routing", "decode_attention", "moe_combine", "moe_dispatch", "moe_dispatch_e4m3", "prepare", "route",
           "route_weights", "runtime", "use"]


class Routing(NamedTuple):
    """What route returns. T tokens, k experts each, E experts; a slot is one choice of one token, t * k + j."""

    ids: torch.Tensor
    """i32 [T, k]: the experts, best first."""
    weights: torch.Tensor
    """f32 [T, k]."""
    counts: torch.Tensor
    """i32 [E]: slots of each expert."""
    offsets: torch.Tensor
    """i32 [E + 1]: where the experts' segments begin, multiples of `align`."""
    sorted: torch.Tensor
    """i32 [places]: the slot at each place; T * k for none."""
    inverse: torch.Tensor
    """i32 [T, k]: the place of each slot; -1 for one that was dropped."""
    block_experts: torch.Tensor
    """i32 [places / align]: the expert of each block; -1 behind the last."""


assert Routing._fields == _operators.ROUTING


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


def decode_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
                     seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: Optional[torch.Tensor] = None,
                     lse: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """Attention of the newest tokens over a paged KV cache; the operator with optional `out` and `lse`.

    q [batch, heads, dim] or [batch, q_len, heads, dim]; caches [pages, page, kv_heads, dim] (NHD) or [pages, kv_heads,
    page, dim] (HND), or [batch, ...] of contexts if page_table is None; page_table i32 [batch, columns]; seq_lens i32
    [batch]. Options: max_context (of all sequences now; 0 for what page_table has room for), min_context (a captured
    graph's choice is the best from here to max_context), total_tokens, window, sinks, k_scale, v_scale.
    """
    given, operator = (q, k_cache, v_cache, page_table, seq_lens, scale, layout), torch.ops.moetune.decode_attention
    if out is not None:
        _call(operator.out, *given, out=out, lse=lse, **options)
        return out
    made: torch.Tensor = (_call(operator.default, *given, **options) if lse is None else
                          _call(operator.lse, *given, lse=lse, **options))
    return made


def route(logits: torch.Tensor, top_k: int, *, out: Optional[Routing] = None, **options: Any) -> Routing:
    """Each token's experts and weights, and the permutation that brings the tokens of one expert together.

    logits fp32, bf16 or fp16 [tokens, experts], whose rows may lie apart. Options: score ("softmax", "topk_softmax",
    "sigmoid" or "sqrt_softplus"), bias (f32 [experts], for the selection alone), groups, groups_kept, renormalize,
    scale (of the weights), align (of the experts' segments), capacity (percent of the even share; 0 for all),
    expert_map (i32 [experts]), token_count (i32 [1]: how many tokens are routed, read on the device).
    """
    operator = torch.ops.moetune.route
    if out is None:
        return Routing(*_call(operator.default, logits, top_k, **options))
    _call(operator.out, logits, top_k, ids=out.ids, weights=out.weights, counts=out.counts, offsets=out.offsets,
          sorted=out.sorted, inverse=out.inverse, block_experts=out.block_experts, **options)
    return out


def route_weights(logits: torch.Tensor, top_k: int, *, out: Optional[tuple[torch.Tensor, torch.Tensor]] = None,
                  **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids and weights of route alone. Options: its own but for align, capacity and expert_map."""
    operator = torch.ops.moetune.route_weights
    if out is None:
        ids, weights = _call(operator.default, logits, top_k, **options)
        return ids, weights
    _call(operator.out, logits, top_k, ids=out[0], weights=out[1], **options)
    return out


def moe_dispatch(x: torch.Tensor, sorted: torch.Tensor, inverse: torch.Tensor, *, out: Optional[torch.Tensor] = None,
                 padding: str = "zeros") -> torch.Tensor:
    """bf16 [places, hidden]: the rows of x, bf16 [tokens, hidden], in the order of route's `sorted`.

    padding: "zeros", or "none" to leave the rows of places without a token as they are.
    """
    operator = torch.ops.moetune.moe_dispatch
    if out is None:
        made: torch.Tensor = _call(operator.default, x, sorted, inverse, padding=padding)
        return made
    _call(operator.out, x, sorted, inverse, rows=out, padding=padding)
    return out


def moe_dispatch_e4m3(x: torch.Tensor, sorted: torch.Tensor, inverse: torch.Tensor, *,
                      out: Optional[tuple[torch.Tensor, torch.Tensor]] = None,
                      **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """moe_dispatch with rows in e4m3, and what they are multiplied by to get x back.

    Options: scale ("group" of 128 values, or "token"), scale_layout ("row": [places, groups]; "column": [groups, places
    rounded up to 4]), padding.
    """
    operator = torch.ops.moetune.moe_dispatch_e4m3
    if out is None:
        rows, scales = _call(operator.default, x, sorted, inverse, **options)
        return rows, scales
    _call(operator.out, x, sorted, inverse, rows=out[0], scales=out[1], **options)
    return out


def moe_combine(rows: torch.Tensor, inverse: torch.Tensor, weights: torch.Tensor, *,
                out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """bf16 [tokens, hidden]: the sum of each token's rows, times their weights. rows bf16 [places, hidden]."""
    operator = torch.ops.moetune.moe_combine
    if out is None:
        made: torch.Tensor = _call(operator.default, rows, inverse, weights)
        return made
    _call(operator.out, rows, inverse, weights, out=out)
    return out
