"""Norms, and what lies between a layer's projections and its cache, of transformers models by moetune's operators."""

import functools
import sys
from typing import Any, Callable, Optional

import torch
from transformers.cache_utils import StaticCache, StaticLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import moetune
import moetune.torch as operators
from moetune import _linear, _routing
from moetune._families import Wanted, dtype_of, facts_of, is_changed
from moetune._serving import is_capturing

OWN_ATTENTION = "its attention is the model's own"
CACHE_NAMES = ("cache", "past_key_values")  # of a forward's cache, in transformers 5.24 and in 5.17

_MOST_ROWS = 1 << 20  # of add_rmsnorm
_WEIGHT, _BIAS = "_moetune_qkv_weight", "_moetune_qkv_bias"  # buffers of a layer whose projections are one
# On a static cache, for layers whose sequences lie so many rows apart: the first of them, whether it was captured, and the
# rows that one new token of each sequence gets.
_SLOTS = "_moetune_slots"

# The attention layers whose forward is the same but for what their attention is called with.
_CALLED_WITH: dict[str, Callable[[Any], dict[str, Any]]] = {
    **dict.fromkeys(("LlamaAttention", "Qwen2MoeAttention"), lambda layer: {}),
    **dict.fromkeys(("MistralAttention", "MixtralAttention"),
                    lambda layer: {"sliding_window": getattr(layer.config, "sliding_window", None)}),
    **dict.fromkeys(("Qwen3Attention", "Qwen3MoeAttention"), lambda layer: {"sliding_window": layer.sliding_window}),
    "GptOssAttention": lambda layer: {"sliding_window": layer.sliding_window, "s_aux": layer.sinks},
}


def attention_layers(model: Any) -> list[Any]:
    return [layer for layer in model.modules() if hasattr(layer, "num_key_value_groups")]


def norm_layers(model: Any, fused: list[Any]) -> list[Any]:
    """Its norms, without those of heads in layers that are `fused`."""
    inner = {id(norm) for layer in fused for norm in _head_norms(layer)}
    return [layer for layer in model.modules() if type(layer).__name__.endswith("RMSNorm") and id(layer) not in inner]


def _head_norms(layer: Any) -> list[Any]:
    return [norm for norm in (getattr(layer, "q_norm", None), getattr(layer, "k_norm", None)) if norm is not None]


def _projections(layer: Any) -> list[Any]:
    return [layer.q_proj, layer.k_proj, layer.v_proj]


def _eps_of(layer: Any) -> Any:
    return getattr(layer, "variance_epsilon", getattr(layer, "eps", None))


def _is_linear(layer: Any) -> bool:
    return type(layer) is torch.nn.Linear and not is_changed(layer)


def _is_fused(layer: Any) -> bool:
    """Whether its projections still are parts of one matrix: not if something replaced, moved, copied or hooked them.
    While it is compiled, nobody tells where a tensor lies."""
    parts = _projections(layer)
    if not all(map(_is_linear, parts)) or any(map(is_changed, _head_norms(layer))):
        return False
    if torch.compiler.is_compiling():
        return True
    for kind, name in (("weight", _WEIGHT), ("bias", _BIAS)):
        whole, own = getattr(layer, name), [getattr(part, kind) for part in parts]
        if whole is not None and any(each.data_ptr() != rows.data_ptr() for each, rows in zip(own, _parts(whole, own))):
            return False
    return True


def _parts(whole: torch.Tensor, own: list[Any]) -> Any:
    return whole.split([len(each) for each in own])


def _is_plain(layer: Any, dtype: Any) -> bool:
    """Whether a norm is add_rmsnorm's, by what it makes of some rows."""
    weight, eps = getattr(layer, "weight", None), _eps_of(layer)
    if not isinstance(weight, torch.nn.Parameter) or type(weight.data) is not torch.Tensor or weight.dtype != dtype:
        return False
    if weight.ndim != 1 or not isinstance(eps, float):
        return False
    if is_changed(layer) or weight.is_meta:
        return False
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(4, weight.shape[0], generator=generator).to(weight.device, weight.dtype)
    with torch.no_grad():
        made, wide = layer(rows), rows.float()
        right = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return bool(made.dtype == dtype and torch.allclose(made.float(), right, rtol=2 ** -6, atol=1e-6))


def _type_of(model: Any) -> Optional[str]:
    return None if dtype_of(model) == "bf16" else "f16"


