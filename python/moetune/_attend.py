"""Attention and its masks as transformers calls them, in terms of prefill_attention and decode_attention."""

from typing import Any, Callable, Optional

import torch
from transformers.masking_utils import and_masks, causal_mask_function, sliding_window_overlay

import moetune
import moetune.torch as operators
from moetune._families import softcap_of
from moetune._serving import is_capturing

# What a layer gets in place of a mask, i32: [batch, 1, 1, 2], of which row its keys begin and end in a sequence; or
# [batch, 1, 1, 1], where they end, of one new token each and no padding. Four dimensions: what has them passes through
# transformers unchanged.


def _is_causal(mask: Callable[..., Any]) -> bool:
    """Whether a mask function of transformers is a causal one, with a window or not, and nothing else."""
    if mask is causal_mask_function:
        return True
    if getattr(mask, "__code__", None) is not and_masks(causal_mask_function).__code__:
        return False
    parts = [part for cell in mask.__closure__ or () for part in cell.cell_contents]
    window = sliding_window_overlay(1).__code__
    return all(part is causal_mask_function or getattr(part, "__code__", None) is window for part in parts)


def _refuse_padding_on_the_right(mask: torch.Tensor) -> None:
    if bool((mask[:, 1:] < mask[:, :-1]).any()):
        raise moetune.Unsupported(
            "attention_mask has a 0 behind a 1; padding is served on the left alone: set the tokenizer's "
            "padding_side='left', or call moetune.transformers.stop(model)")


def spans(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: Any = 0,
          mask_function: Callable[..., Any] = causal_mask_function, attention_mask: Optional[torch.Tensor] = None,
          device: Any = None, **_: Any) -> torch.Tensor:
    """The mask of a forward, once for all layers of a kind. Reads a tensor on the host for prompts alone."""
    traced = torch.compiler.is_compiling()
    if not traced and not _is_causal(mask_function):
        raise moetune.Unsupported("packed sequences and masks of other forms than a causal one, with a window or not, "
                                  "are not served; call moetune.transformers.stop(model)")
    end = q_offset + q_length - kv_offset
    ends = (end.to(torch.int32).reshape(1).repeat(batch_size) if isinstance(end, torch.Tensor) else
            torch.full((batch_size,), end, dtype=torch.int32, device=device))
    if attention_mask is None:
        begins = torch.zeros_like(ends)
        if q_length == 1:
            return ends.view(batch_size, 1, 1, 1)
    else:
        mask = attention_mask.to(torch.int32)
        if q_length > 1 and not traced and not is_capturing():
            _refuse_padding_on_the_right(mask)
        begins = (mask.argmax(-1) - kv_offset).clamp(min=0).to(torch.int32)
    return torch.stack((begins, ends), -1).view(batch_size, 1, 1, 2)


def without_begins(mask: Any) -> Any:
    """A mask of spans() if nothing is padded: the ends alone; one of two dimensions: None, and spans() makes it so."""
    return mask[..., 1:].contiguous() if mask is not None and mask.ndim == 4 else None


def _rows(tensor: torch.Tensor) -> Optional[int]:
    """How many rows of a head lie between sequences; None if they are not whole rows of keys apart."""
    sequence, _, row, element = tensor.stride()
    if tensor.shape[0] == 1:
        return int(tensor.shape[2]) if element == 1 else None
    return int(sequence) // int(row) if element == 1 and row > 0 and sequence % row == 0 else None


def _attend_spans(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float,
                  window: int, sinks: Optional[torch.Tensor], softcap: int = 0) -> torch.Tensor:
    """prefill_attention over keys as they lie in a cache, [batch, kv_heads, rows, dim].

    All rows of a head are one list, in which a sequence is a span. What lies between spans is a sequence without
    queries.
    """
    batch, heads, tokens, dim = query.shape
    apart = _rows(key)
    if apart is None or apart != _rows(value):
        key, value = key.contiguous(), value.contiguous()
        apart = key.shape[1] * key.shape[2]
    kv_heads, room = key.shape[1], key.shape[2]
    shape = kv_heads, (batch - 1) * apart + room, dim
    k, v = (each.as_strided(shape, (each.stride(1), each.stride(2), 1)) for each in (key, value))
    begins = torch.arange(0, batch * apart, apart, dtype=torch.int32, device=query.device)
    kv_offsets = torch.zeros(2 * batch + 1, dtype=torch.int32, device=query.device)
    torch.add(mask.view(batch, 2), begins[:, None], out=kv_offsets[1:].view(batch, 2))
    q_offsets = torch.arange(2 * batch + 1, dtype=torch.int32, device=query.device) // 2 * tokens
    out = operators.prefill_attention(query.transpose(1, 2).reshape(batch * tokens, heads, dim), k, v, q_offsets,
                                      kv_offsets, None, None, scale, "HND", max_q=tokens, max_kv=room, window=window,
                                      sinks=sinks, softcap=softcap)
    return out.view(batch, tokens, heads, dim)


def _like_output(query: torch.Tensor, *_: Any) -> torch.Tensor:
    batch, heads, tokens, dim = query.shape
    return query.new_empty(batch, tokens, heads, dim)


# An operator, for compilers keep the strides of its inputs and look no further.
_operator: Any = torch.library.custom_op("moetune::attend_spans", _attend_spans, mutates_args=(),
                                         tags=(torch.Tag.needs_fixed_stride_order,))
_operator.register_fake(_like_output)


def attention(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              attention_mask: Optional[torch.Tensor], dropout: float = 0.0, scaling: Optional[float] = None,
              sliding_window: Optional[int] = None, s_aux: Optional[torch.Tensor] = None,
              is_causal: Optional[bool] = None, softcap: Optional[float] = None, **others: Any) -> tuple[torch.Tensor, None]:
    """An attention function of transformers: [batch, heads, tokens, dim] to [batch, tokens, heads, dim]."""
    if attention_mask is None or attention_mask.dtype != torch.int32:
        raise moetune.Unsupported("attention takes the mask that transformers makes of a 2D attention_mask, or of "
                                  "none; it got another one. Call moetune.transformers.stop(model) to use it")
    if dropout != 0 or is_causal is False or others.get("position_bias") is not None:
        raise moetune.Unsupported("dropout, position_bias and is_causal=False are not served; call "
                                  "moetune.transformers.stop(model)")
    cap = softcap_of(softcap)
    # A cache with the window's tokens alone needs no window.
    window = sliding_window if sliding_window is not None and key.shape[2] > sliding_window else 0
    sinks = None if s_aux is None else s_aux.detach().float()
    scale = float(query.shape[3] ** -0.5 if scaling is None else scaling)
    if attention_mask.shape[3] == 2:
        return torch.ops.moetune.attend_spans(query, key, value, attention_mask, scale, window, sinks, cap), None
    out = operators.decode_attention(query[:, :, 0], key, value, None, attention_mask.view(-1), scale, "HND",
                                     window=window, sinks=sinks, softcap=cap)
    return out.unsqueeze(1), None
