"""What the plug-ins of vLLM and SGLang share: the families that layers open, and the calls that a batch becomes."""

import functools
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import torch

import moetune.torch as operators
from moetune import _families, _serving

PAGES = (64, 128, 16, 32, 256)  # tokens that both attention kernels have pages of; the first that serves is taken
MOST_VERIFIED = 8  # new tokens of a sequence in decode_attention
LOG = logging.getLogger("moetune")

_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


class Heads(NamedTuple):
    """What of an attention layer is compiled into cubins, but for the page; and how many heads there are."""

    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    window: int = 0  # tokens that a query sees, itself included; 0 for all
    sinks: bool = False
    narrow: bool = False  # keys and values in e4m3
    softcap: int = 0  # 0: none

    def families(self, page: int, verified: int = 1) -> list[_families.Wanted]:
        return _families.attention(self.q_heads, self.kv_heads, self.head_dim, page, _DTYPES[self.dtype], self.window,
                                   self.sinks, "e4m3" if self.narrow else None, self.softcap, verified)


@dataclass
class Batch:
    """Sequences of one call: first steps, with as many new tokens each, then all others, if q_offsets is not None."""

    steps: int  # how many sequences are steps
    tokens: int  # new tokens of all; what a server padded them with is not computed
    q_offsets: Optional[torch.Tensor]  # i32 [others + 1]: prefix sums of the others' new tokens
    page_table: torch.Tensor  # i32 [sequences, columns]
    seq_lens: torch.Tensor  # i32 [sequences], new tokens included
    max_q: int
    max_kv: int
    step_tokens: int = 1  # new tokens of each step: 1, or those that a draft's verification has


def _why_not(wanted: list[_families.Wanted], budget: int = 1) -> Optional[str]:
    """None if all serve on this device, those that nothing is stored of by a search's default; else why not."""
    index = 0 if _serving.host_is_device else torch.cuda.current_device()
    return _families.open_all(wanted, torch.device("cuda", index), budget)


@functools.cache
def page_for(heads: Heads, pages: tuple[int, ...] = PAGES, verified: int = 1) -> tuple[int, Optional[str]]:
    """The page that serves, and None; or 0 and why none does. What is stored goes before what must be searched."""
    if heads.dtype not in _DTYPES:
        return 0, f"attention in {str(heads.dtype).removeprefix('torch.')}: bf16 and fp16 are served"
    reason: Optional[str] = "pages of 16, 32, 64, 128 and 256 tokens are served"
    for budget in (0, 1):
        for page in pages if budget == 0 else pages[:1]:
            reason = _why_not(heads.families(page, verified), budget)
            if reason is None:
                return page, None
    return 0, reason


def warm(heads: Heads, page: int, layout: str, verified: int = 1) -> None:
    """The first call of each family: they load cubins and allocate, which no call may while a graph is captured."""
    device = "cpu" if _serving.host_is_device else "cuda"
    q = torch.zeros(verified, heads.q_heads, heads.head_dim, dtype=heads.dtype, device=device)
    kv = q.new_zeros(1, *((heads.kv_heads, page) if layout == "HND" else (page, heads.kv_heads)), heads.head_dim)
    zero, one = (torch.full((1,), value, dtype=torch.int32, device=device) for value in (0, 1))
    options: dict[str, Any] = {"window": heads.window, "softcap": heads.softcap}
    if heads.narrow:
        kv = kv.to(torch.float8_e4m3fn)
        options |= dict.fromkeys(("k_scale", "v_scale"), one.float())
    if heads.sinks:
        options["sinks"] = torch.zeros(heads.q_heads, device=device)
    others = torch.cat((zero, one))
    for steps, tokens, q_offsets in (*((1, each, None) for each in sorted({1, verified})), (0, 1, others)):
        attend(Batch(steps, tokens, q_offsets, zero[None], one, 1, page, tokens), q, kv, kv, torch.empty_like(q), 1.0,
               layout, **options)


def attend(batch: Batch, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, scale: float,
           layout: str, **options: Any) -> None:
    """Writes the attention of a batch's new tokens, q and out [tokens or more, heads, dim], over pages."""
    steps = batch.steps
    rows = steps * batch.step_tokens
    if steps:
        new = (steps, *(() if batch.step_tokens == 1 else (batch.step_tokens,)), *q.shape[1:])
        operators.decode_attention(q[:rows].view(new), k, v, batch.page_table[:steps], batch.seq_lens[:steps], scale,
                                   layout, out=out[:rows].view(new), max_context=batch.max_kv, **options)
    if batch.q_offsets is not None:
        operators.prefill_attention(q[rows:batch.tokens], k, v, batch.q_offsets, None, batch.page_table[steps:],
                                    batch.seq_lens[steps:], scale, layout, out=out[rows:batch.tokens],
                                    max_q=batch.max_q, max_kv=batch.max_kv, **options)


def experts_why_not(hidden: int, count: int, top_k: int, intermediate: int, dtype: torch.dtype,
                    local: bool = False) -> Optional[str]:
    """Why moe_experts_by_ids, of i32 ids, cannot be a layer of SwiGLU experts; None if it can."""
    if dtype not in _DTYPES:
        return f"experts in {str(dtype).removeprefix('torch.')}: unquantized ones in bf16 and fp16 are served"
    return _why_not(_families.experts(hidden, count, top_k, intermediate, _DTYPES[dtype], "i32", local=local))
