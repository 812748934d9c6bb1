"""moetune in SGLang, inert unless chosen.

    python -m sglang.launch_server --model-path MODEL --attention-backend moetune --page-size 64 \\
        --moe-runner-backend moetune

SGLang finds `register` by the entry point sglang.srt.plugins, and imports the parts that are chosen.
"""

import logging
from importlib import import_module
from typing import Any

NAME = "moetune"
_LOG = logging.getLogger("moetune")
_METHOD = "sglang.srt.layers.quantization.unquant.UnquantizedFusedMoEMethod"


def register() -> None:
    """Makes what may be chosen known to SGLang, in each of its processes; again is harmless. Never raises: an SGLang
    that it does not fit must serve as if moetune were not there."""
    try:
        from sglang.srt.arg_groups.resolution_hooks import register_resolution_hook
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.layers.moe.moe_runner import register_moe_runner_core
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType
        from sglang.srt.server_args import add_attention_backend_choices, add_moe_runner_backend_choices

        if NAME in ATTENTION_BACKENDS:
            return
        ATTENTION_BACKENDS[NAME] = lambda runner: import_module("moetune.sglang.attention").create(runner)
        add_attention_backend_choices([NAME])
        HookRegistry.register(f"{_METHOD}.create_moe_runner", _choose_runner, HookType.AFTER)
        register_resolution_hook("handle_model_specific_adjustments")(_leave_quantized)
        register_moe_runner_core(NAME, lambda config: import_module("moetune.sglang.experts").Core(config))
        add_moe_runner_backend_choices([NAME])  # last: without it nobody can choose what the lines above registered
    except Exception as error:
        _LOG.info("moetune does not fit this SGLang, which serves without it: %s", error)


def _choose_runner(made: Any, method: Any, layer: Any, moe_runner_config: Any) -> None:
    """Behind create_moe_runner, which takes Triton's runner for a name that it does not know."""
    from sglang.srt.layers.moe.utils import get_moe_runner_backend

    if get_moe_runner_backend().value == NAME:
        import_module("moetune.sglang.experts").choose(method, moe_runner_config)


def _leave_quantized(server_args: Any, previous: Any) -> None:
    """Before SGLang chooses by the model: a quantized one gets the runner that it has without moetune, since its
    methods break on a name that they do not know. So does the draft of speculative decoding, unless it is named."""
    from sglang.srt.arg_groups.overrides import declare_resolution, model_config_of, resolving_view

    config = resolving_view(server_args)
    if config.moe_runner_backend == NAME:
        quantization = config.quantization or model_config_of(server_args).quantization
        changed = {"speculative_moe_runner_backend": config.speculative_moe_runner_backend or "auto"}
        if quantization:
            changed = {"moe_runner_backend": "auto"}
            _LOG.warning("moetune: SGLang's own experts serve: the model is quantized (%s); unquantized experts in "
                         "bf16 and fp16 are served", quantization)
        declare_resolution(server_args, NAME, **changed)
    previous(server_args)
