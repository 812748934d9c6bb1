"""Views of memory elsewhere as a GPU's, for kv_transfer: a GPU reads and writes pinned memory and peers by address."""

import ctypes
from typing import Any, Optional

import torch

import moetune


class _Tensor(ctypes.Structure):  # DLTensor of dlpack.h
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_CPU, _CUDA, _INT, _UINT = 1, 2, 0, 1
_held: dict[int, tuple[Any, ...]] = {}  # what views refer to, by the address of their description
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes, _new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object


def _let_go(address: int, held: dict[int, tuple[Any, ...]] = _held) -> None:
    held.pop(address, None)


_release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_let_go)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_release))  # the last view may go after this module


def _require_mapped(tensor: torch.Tensor, device: torch.device) -> None:
    if tensor.device == device:
        return
    if device.type != "cuda":
        raise moetune.WrongDevice(f"mapped: {device} is no GPU")
    if tensor.device.type == "cpu" and tensor.is_pinned():
        return
    if tensor.device.type != "cuda":
        raise moetune.WrongDevice("mapped: the tensor is neither pinned nor a GPU's: pin_memory() makes one that is")
    if not torch.cuda.can_device_access_peer(device, tensor.device):
        raise moetune.WrongDevice(f"mapped: {device} has no access to the memory of {tensor.device}")
    # PyTorch gives the GPU that a copy comes from access to the one that it goes to.
    torch.empty(1, device=tensor.device).copy_(torch.empty(1, device=device))


def mapped(tensor: torch.Tensor, device: Optional[Any] = None) -> torch.Tensor:
    """The same memory as a tensor of `device` (the current GPU): of pinned memory, or of a peer."""
    device = torch.device("cuda" if device is None else device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    _require_mapped(tensor, device)
    item, rank = tensor.element_size(), tensor.ndim
    shape, strides = ((ctypes.c_int64 * max(1, rank))(*sizes) for sizes in (tensor.shape, tensor.stride()))
    managed = _Managed(_Tensor(tensor.data_ptr(), _CUDA if device.type == "cuda" else _CPU, device.index or 0, rank,
                               _UINT if item == 1 else _INT, 8 * item, 1,  # PyTorch views them as what they are
                               shape, strides, 0), None, ctypes.cast(_release, ctypes.c_void_p).value)
    address = ctypes.addressof(managed)
    _held[address] = managed, shape, strides, tensor
    made: torch.Tensor = torch.from_dlpack(_new_capsule(address, b"dltensor", None))
    return made.view(tensor.dtype)
