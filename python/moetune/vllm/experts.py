"""Unquantized experts of vLLM by moetune's moe_experts, from the ids that vLLM's router chose."""

from typing import Any, Optional

import torch
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

import moetune.torch as operators
from moetune import _servers


def register() -> None:
    """Makes vLLM construct Experts where it would construct its UnquantizedFusedMoEMethod. Quantized layers have
    other methods, which stay vLLM's."""
    if not isinstance(UnquantizedFusedMoEMethod.__new__(UnquantizedFusedMoEMethod), Experts):
        UnquantizedFusedMoEMethod.register_oot(Experts)


class Experts(UnquantizedFusedMoEMethod):  # type: ignore[misc]
    """vLLM's method, which stays ready, but for calls of layers that moe_experts serves. Weights stay as vLLM's
    Triton kernel has them: whether a layer is served is decided once they are loaded."""

    def __init__(self, moe: Any) -> None:
        super().__init__(moe)
        self._serves = False

    def process_weights_after_loading(self, layer: Any) -> None:
        super().process_weights_after_loading(layer)
        reason = self._why_not(layer)
        self._serves = reason is None
        if reason is not None:
            _servers.LOG.warning("moetune: vLLM's own experts serve %s: %s", getattr(layer, "layer_name", "a layer"),
                                 reason)

    def _why_not(self, layer: Any) -> Optional[str]:
        backend, activation = self.unquantized_backend.name, getattr(layer.activation, "value", layer.activation)
        if backend != "TRITON":
            return f"{backend} reorders their weights; choose --moe-backend triton"
        if activation != "silu" or self.moe.has_bias or getattr(layer, "swiglu_limit", None) is not None:
            return f"activation {activation}{', with biases or a limit' * (activation == 'silu')}: silu is served"
        if layer.apply_router_weight_on_input or self.moe.is_lora_enabled:
            return "weights on the input, and LoRA, are not served"
        if self.moe.moe_parallel_config.dp_size > 1 or self.moe.moe_parallel_config.use_all2all_kernels:
            return "tokens that come from other GPUs' batches (data parallelism) are not served"
        count, hidden, intermediate = layer.w2_weight.shape
        return _servers.experts_why_not(hidden, count, layer.top_k, intermediate, layer.w2_weight.dtype,
                                        layer.expert_map is not None)

    @property
    def topk_indices_dtype(self) -> Optional[torch.dtype]:
        dtype: Optional[torch.dtype] = torch.int32 if self._serves else super().topk_indices_dtype
        return dtype

    def apply(self, layer: Any, x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor,
              shared_experts: Any, shared_experts_input: Optional[torch.Tensor]) -> Any:
        """Of the routed experts alone: shared ones run by vLLM's runner, before or beside."""
        if not self._serves:
            return super().apply(layer, x, topk_weights, topk_ids, shared_experts, shared_experts_input)
        return operators.moe_experts_by_ids(x, topk_ids, topk_weights, layer.w13_weight, layer.w2_weight,
                                            layer.expert_map)
