"""Tuned CUDA kernels inside an inference server: moetune's runtime for Python.

    import moetune

    with moetune.open() as runtime:
        decode = runtime.family("decode_attention", "group=8,head_dim=128,dtype=bf16,page=16")
        choice = decode.pick(batch, kv_heads, context)
        arguments = decode.bind(q, k_cache, v_cache, page_table, lengths, out, layout="tokens_first", scale=0.088)
        decode.launch(choice, arguments, workspace)

Tensors are anything that speaks DLPack. `import moetune.torch` registers the operators for PyTorch. Names and
contracts are those of moetune.h.
"""

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
from moetune._version import __version__

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
    "UnknownName",
    "Unsupported",
    "WORKSPACE_COUNTERS",
    "WrongDevice",
    "__version__",
    "abi_version",
    "from_address",
    "open",
]
