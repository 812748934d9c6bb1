"""moetune in vLLM, inert unless chosen.

    vllm serve MODEL --attention-backend MOETUNE
    MOETUNE_VLLM_EXPERTS=1 vllm serve MODEL ...

vLLM finds `register` by the entry point vllm.general_plugins. It names the backend and imports nothing of it; the
experts' method is imported only if the variable is set.
"""

import copyreg
import logging
import os
from importlib import import_module
from typing import Any

NAME = "MOETUNE"


def register() -> None:
    """Makes what may be chosen known to vLLM, in each of its processes; again is harmless. Never raises: a vLLM that
    it does not fit must serve as if moetune were not there."""
    log, experts = logging.getLogger("moetune"), os.environ.get("MOETUNE_VLLM_EXPERTS", "")
    if experts not in ("", "0", "1"):
        log.warning("moetune: vLLM's own experts serve: MOETUNE_VLLM_EXPERTS must be 1 or 0 (got %s)", experts)
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

        if NAME not in AttentionBackendEnum.__members__:
            register_backend(NAME, "moetune.vllm.attention.Choice")
            copyreg.pickle(AttentionBackendEnum, _reduced)
        if experts == "1":
            import_module("moetune.vllm.experts").register()
    except Exception as error:
        log.log(logging.WARNING if experts == "1" else logging.INFO,
                "moetune does not fit this vLLM, which serves without it: %s", error)


def _reduced(backend: Any) -> tuple[Any, tuple[Any, ...]]:
    """How a configuration's backend is pickled: a process that vLLM spawns reads it before it loads plug-ins."""
    return (_backend, ()) if backend.name == NAME else (type(backend), (backend.value,))


def _backend() -> Any:
    register()
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    return AttentionBackendEnum[NAME]
