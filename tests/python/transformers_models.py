"""Small models of transformers with random weights, whose families are in tests/python/problems.txt."""

import contextlib
from typing import Any, Iterator

from torch_support import DEVICE, REASON

WHY_NOT = REASON
if not WHY_NOT:
    import torch

    try:
        import transformers

        import moetune.transformers
    except ImportError as missing:
        WHY_NOT = str(missing)

SHAPE = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 199,
         "num_hidden_layers": 2, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": None}
ROUTED = {"num_experts_per_tok": 2}
KINDS: dict[str, dict[str, Any]] = {
    "Llama": {"intermediate_size": 128},
    "Qwen3Moe": {"num_experts": 16, "moe_intermediate_size": 128, "norm_topk_prob": True, **ROUTED},
    "Mixtral": {"num_local_experts": 16, "intermediate_size": 128, **ROUTED},
    "Mistral": {"intermediate_size": 128, "sliding_window": 30},
    "Qwen2": {"intermediate_size": 128},
    "Qwen2Moe": {"num_experts": 16, "moe_intermediate_size": 128, "shared_expert_intermediate_size": 128, **ROUTED},
    "Qwen3": {"intermediate_size": 128},
    "Gemma2": {"intermediate_size": 128, "attn_logit_softcapping": 30.0},
    "DeepseekV3": {"intermediate_size": 128, "moe_intermediate_size": 128, "n_routed_experts": 16, "n_group": 1,
                   "topk_group": 1, "q_lora_rank": 32, "kv_lora_rank": 32, "first_k_dense_replace": 0, **ROUTED},
    "GptOss": {"num_local_experts": 16, "intermediate_size": 96, "sliding_window": 30, **ROUTED},
}


def make(kind: str, dtype: Any = None, **changed: Any) -> Any:
    """A model in bf16 whose logits differ clearly: weights are larger than a new model's."""
    torch.manual_seed(7)
    config = getattr(transformers, kind + "Config")(**{**SHAPE, **KINDS[kind], "initializer_range": 0.06, **changed})
    model = getattr(transformers, kind + "ForCausalLM")(config)
    for name, weights in model.named_parameters():
        if "bias" in name or "sinks" in name:
            torch.nn.init.normal_(weights, std=0.3)
    return model.to(dtype or torch.bfloat16).to(DEVICE).eval()


def prompt(batch: int, tokens: int) -> Any:
    generator = torch.Generator().manual_seed(batch * 1000 + tokens)
    return torch.randint(1, SHAPE["vocab_size"], (batch, tokens), generator=generator).to(DEVICE)


@contextlib.contextmanager
def same_experts(first: Any, then: Any) -> Iterator[None]:
    """The calls of one model choose experts, those of the other get the same: rounding alone would turn close choices,
    and other experts make other logits.
    """
    hooks: list[Any] = []
    chosen: dict[str, list[Any]] = {}

    def routers(model: Any) -> list[tuple[str, Any]]:
        return [each for each in model.named_modules() if type(each[1]).__name__.endswith("TopKRouter")]

    for name, router in routers(first):
        outputs = chosen.setdefault(name, [])
        hooks.append(router.register_forward_hook(lambda _, __, made, outputs=outputs: outputs.append(made)))
    for name, router in routers(then):
        outputs = chosen[name]
        hooks.append(router.register_forward_hook(lambda _, __, ___, outputs=outputs: outputs.pop(0)))
    try:
        yield
        assert not any(chosen.values())
    finally:
        for hook in hooks:
            hook.remove()


def cache_of(model: Any, is_static: bool, tokens: int) -> Any:
    return (transformers.StaticCache(config=model.config, max_cache_len=tokens) if is_static else
            transformers.DynamicCache(config=model.config))


def steps(model: Any, ids: Any, is_static: bool, prefill: int, mask: Any = None) -> Any:
    """Logits of a prompt's last token and of each token behind it, one a call: [calls, batch, vocabulary]."""
    cache, made = cache_of(model, is_static, ids.shape[1] + 3), []
    with torch.inference_mode():
        for begin, end in ((0, prefill), *((at, at + 1) for at in range(prefill, ids.shape[1]))):
            options = {} if mask is None else {
                "attention_mask": mask[:, :end], "position_ids": (mask.cumsum(1) - 1).clamp(min=0)[:, begin:end]}
            made.append(model(ids[:, begin:end], past_key_values=cache, **options).logits[:, -1].float())
    return torch.stack(made)


def disagreements(made: Any, right: Any) -> tuple[float, int]:
    """The largest difference over the largest logit; and how many rows have another top one, though their own margin
    exceeds four times that difference.
    """
    error = (made - right).abs().max()
    best, second = right.topk(2, dim=-1).values.unbind(-1)
    other = (made.argmax(-1) != right.argmax(-1)) & (best - second > 4 * error)
    return float(error / right.abs().max()), int(other.sum())
