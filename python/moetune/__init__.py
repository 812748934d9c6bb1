"""Tuned CUDA kernels inside an inference server: moetune's runtime for Python.

    import moetune

    with moetune.open() as runtime:
        decode = runtime.family("decode_attention", "group=8,head_dim=128,dtype=bf16,page=16")
        choice = decode.pick(batch, kv_heads, context)
        arguments = decode.bind(q, k_cache, v_cache, page_table, lengths, out, layout="tokens_first", scale=0.088)
        decode.launch(choice, arguments, workspace)

Tensors are anything that speaks DLPack. `import moetune.torch` registers the operators for PyTorch. Names and
contracts are those of moetune.h.

Importing loads no library: the first use of a name that needs one does. None of it uses CUDA before open(), so that a
server may import and then fork.
"""

import importlib
from typing import TYPE_CHECKING, Any

from moetune._errors import (
    BadFile,
    CudaError,
    Error,
    InternalError,
    InvalidArgument,
    NoDriver,
    NotTuned,
    OutOfMemory,
    UnknownName,
    Unsupported,
    WrongDevice,
)

__all__ = [
    "Arguments",
    "BadFile",
    "Choice",
    "ChoiceKind",
    "Counts",
    "CudaError",
    "Error",
    "Family",
    "InternalError",
    "InvalidArgument",
    "NoDriver",
    "NotTuned",
    "OutOfMemory",
    "Runtime",
    "Tuned",
    "TunedKernel",
    "UnknownName",
    "Unsupported",
    "WORKSPACE_COUNTERS",
    "WrongDevice",
    "__version__",
    "abi_version",
    "from_address",
    "open",
    "tune",
]

if TYPE_CHECKING:
    from moetune._runtime import (
        WORKSPACE_COUNTERS,
        Arguments,
        Choice,
        ChoiceKind,
        Counts,
        Family,
        Runtime,
        abi_version,
        from_address,
        open,
    )
    from moetune._tune import Tuned, TunedKernel, tune
    from moetune._version import __version__
else:
    _HOMES = {"__version__": "moetune._version", "Tuned": "moetune._tune", "TunedKernel": "moetune._tune",
              "tune": "moetune._tune"}

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'moetune' has no attribute '{name}'")
        module = importlib.import_module(_HOMES.get(name, "moetune._runtime"))
        globals()[name] = value = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
