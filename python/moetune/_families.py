"""Which families a model's layers open, and whether something is stored that serves them."""

import subprocess
import warnings
from typing import Any, NamedTuple, Optional

import torch

import moetune
from moetune import _serving, _tool

NO_EXPERTS = "the model has no experts behind transformers' ExpertsInterface"

_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_SWIGLU_ALPHA, _SWIGLU_LIMIT = 1.702, 7.0  # of moe_experts' swigluoai


class Wanted(NamedTuple):
    """A family; problems at which its defaults are stored if nothing is; and the range that tunes all of it."""

    kernel: str
    facts: str
    sizes: tuple[str, ...]
    over: str
    others: str  # dimensions of a problem that are no facts of the family

    def command(self, sizes: str) -> list[str]:
        return ["search", self.kernel, "--problem", ",".join(filter(None, (sizes, self.others, self.problem_facts())))]

    def problem_facts(self) -> str:
        """Without the group, which a problem has as heads."""
        return ",".join(fact for fact in self.facts.split(",") if not fact.startswith("group="))

    def tuning(self) -> str:
        return " ".join(("moetune", *self.command(""), "--over", self.over))


def facts_of(**facts: Any) -> str:
    """"name=value" of each that is not None."""
    return ",".join(f"{name}={value}" for name, value in facts.items() if value is not None)


def is_changed(layer: Any) -> bool:
    """Whether something else runs in a module's call, or around it."""
    return "forward" in vars(layer) or bool(layer._forward_hooks) or bool(layer._forward_pre_hooks)


def dtype_of(model: Any) -> str:
    """"bf16" or "fp16". Raises Unsupported for another, and for a model that is not on a GPU."""
    if model.device.type != "cuda" and not _serving.host_is_device:
        raise moetune.Unsupported(f"the model is on {model.device}; it must be on a GPU")
    if model.dtype not in _DTYPES:
        raise moetune.Unsupported(f"the model is in {str(model.dtype).removeprefix('torch.')}; bf16 and fp16 are served")
    return _DTYPES[model.dtype]


def softcap_of(value: Optional[float]) -> int:
    """A model's bound of logits as the operators take it: 0 for none. Raises Unsupported for one that is compiled for
    nobody."""
    cap = value or 0
    if cap != int(cap) or not 0 <= cap <= 100:
        raise moetune.Unsupported(f"a softcap of {cap} is not served: it must be a whole number from 0 to 100")
    return int(cap)


def attention(q_heads: int, kv_heads: int, head_dim: int, page: int, dtype: str, window: int = 0,
              sinks: bool = False, kv_dtype: Optional[str] = None, softcap: int = 0, verified: int = 1) -> list[Wanted]:
    """The families of attention layers: of steps of one new token, of `verified` ones if that is more, of all else."""
    others = f"q_heads={q_heads},kv_heads={kv_heads}"
    facts = facts_of(group=q_heads // kv_heads, head_dim=head_dim, page=page, dtype=dtype, window=window or None,
                     sinks="learned" if sinks else None, kv_dtype=kv_dtype, softcap=softcap or None)
    steps = [facts] if verified == 1 else [facts, f"{facts},q_len={verified}"]
    return [*(Wanted("decode_attention", each, ("batch=1,context=4096", "batch=32,context=4096"),
                     "batch=1..128,context=512..32k", others) for each in steps),
            Wanted("prefill_attention", facts,
                   ("batch=1,seqlen_q=2048,seqlen_kv=2048", "batch=8,seqlen_q=1,seqlen_kv=2048"),
                   "batch=1..64,seqlen_q=1..8k,seqlen_kv=512..8k", others)]


def experts(hidden: int, count: int, top_k: int, intermediate: int, dtype: str, ids: str,
            activation: Optional[str] = None, local: bool = False, layout: Optional[str] = None) -> list[Wanted]:
    """The families of a layer's experts, of which `local` says that others are elsewhere."""
    layer = facts_of(hidden=hidden, experts=count, top_k=top_k, intermediate=intermediate, dtype=dtype,
                     layout=layout, activation=activation)
    plan = facts_of(experts=count, top_k=top_k, ids=ids, align=1, map="local" if local else None)
    return [Wanted("route_plan", plan, ("tokens=64",), "tokens=1..8k", ""),
            Wanted("moe_experts", layer, ("tokens=1", "tokens=64", "tokens=2048"), "tokens=1..8k", "")]


def _check_attention(model: Any, config: Any, layers: list[Any]) -> None:
    if any(getattr(layer, name, None) is not None for layer in layers for name in ("v_head_dim", "kv_lora_rank")):
        raise moetune.Unsupported("attention over a latent is not served")
    if (not layers or not getattr(model, "_supports_attention_backend", False) or
            not all(hasattr(layer, "head_dim") for layer in layers)):
        raise moetune.Unsupported("its attention is not behind transformers' AttentionInterface")
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        raise moetune.Unsupported(f"there are layers of {', '.join(sorted(kinds))}")
    if getattr(config, "is_encoder_decoder", False) or not getattr(config, "is_causal", True) or any(
            not getattr(layer, "is_causal", True) for layer in layers):
        raise moetune.Unsupported("its attention is not causal")
    if getattr(config, "attention_chunk_size", None) is not None:
        raise moetune.Unsupported("attention_chunk_size is not served")


