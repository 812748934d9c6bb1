"""Serves a transformers model by moetune's operators: one line after the model is loaded.

    served = moetune.transformers.use(model)  # of each part None, or why the model's own runs
    moetune.transformers.stop(model)

Attention goes through transformers' AttentionInterface and AttentionMaskInterface, experts through its
ExpertsInterface, norms, RoPE, projections and routers by the forwards of their layers; weights stay the model's.
Nothing is patched until `use` is called. What the operators lack is found by `use`, and the model's own implementation
serves it; a call that turns out otherwise (padding on the right, a mask of the caller's, dropout) is refused with
moetune.Unsupported.
"""

import functools
import warnings
from typing import Any, Callable, NamedTuple, Optional

import moetune.torch as operators  # which says so if there is no PyTorch

try:
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
except ImportError as missing:
    raise ImportError("moetune.transformers needs transformers 5.17 or newer: pip install 'moetune[transformers]' "
                      f"({missing})", name="transformers") from None

import torch

import moetune
from moetune import _attend, _families, _linear, _routing, _small

__all__ = ["Served", "stop", "use"]

_NAME = "moetune"
_KEPT = "_moetune_before"  # on a model: what stop() restores
_UNPADDED = "_moetune_unpadded"  # on a cache: whether no sequence of it has padding


class Served(NamedTuple):
    """What runs by moetune: None, or why the model's own implementation runs instead."""

    attention: Optional[str]
    experts: Optional[str]
    norms: Optional[str]
    rope: Optional[str]  # with the norms of heads, and the product in front
    projections: Optional[str]  # of few rows; with routers' and the head
    routing: Optional[str]  # which experts


def use(model: Any, *, budget: int = 1) -> Served:
    """Makes a model run its attention, experts, routers, norms, RoPE and projections by moetune, as far as the
    operators can. Twice is as once.

    A family that nothing is stored of is first searched, by the tool, into the user's cache: `budget` trials at a few
    sizes, 1 for the space's default alone, 0 to leave it to the model. One warning names the commands that tune these
    families, and another what the model itself serves. The weights of q, k and v become parts of one matrix.
    """
    if getattr(model, "get_experts_implementation", None) is None:
        raise TypeError(f"a model of transformers 5 is expected, not {type(model).__name__}")
    _small.restore(model)
    attention = _why_not(model, _families.attention_of, budget)
    experts = _why_not(model, _families.experts_of, budget)
    rope = _small.OWN_ATTENTION if attention is not None else _why_not(model, _small.rope_of, budget)
    fused = _small.attention_layers(model) if rope is None else []
    norms = _why_not(model, lambda model: _small.norms_of(model, fused), budget)
    projections = _why_not(model, lambda model: _linear.families_of(model, fused), budget)
    routing = _why_not(model, _routing.families_of, budget)
    before = getattr(model, _KEPT, None)
    if before is None:
        before = model.config._attn_implementation, model.get_experts_implementation()
        setattr(model, _KEPT, before)
    if attention is None:
        model.set_attn_implementation(_NAME)
        if "prepare_inputs_for_generation" not in vars(model):
            model.prepare_inputs_for_generation = _without_masks(model.prepare_inputs_for_generation)
    if experts is None:
        model.set_experts_implementation(_NAME)
    if norms is None:
        _small.serve_norms(_small.norm_layers(model, fused))
    multiply = _linear.multiply if projections is None else torch.nn.functional.linear
    if None in (projections, routing):
        _routing.serve(_routing.routers(model), multiply, at_once=routing is None, in_fp32=experts is None)
    if projections is None:
        _linear.serve(_linear.layers_of(model, fused))
    _small.serve_rope(fused, multiply)
    served = Served(attention, experts, norms, rope, projections, routing)
    for part, reason in served._asdict().items():
        if reason not in (None, _families.NO_EXPERTS, _small.OWN_ATTENTION):
            warnings.warn(f"moetune: the model's own {part} serves: {reason}", stacklevel=2)
    return served


def stop(model: Any) -> None:
    """Lets the model run as it did before use()."""
    before = getattr(model, _KEPT, None)
    if before is None:
        return
    attention, experts = before
    model.set_attn_implementation(attention)
    model.set_experts_implementation(experts)
    vars(model).pop("prepare_inputs_for_generation", None)
    _small.restore(model)
    delattr(model, _KEPT)


def _why_not(model: Any, families_of: Callable[[Any], list[_families.Wanted]], budget: int) -> Optional[str]:
    try:
        wanted = families_of(model)
    except moetune.Unsupported as reason:
        return str(reason)
    return _families.open_all(wanted, model.device, budget)


def _is_used(model: Any) -> bool:
    return bool(model.config.get_text_config()._attn_implementation == _NAME)


def _without_masks(prepare: Any) -> Any:
    """generate() states a mask even if nothing is padded. Whether so is read once a prompt, and kept with the cache."""
    @functools.wraps(prepare)
    def run(*given: Any, **options: Any) -> Any:
        inputs = prepare(*given, **options)
        mask = options.get("attention_mask")
        cache = next((each for name in _small.CACHE_NAMES if (each := inputs.get(name)) is not None), None)
        if cache is None or not isinstance(mask, torch.Tensor) or mask.ndim != 2 or not _is_used(prepare.__self__):
            return inputs
        tokens = inputs.get("input_ids") if inputs.get("inputs_embeds") is None else inputs["inputs_embeds"]
        if tokens.shape[1] > 1 or not hasattr(cache, _UNPADDED):
            setattr(cache, _UNPADDED, bool(mask.all()))
        if getattr(cache, _UNPADDED) and tokens.shape[1] == 1:
            made = inputs["attention_mask"]
            inputs["attention_mask"] = ({name: _attend.without_begins(each) for name, each in made.items()}
                                        if isinstance(made, dict) else _attend.without_begins(made))
        return inputs
    return run


def _experts(self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor,
             top_k_weights: torch.Tensor) -> torch.Tensor:
    up, down = self.gate_up_proj, self.down_proj
    if not self.is_transposed:
        return operators.moe_experts_by_ids(hidden_states, top_k_index, top_k_weights, up, down)
    return operators.moe_experts_by_ids(hidden_states, top_k_index, top_k_weights, up.transpose(1, 2),
                                        down.transpose(1, 2), gate_up_bias=self.gate_up_proj_bias,
                                        down_bias=self.down_proj_bias, activation="swigluoai")


ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend.attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, _attend.spans)
ALL_EXPERTS_FUNCTIONS.register(_NAME, _experts)