def norms_of(model: Any, fused: list[Any]) -> list[Wanted]:
    """The families of its norms. Raises Unsupported if one of them is another norm."""
    of_type, layers = _type_of(model), norm_layers(model, fused)
    if not layers:
        raise moetune.Unsupported("the model has no RMSNorm")
    for layer in layers:
        if not _is_plain(layer, model.dtype):
            raise moetune.Unsupported(f"{type(layer).__name__} is not x / sqrt(mean(x * x) + eps) * weight, or hooked")
    return [Wanted("add_rmsnorm", facts_of(hidden=size, dtype=of_type, out=of_type),
                   ("tokens=1", "tokens=64", "tokens=2048"), "tokens=1..8k", "")
            for size in sorted({layer.weight.shape[0] for layer in layers})]


def _why_not(layer: Any, dtype: Any) -> Optional[str]:
    """Why qk_norm_rope cannot serve a layer of attention; None if it can."""
    name = type(layer).__name__
    if name not in _CALLED_WITH or not type(layer).forward.__module__.startswith("transformers.models."):
        return f"what {name} does to q and k is not known"
    parts = _projections(layer)
    weights = [part.weight for part in parts if _is_linear(part) and type(part.weight.data) is torch.Tensor]
    if len(weights) < 3 or is_changed(layer) or len({(each.device, each.dtype) for each in weights}) > 1:
        return "its projections are not plain linear layers, or something hooks into them"
    if len({part.bias is None for part in parts}) > 1 or weights[0].is_meta:
        return "some of its projections have a bias, and others none"
    norms = _head_norms(layer)
    if norms and (len(norms) != 2 or not all(_is_plain(norm, dtype) for norm in norms) or
                  len({_eps_of(norm) for norm in norms}) > 1):
        return f"{type(norms[0]).__name__} of its heads is another norm"
    return None


def _heads(layer: Any) -> tuple[int, int]:
    return layer.q_proj.out_features // layer.head_dim, layer.k_proj.out_features // layer.head_dim


def rope_of(model: Any) -> list[Wanted]:
    """The families of norms and RoPE of q and k. Raises Unsupported if a layer does something else to them."""
    of_type, layers = _type_of(model), attention_layers(model)
    reasons = list(filter(None, (_why_not(layer, model.dtype) for layer in layers)))
    if reasons:
        raise moetune.Unsupported(reasons[0])
    wanted = []
    for q_heads, kv_heads, dim, normed in sorted(
            {(*_heads(layer), layer.head_dim, bool(_head_norms(layer))) for layer in layers}):
        facts = {"q_heads": q_heads, "kv_heads": kv_heads, "head_dim": dim, "rotary_dim": dim, "dtype": of_type,
                 "tables": of_type or "bf16", "norm": None if normed else "no"}
        wanted += [Wanted("qk_norm_rope", facts_of(**facts), ("tokens=1", "tokens=64", "tokens=2048"), "tokens=1..8k", ""),
                   Wanted("qk_norm_rope", facts_of(**facts, kv="pages", page=1, kv_dtype=of_type),
                          ("tokens=1", "tokens=64"), "tokens=1..256", "")]
    return wanted


