"""Loads libmoetune_tvm_ffi.so, and says what of it is called while the GIL is held.

Only modules that call the library import this one: tvm_ffi comes with it, and PyTorch if it is installed.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path
from typing import Any, Iterator

from moetune import _errors

# Calls of a microsecond keep the GIL: giving it up and taking it back costs more. Those that read files, unload, take
# the lock that refresh() holds meanwhile, or launch, which waits while the device's queue is full, release it, or every
# Python thread would wait with them.
_QUICK = (
    "pick",
    "pick_range",
    "choice_workspace",
    "choice_facts",
    "make_choice",
    "make_arguments",
    "arguments_facts",
    "bind",
    "is_closed",
    "device",
    "from_address",
    "operator_check",
    "operator_tensor",
    "operator_workspace_bytes",
)

FOLDER = Path(__file__).absolute().parent
_SWITCH = "TVM_FFI_DISABLE_TORCH_C_DLPACK"
_postponed: list[str] = []  # modules


@contextlib.contextmanager
def _without_cuda() -> Iterator[None]:
    """Leaves out the part of tvm_ffi's import that asks torch.cuda.is_available(): children which a process forks after
    that cannot use CUDA."""
    before = os.environ.get(_SWITCH)
    if "tvm_ffi" not in sys.modules and before in (None, "0"):
        os.environ[_SWITCH] = "1"
        _postponed.append("tvm_ffi._optional_torch_c_dlpack")
    try:
        yield
    finally:
        os.environ.pop(_SWITCH, None)
        if before is not None:
            os.environ[_SWITCH] = before


with _without_cuda():
    import tvm_ffi as tvm_ffi

for _class in _errors.CLASSES:
    tvm_ffi.register_error(f"moetune.{_class.__name__}", _class)
_library = tvm_ffi.load_module(os.fspath(FOLDER / "lib" / "libmoetune_tvm_ffi.so"))


def function(name: str) -> Any:
    """An exported function."""
    found = _library.get_function(name)
    found.release_gil = name not in _QUICK
    return found


def use_cuda() -> None:
    """Imports what was left out, because CUDA is about to be used: how PyTorch before 2.10 hands over tensors fast, and
    its streams."""
    while _postponed:
        module = sys.modules.get(_postponed.pop())
        if module is not None:
            importlib.reload(module)
