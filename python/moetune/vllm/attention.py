"""The attention backend MOETUNE of vLLM: steps by decode_attention, all else by prefill_attention, over its pages."""

import inspect
from typing import Any, ClassVar, Optional

import torch
from vllm.config import get_current_vllm_config_or_none
from vllm.platforms import current_platform
from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder,
                                       AttentionType)
from vllm.v1.attention.backends.utils import split_decodes_and_prefills
from vllm.v1.attention.selector import AttentionSelectorConfig

import moetune.torch as operators
from moetune import Unsupported, _families, _servers
from moetune.vllm import NAME

_NARROW = ("fp8", "fp8_e4m3")  # of vLLM's types of KV caches


class Backend(AttentionBackend):  # type: ignore[misc]
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", "float16", "bfloat16", *_NARROW]
    forward_includes_kv_cache_update: bool = False
    pages: ClassVar[tuple[int, ...]] = _servers.PAGES  # the one of the first layers, once that is decided
    verifies: ClassVar[bool] = True  # whether decode_attention serves a draft's verification in all layers so far

    @staticmethod
    def get_name() -> str:
        return NAME

    @staticmethod
    def get_impl_cls() -> type["Implementation"]:
        return Implementation

    @staticmethod
    def get_builder_cls() -> type["Builder"]:
        return Builder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:
        return sorted(Backend.pages)

    @classmethod
    def get_preferred_block_size(cls, default_block_size: int) -> int:
        return Backend.pages[0]

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_device_cpu_query_lens_mismatch(cls) -> bool:
        return False

    @classmethod
    def validate_configuration(cls, *given: Any, **named: Any) -> list[str]:
        """Why a layer cannot be served; empty if it can. Searches for the defaults of families that nothing is stored
        of, once for each kind of layer."""
        reasons: list[str] = super().validate_configuration(*given, **named)
        config = get_current_vllm_config_or_none()
        if reasons or config is None or config.model_config is None:
            return reasons
        asked = inspect.signature(super().validate_configuration).bind(*given, **named).arguments
        model, parallel = config.model_config, config.parallel_config
        dtype, kv_dtype, block = asked["dtype"], asked["kv_cache_dtype"], asked["block_size"]
        try:
            softcap = _families.softcap_of(getattr(model.hf_text_config, "attn_logit_softcapping", None))
        except Unsupported as unsupported:
            return [str(unsupported)]
        if kv_dtype in ("float16", "bfloat16") and kv_dtype != str(dtype).removeprefix("torch."):
            return [f"keys and values in {kv_dtype} for a model in {str(dtype).removeprefix('torch.')}"]
        heads = _servers.Heads(model.get_num_attention_heads(parallel), model.get_num_kv_heads(parallel),
                               asked["head_size"], dtype,
                               int(model.get_sliding_window() or 0) if asked.get("has_sliding_window") else 0,
                               asked["has_sink"], kv_dtype in _NARROW, softcap)
        pages = tuple(page for page in Backend.pages if block is None or block % page == 0)
        pages = pages if block is None else (max(pages),)
        page, reason = _servers.page_for(heads, pages, _verified(config))
        if reason and _verified(config) > 1:
            why_not, (page, reason) = reason, _servers.page_for(heads, pages)
            if reason is None:
                _servers.LOG.warning("moetune: drafts are verified by prefill_attention, outside of full graphs: %s",
                                     why_not)
                Backend.verifies = False
        Backend.pages = Backend.pages if reason else (page,)
        return [reason] if reason else []


def _verified(config: Any) -> int:
    """New tokens of a sequence that decode_attention serves: one, and what is drafted. One where vLLM changes how many
    are drafted from step to step, and captures graphs for each number."""
    drafts = getattr(config, "speculative_config", None)
    verified = 1 + int(getattr(drafts, "num_speculative_tokens", None) or 0)
    is_fixed = getattr(drafts, "num_speculative_tokens_per_batch_size", None) is None
    return verified if Backend.verifies and is_fixed and verified <= _servers.MOST_VERIFIED else 1


class Choice(Backend):
    """What the name MOETUNE stands for: Backend for layers that it serves, vLLM's own choice for others. A platform
    validates, and then asks for the class that it is to import."""

    _chosen: ClassVar[tuple[str, str]] = (Backend.__module__, Backend.__qualname__)

    @classmethod
    def validate_configuration(cls, *given: Any, **named: Any) -> list[str]:
        reasons = super().validate_configuration(*given, **named)
        cls._chosen = Backend.full_cls_name()
        if reasons:
            own = {name: value for name, value in named.items() if name in AttentionSelectorConfig._fields}
            path = current_platform.get_attn_backend_cls(None, attn_selector_config=AttentionSelectorConfig(**own))
            cls._chosen = tuple(path.rsplit(".", 1))
            _servers.LOG.warning("moetune: vLLM's own attention (%s) serves layers of head size %s: %s",
                                 cls._chosen[1], own.get("head_size"), "; ".join(reasons))
        return []

    @classmethod
    def full_cls_name(cls) -> tuple[str, str]:
        return cls._chosen


