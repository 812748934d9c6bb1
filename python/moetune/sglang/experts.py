"""Unquantized experts of SGLang by moetune's moe_experts, as a runner of its MoE layers."""

from typing import Any, Optional

from sglang.srt.layers.moe.moe_runner import MoeRunner
from sglang.srt.layers.moe.moe_runner.base import DispatchMoeRunnerCore
from sglang.srt.layers.moe.token_dispatcher.standard import StandardCombineInput
from sglang.srt.layers.moe.utils import get_moe_a2a_backend, get_moe_runner_backend, resolve_moe_runner_backend
from sglang.srt.runtime_context import get_lora

import moetune.torch as operators
from moetune import Unsupported, _servers
from moetune.sglang import NAME


def choose(method: Any, config: Any) -> None:
    """Gives a layer's method the runner of Core if that serves it; else says why the one that it has does."""
    reason = _why_not(method, config)
    if reason is None:
        method.runner = MoeRunner(get_moe_runner_backend(), config)
    else:
        _servers.LOG.warning("moetune: SGLang's own experts serve layer %s: %s", config.layer_id, reason)


def _why_not(method: Any, config: Any) -> Optional[str]:
    limits = (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)
    if config.activation != "silu" or not config.is_gated or method.with_bias or limits != (None, None, None):
        return f"activation {config.activation}, with a limit, biases or without a gate: plain SwiGLU is served"
    if config.apply_router_weight_on_input or config.no_combine or get_lora().enable_lora or get_lora().lora_paths:
        return "weights on the input, results without a sum, and LoRA are not served"
    if not get_moe_a2a_backend().is_none():
        return "tokens that are dispatched to other GPUs are not served"
    return _servers.experts_why_not(config.hidden_size, config.num_local_experts, config.top_k,
                                    config.intermediate_size_per_partition, config.params_dtype)


class Core(DispatchMoeRunnerCore):  # type: ignore[misc]
    @property
    def runner_backend(self) -> Any:
        return resolve_moe_runner_backend(NAME)

    def run_from_dispatch(self, dispatch_output: Any, quant_info: Any, runner_config: Any, hooks: Any = None) -> Any:
        hidden, chosen, dtype = dispatch_output.hidden_states, dispatch_output.topk_output, quant_info.w13_weight.dtype
        if dtype != hidden.dtype:
            raise Unsupported(f"experts' weights in {dtype} for tokens in {hidden.dtype}: only unquantized experts are "
                              "served; leave out --moe-runner-backend moetune")
        weights, factor = chosen.topk_weights, runner_config.routed_scaling_factor
        if factor not in (None, 1.0):
            weights = weights * factor
        out = operators.moe_experts_by_ids(hidden, chosen.topk_ids, weights, quant_info.w13_weight,
                                           quant_info.w2_weight)
        return StandardCombineInput(hidden_states=out)