def attention_of(model: Any) -> list[Wanted]:
    """The families of its attention. Raises Unsupported if that is none the operators know."""
    config, dtype = model.config.get_text_config(), dtype_of(model)
    layers = [layer for layer in model.modules() if hasattr(layer, "num_key_value_groups")]
    _check_attention(model, config, layers)
    softcap = softcap_of(getattr(config, "attn_logit_softcapping", None))
    wanted = []
    for group, head_dim, window, sinks in sorted(
            {(layer.num_key_value_groups, layer.head_dim, window, hasattr(layer, "sinks")) for layer in layers
             for window in (0, getattr(layer, "sliding_window", getattr(config, "sliding_window", None)) or 0)}):
        heads = config.num_key_value_heads
        wanted += attention(group * heads, heads, head_dim, 0, dtype, window, sinks, softcap=softcap)
    return wanted


def expert_layers(model: Any) -> list[Any]:
    """Its modules behind the experts' interface."""
    return [layer for layer in model.modules() if hasattr(layer, "is_transposed") and hasattr(layer, "down_proj")]


def _why_not(layer: Any) -> Optional[str]:
    """Why moe_experts cannot be the layer; None if it can."""
    if not layer.has_gate or getattr(layer, "has_post_expert_norm", False):
        return "experts without a gate, or with a norm behind them, are not served"
    if layer.has_bias:
        known = (layer.is_transposed and not layer.is_concatenated and
                 getattr(layer, "alpha", None) == _SWIGLU_ALPHA and getattr(layer, "limit", None) == _SWIGLU_LIMIT)
        return None if known else "experts with biases are served with gpt-oss' activation and layout alone"
    if layer.is_transposed or not layer.is_concatenated:
        return "experts without biases are served with weights [experts, out, in], gate before up"
    gate = type(layer)._apply_gate
    if gate.__qualname__ != "_default_apply_gate" or "silu" not in type(layer.act_fn).__name__.lower():
        return f"their activation is not SiLU ({type(layer.act_fn).__name__})"
    return None


def experts_of(model: Any) -> list[Wanted]:
    """The families of its experts. Raises Unsupported if moe_experts cannot be them."""
    layers = expert_layers(model)
    if not layers:
        raise moetune.Unsupported(NO_EXPERTS)
    top_k, dtype = getattr(model.config.get_text_config(), "num_experts_per_tok", None), dtype_of(model)
    if not isinstance(top_k, int):
        raise moetune.Unsupported("its configuration has no num_experts_per_tok")
    reasons = list(filter(None, map(_why_not, layers)))
    if reasons:
        raise moetune.Unsupported(reasons[0])
    wanted = []
    for count, wide, narrow, has_bias, is_contiguous in sorted({(*layer.down_proj.shape, layer.has_bias,
                                                        layer.down_proj.stride(-1) == 1) for layer in layers}):
        hidden, inner = (narrow, wide) if has_bias else (wide, narrow)
        wanted += experts(hidden, count, top_k, inner, dtype, "i64", "swigluoai" if has_bias else None,
                          layout="n_major" if has_bias and is_contiguous else None)
    return wanted


def _search(wanted: Wanted, device: int, budget: int) -> None:
    """Lets the tool store winners of a family in the user's cache; it says on stderr how far it is, and what failed."""
    for sizes in wanted.sizes if _tool.TOOL.exists() else ():
        subprocess.run([str(_tool.TOOL), *wanted.command(sizes), "--budget", str(budget), "--device", f"cuda:{device}"],
                       env=_tool.environment(), stdout=subprocess.DEVNULL, check=False)


def open_all(wanted: list[Wanted], device: Any, budget: int) -> Optional[str]:
    """None once all families serve, those that nothing was stored of by what a short search found; or why not."""
    searched = []
    for each in wanted:
        index = device.index or 0
        reason = _serving.why_not(index, each.kernel, each.facts)
        if isinstance(reason, moetune.NotTuned) and budget > 0:
            _search(each, index, budget)
            reason = _serving.why_not(index, each.kernel, each.facts)
            searched.append(each.tuning())
        if isinstance(reason, moetune.NotTuned):
            return f"nothing is tuned for {each.kernel} {each.facts}; run: {each.tuning()}"
        if reason is not None:
            return str(reason)
    if searched:
        warnings.warn("moetune: families that nothing was tuned of are served by "
                      f"{'their defaults' if budget == 1 else 'a short search'}; to tune them: {'; '.join(searched)}",
                      stacklevel=4)
    return None
