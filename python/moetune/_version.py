"""The version, from the C library, which needs neither tvm_ffi nor PyTorch."""

import ctypes
import os
from pathlib import Path

_version = ctypes.CDLL(os.fspath(Path(__file__).absolute().parent / "lib" / "libmoetune_runtime.so.1")).moetune_version
_version.restype = ctypes.c_char_p
__version__: str = _version().decode()