class Builder(AttentionMetadataBuilder[_servers.Batch]):  # type: ignore[misc]
    """Full graphs hold steps of one new token each, or of as many as a draft's verification has. The launches of all
    else depend on lengths that only the host knows, so vLLM runs them between its piecewise graphs."""

    reorder_batch_threshold: Optional[int] = 1

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> Any:
        return (AttentionCGSupport.UNIFORM_BATCH if _verified(vllm_config) > 1 else
                AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE)

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        scheduler, verified = vllm_config.scheduler_config, _verified(vllm_config)
        self.reorder_batch_threshold = verified
        operators.prepare(max_batch=scheduler.max_num_seqs, max_context=vllm_config.model_config.max_model_len,
                          max_tokens=scheduler.max_num_batched_tokens)
        layers = vllm_config.compilation_config.static_forward_context
        for heads in {layers[name].impl.heads for name in layer_names}:
            reason = _servers.page_for(heads, (kv_cache_spec.block_size,), verified)[1]
            if reason is not None:
                raise Unsupported(f"a layer of {layer_names[0]}'s kind, with pages of {kv_cache_spec.block_size}: "
                                  f"{reason}. Leave out --attention-backend {NAME}")
            _servers.warm(heads, kv_cache_spec.block_size, "HND", verified)

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> _servers.Batch:
        batch = self.build(0, common_attn_metadata)
        if batch.q_offsets is not None:  # a graph would read it where it lay once
            raise Unsupported("full CUDA graphs of other batches than steps; choose --compilation-config "
                              """'{"cudagraph_mode": "PIECEWISE"}'""")
        return batch

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> _servers.Batch:
        common, sequences = common_attn_metadata, common_attn_metadata.num_reqs
        verified, each = self.reorder_batch_threshold or 1, 1
        steps, others, step_tokens, _ = split_decodes_and_prefills(common, decode_threshold=verified,
                                                                   require_uniform=True)
        if verified > 1 and steps:
            each = int(common.query_start_loc_cpu[1])  # of the first sequence, which the other steps are like
            if each not in (1, verified):  # some of a draft: a chunk of a prompt like others
                steps, others, step_tokens, each = 0, sequences, 0, 1
        offsets = common.query_start_loc[steps:sequences + 1] - step_tokens if others else None
        return _servers.Batch(min(steps, step_tokens // each), common.num_actual_tokens, offsets,
                              common.block_table_tensor[:sequences], common.seq_lens[:sequences],
                              common.max_query_len, common.max_seq_len, each)


class Implementation(AttentionImpl[_servers.Batch]):  # type: ignore[misc]
    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: Optional[int] = None,
                 alibi_slopes: Optional[list[float]] = None, sliding_window: Optional[int] = None,
                 kv_cache_dtype: str = "auto", logits_soft_cap: Optional[float] = None,
                 attn_type: str = AttentionType.DECODER, kv_sharing_target_layer_name: Optional[str] = None,
                 sinks: Optional[torch.Tensor] = None) -> None:
        if alibi_slopes is not None or attn_type != AttentionType.DECODER:
            raise Unsupported(f"ALiBi and attention of encoders are not served; leave out --attention-backend {NAME}")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads, self.kv_cache_dtype = num_kv_heads or num_heads, kv_cache_dtype
        self.sinks = sinks
        self.heads = _servers.Heads(num_heads, self.num_kv_heads, head_size, torch.get_default_dtype(),
                                    sliding_window or 0, sinks is not None, kv_cache_dtype in _NARROW,
                                    _families.softcap_of(logits_soft_cap))
        self._options: dict[str, Any] = {"window": self.heads.window, "softcap": self.heads.softcap}

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        if self.sinks is not None:
            self._options["sinks"] = self.sinks.detach().float()

    def _keys_and_values(self, kv_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[pages, heads, page, dim] of a cache [pages, heads, page, 2 * dim], in whatever order it lies."""
        if self.heads.narrow and kv_cache.dtype == torch.uint8:
            kv_cache = kv_cache.view(torch.float8_e4m3fn)
        k, v = kv_cache.split(self.head_size, dim=-1)
        return k, v

    def forward(self, layer: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor,
                attn_metadata: Optional[_servers.Batch], output: torch.Tensor,
                output_scale: Optional[torch.Tensor] = None,
                output_block_scale: Optional[torch.Tensor] = None) -> torch.Tensor:
        if output_scale is not None or output_block_scale is not None:
            raise Unsupported("an output in another type is not served")
        if attn_metadata is None:  # a run that measures memory
            return output.fill_(0)
        options = self._options
        if self.heads.narrow:
            options = {**options, "k_scale": layer._k_scale.view(-1), "v_scale": layer._v_scale.view(-1)}
        _servers.attend(attn_metadata, query, *self._keys_and_values(kv_cache), output, self.scale, "HND", **options)
        return output

    def do_kv_cache_update(self, layer: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor,
                           slot_mapping: torch.Tensor) -> None:
        from vllm import _custom_ops

        k, v = (each.transpose(1, 2) for each in self._keys_and_values(kv_cache))
        _custom_ops.reshape_and_cache_flash(key, value, k, v, slot_mapping, self.kv_cache_dtype, layer._k_scale,
                                            layer._v_scale)
