"""Routers of transformers models: what each is, and its choice of experts by the router kernel."""

import functools
from typing import Any, Callable, NamedTuple

import torch

import moetune
import moetune.torch as operators
from moetune._families import NO_EXPERTS, Wanted, dtype_of, facts_of, is_changed

_MOST_TOKENS = 1 << 20  # of router
_GATED = range(17, 65)  # rows of gate_route; for fewer, few_rows_linear and router brought the fastest step measured


class _Kind(NamedTuple):
    """Routers that are a product and this choice."""

    score: str  # as the router names it
    renormalizes: Callable[[Any], bool]
    in_fp32: bool  # what weights stay


_KINDS = {"MixtralTopKRouter": _Kind("softmax", lambda layer: True, True),
          **dict.fromkeys(("Qwen2MoeTopKRouter", "Qwen3MoeTopKRouter"),
                          _Kind("softmax", lambda layer: bool(layer.norm_topk_prob), False)),
          "GptOssTopKRouter": _Kind("topk_softmax", lambda layer: True, False)}


def is_known(layer: Any) -> bool:
    return type(layer).__name__ in _KINDS and type(layer).forward.__module__.startswith("transformers.models.")


def _choose(layer: Any, in_fp32: bool, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids as the model's own router makes them."""
    kind = _KINDS[type(layer).__name__]
    if kind.score == "topk_softmax":
        best, ids = torch.topk(logits, layer.top_k, dim=-1)
        return torch.nn.functional.softmax(best, dim=1, dtype=best.dtype), ids
    weights, ids = torch.topk(torch.nn.functional.softmax(logits, dtype=torch.float, dim=-1), layer.top_k, dim=-1)
    if kind.renormalizes(layer):
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights if kind.in_fp32 or in_fp32 else weights.to(logits.dtype), ids


def _choose_at_once(layer: Any, in_fp32: bool, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by one kernel. Of equal logits the lower id wins."""
    if not 0 < len(logits) <= _MOST_TOKENS:
        return _choose(layer, in_fp32, logits)
    kind = _KINDS[type(layer).__name__]
    ids, weights = operators.route_weights(logits, layer.top_k, score=kind.score, ids_type="i64",
                                           renormalize=kind.renormalizes(layer))
    return weights if kind.in_fp32 or in_fp32 else weights.to(logits.dtype), ids


def route(layer: Any, multiply: Any, choose: Any, in_fp32: bool, hidden_states: torch.Tensor) -> Any:
    """The forward of such a router."""
    rows, bias = hidden_states.reshape(-1, layer.hidden_dim), getattr(layer, "bias", None)
    if choose is _choose_at_once and len(rows) in _GATED and rows.dtype == layer.weight.dtype:
        kind = _KINDS[type(layer).__name__]
        logits, ids, weights = operators.gate_route(rows, layer.weight, layer.top_k, bias, score=kind.score,
                                                    renormalize=kind.renormalizes(layer), ids_type="i64")
        return logits, weights if kind.in_fp32 or in_fp32 else weights.to(logits.dtype), ids
    logits = multiply(rows, layer.weight, bias)
    return (logits, *choose(layer, in_fp32, logits))


def routers(model: Any) -> list[Any]:
    return [layer for layer in model.modules() if is_known(layer) and not is_changed(layer)]


def families_of(model: Any) -> list[Wanted]:
    """The families of its routers. Raises Unsupported if none is known."""
    dtype, layers = dtype_of(model), routers(model)
    if not layers:
        names = {type(layer).__name__ for layer in model.modules() if type(layer).__name__.lower().endswith("router")}
        raise moetune.Unsupported(f"what {min(names)} does is not known, or something hooks into it" if names
                                  else NO_EXPERTS)
    shapes = {(*layer.weight.shape, layer.top_k, kind.score, kind.renormalizes(layer),
               getattr(layer, "bias", None) is not None)
              for layer in layers for kind in [_KINDS[type(layer).__name__]]}
    of_type, wanted = None if dtype == "bf16" else "f16", []
    for experts, hidden, top_k, score, renormalizes, has_bias in sorted(shapes):
        facts: dict[str, Any] = {"experts": experts, "top_k": top_k, "score": None if score == "softmax" else score,
                                 "renormalize": None if renormalizes else "no", "ids": "i64"}
        wanted += [Wanted("router", facts_of(**facts, dtype=dtype, outputs="weights"),
                          ("tokens=1", "tokens=64", "tokens=2048"), "tokens=1..8k", ""),
                   Wanted("gate_route", facts_of(**facts, hidden=hidden, dtype=of_type, logits=of_type,
                                                 gate_bias="yes" if has_bias else None),
                          ("tokens=32", "tokens=64"), "tokens=17..64", "")]
    return wanted


def serve(layers: list[Any], multiply: Any, at_once: bool, in_fp32: bool) -> None:
    """in_fp32: weights stay so, as moe_experts takes them, and are not rounded to the model's type."""
    for layer in layers:
        layer.forward = functools.partial(route, layer, multiply, _choose_at_once if at_once else _choose, in_fp32)
