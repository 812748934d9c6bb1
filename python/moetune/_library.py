"""Loads libmoetune_tvm_ffi.so, and what of it is called while the GIL is held."""

import os
from pathlib import Path
from typing import Any

import tvm_ffi

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
    "operator_workspace_bytes",
)

FOLDER = Path(__file__).absolute().parent
_library = tvm_ffi.load_module(os.fspath(FOLDER / "lib" / "libmoetune_tvm_ffi.so"))


def function(name: str) -> Any:
    """An exported function."""
    found = _library.get_function(name)
    found.release_gil = name not in _QUICK
    return found