def _normalize(layer: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    if hidden_states.dtype != layer.weight.dtype or hidden_states.numel() > hidden_states.shape[-1] * _MOST_ROWS:
        made: torch.Tensor = type(layer).forward(layer, hidden_states)
        return made
    rows = hidden_states.reshape(-1, hidden_states.shape[-1])
    return operators.add_rmsnorm(rows, layer.weight, _eps_of(layer)).view(hidden_states.shape)


def _layer_and_slots(layer: Any, cache: Any, qkv: torch.Tensor) -> Optional[tuple[Any, torch.Tensor]]:
    """The layer of a static cache that qk_norm_rope can write one new token of each sequence to, and the rows of its
    [batch * heads * room, dim] that the first heads get. None if the layer must update itself: as a forward's first layer
    always does, because its index_copy_ checks on the GPU that there is room. Compilers fuse updates by themselves."""
    if torch.compiler.is_compiling() or type(cache) is not StaticCache or cache.offloading:
        return None
    own = cache.layers[layer.layer_idx]
    if type(own) is not StaticLayer or not own.is_initialized:
        return None
    batch, heads, room, _ = own.keys.shape
    if batch != len(qkv) or any(each.dtype != qkv.dtype or not each.is_contiguous() for each in (own.keys, own.values)):
        return None
    known = vars(cache).setdefault(_SLOTS, {})
    first, captured, slots = known.get(heads * room, (layer.layer_idx, None, None))
    if layer.layer_idx > first:
        return (own, slots) if captured == is_capturing() and len(slots) == batch else None
    begins = torch.arange(0, batch * heads * room, heads * room, device=qkv.device)
    known[heads * room] = layer.layer_idx, is_capturing(), begins + own.cumulative_length
    return None


def _by_row(cached: torch.Tensor) -> torch.Tensor:
    """[batch, heads, room, dim] with a page for each row of its first heads; pages of other heads are among them."""
    batch, heads, room, dim = cached.shape
    return cached.as_strided(((batch - 1) * heads * room + room, 1, heads, dim), (dim, dim, room * dim, 1))


def _attend(layer: Any, multiply: Any, hidden_states: torch.Tensor,
            position_embeddings: tuple[torch.Tensor, torch.Tensor], attention_mask: Any = None,
            **options: Any) -> Any:
    """The forward of such a layer: one product for q, k and v, by `multiply`, and one kernel up to the cache. The
    layer's own, if its parts are no longer as use() found them."""
    if not _is_fused(layer):
        return type(layer).forward(layer, hidden_states, position_embeddings=position_embeddings,
                                   attention_mask=attention_mask, **options)
    caches = [options.pop(name, None) for name in CACHE_NAMES]
    cache = next((each for each in caches if each is not None), None)
    shape, dim, (q_heads, kv_heads) = hidden_states.shape[:-1], layer.head_dim, _heads(layer)
    qkv = multiply(hidden_states.reshape(-1, hidden_states.shape[-1]), getattr(layer, _WEIGHT), getattr(layer, _BIAS))
    # The second half of transformers' tables, where there is one, is the first; else they lie transposed in memory.
    cos, sin = (each[..., :dim // 2].expand(*shape, dim // 2).reshape(-1, dim // 2) for each in position_embeddings)
    cos, sin = (each if each.stride(1) == 1 else each.contiguous() for each in (cos, sin))
    norms = _head_norms(layer)
    weights = {"q_weight": norms[0].weight, "k_weight": norms[1].weight, "eps": _eps_of(norms[0])} if norms else {}
    written = _layer_and_slots(layer, cache, qkv) if shape[-1] == 1 else None
    if written is not None:
        own, slots = written
        q = operators.qk_norm_rope_kv_write(qkv, cos, sin, slots, q_heads, kv_heads, k_cache=_by_row(own.keys),
                                            v_cache=_by_row(own.values), **weights)
        own.cumulative_length.add_(1)
        q, k, v = q.view(*shape, q_heads, dim).transpose(1, 2), own.keys, own.values
    else:
        q, k = operators.qk_norm_rope(qkv, cos, sin, q_heads, kv_heads, **weights)
        v = qkv[:, (q_heads + kv_heads) * dim:]
        q, k, v = (each.reshape(*shape, -1, dim).transpose(1, 2) for each in (q, k, v))
        if cache is not None:
            k, v = cache.update(k, v, layer.layer_idx)
    attention = ALL_ATTENTION_FUNCTIONS.get_interface(
        layer.config._attn_implementation, sys.modules[type(layer).__module__].eager_attention_forward)
    out, chances = attention(layer, q, k, v, attention_mask, scaling=layer.scaling,
                             dropout=layer.attention_dropout if layer.training else 0.0,
                             **_CALLED_WITH[type(layer).__name__](layer), **options)
    return layer.o_proj(out.reshape(*shape, -1).contiguous()), chances


def serve_norms(layers: list[Any]) -> None:
    for layer in layers:
        layer.forward = functools.partial(_normalize, layer)


def serve_rope(layers: list[Any], multiply: Any) -> None:
    """The weights of q, k and v become one matrix, and stay parameters of their layers: parts of it."""
    for layer in layers:
        for kind, name in (("weight", _WEIGHT), ("bias", _BIAS)):
            own = [getattr(part, kind) for part in _projections(layer)]
            whole = None if own[0] is None else torch.cat([each.data for each in own])
            layer.register_buffer(name, whole, persistent=False)
            if whole is not None:
                for each, rows in zip(own, _parts(whole, own)):
                    each.data = rows
        layer.forward = functools.partial(_attend, layer, multiply)


_FORWARDS = (_normalize, _attend, _linear.project, _routing.route)


def restore(model: Any) -> None:
    """Takes away what serve_norms, serve_rope, _linear and _routing did."""
    for layer in model.modules():
        forward = vars(layer).get("forward")
        if not isinstance(forward, functools.partial) or forward.func not in _FORWARDS:
            continue
        del layer.forward
        if forward.func is _attend:
            was_fused = _is_fused(layer)
            delattr(layer, _WEIGHT)
            delattr(layer, _BIAS)
            for part in _projections(layer) if was_fused else ():
                for each in (part.weight, part.bias):
                    if each is not None:
                        each.data = each.data.clone()
