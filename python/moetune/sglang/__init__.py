"""moetune in SGLang, inert unless chosen.

    python -m sglang.launch_server --model-path MODEL --attention-backend moetune --page-size 64 \\
        --moe-runner-backend moetune

SGLang finds `register` by the entry point sglang.srt.plugins, and imports the parts that are chosen.
"""

import logging
from importlib import import_module
from typing import Any

NAME = "moetune"
_METHODS = "sglang.srt.layers.quantization."


def register() -> None:
    """Makes what may be chosen known to SGLang, in each of its processes; again is harmless. Never raises: an SGLang
    that it does not fit must serve as if moetune were not there."""
    try:
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.layers.moe.moe_runner import register_moe_runner_core
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType
        from sglang.srt.server_args import add_attention_backend_choices, add_moe_runner_backend_choices

        if NAME in ATTENTION_BACKENDS:
            return
        register_moe_runner_core(NAME, lambda config: import_module("moetune.sglang.experts").Core(config))
        for method in ("unquant.UnquantizedFusedMoEMethod", "fp8.Fp8MoEMethod", "mxfp4.Mxfp4MoEMethod"):
            HookRegistry.register(f"{_METHODS}{method}.create_moe_runner", _choose_runner, HookType.AFTER)
        add_attention_backend_choices([NAME])
        add_moe_runner_backend_choices([NAME])
        ATTENTION_BACKENDS[NAME] = lambda runner: import_module("moetune.sglang.attention").create(runner)
    except Exception as error:
        logging.getLogger("moetune").info("moetune does not fit this SGLang, which serves without it: %s", error)


def _choose_runner(made: Any, method: Any, layer: Any, moe_runner_config: Any) -> None:
    """Behind each create_moe_runner: SGLang takes Triton's runner for a name that a method does not know."""
    from sglang.srt.layers.moe.utils import get_moe_runner_backend

    if get_moe_runner_backend().value == NAME:
        import_module("moetune.sglang.experts").choose(method, moe_runner_config)
