"""Tests of moetune.torch on a GPU, or on the scripted driver with tensors in host memory. REASON says why not."""

import os
from typing import Any

import moetune
from support import CACHE, SCRIPTED

try:
    import torch
except ImportError:
    REASON = "there is no torch"
else:
    REASON = "" if torch.cuda.is_available() or SCRIPTED else "torch has no CUDA"
    if not CACHE:
        REASON = "no cache is named in MOETUNE_TEST_CACHE"

DEVICE = "cpu" if SCRIPTED else "cuda"
NO_GPU = REASON or ("" if DEVICE == "cuda" else "torch has no CUDA")
VERBOSITY = 2 if os.environ.get("MOETUNE_VERBOSE") else 1

if not REASON:
    from moetune import _serving

    _serving.host_is_device = int(SCRIPTED)
    import moetune.torch as operators

    operators.use(moetune.open([CACHE]))
    operators.prepare(max_batch=16, max_context=4096, max_tokens=256)


def why_no_inductor() -> str:
    """Inductor needs a C compiler, which a server may lack."""
    try:
        torch.compile(lambda x: x * 2 + 1, fullgraph=True)(torch.ones(8, device=DEVICE))
    except Exception as error:
        return f"torch.compile does not work here: {str(error).splitlines()[0]}"
    return ""


def backends() -> list[str]:
    """Of torch.compile, that work here."""
    return ["aot_eager"] if SCRIPTED or why_no_inductor() else ["aot_eager", "inductor"]


def largest_error(made: Any, right: Any) -> float:
    return float((made.float() - right.float()).abs().max())
