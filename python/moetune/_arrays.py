"""The arguments of a kernel that is tuned: arrays, as they lie in files and on a GPU, and numbers."""

import math
from typing import Any, NamedTuple, Optional, Union

from moetune import _errors
from moetune._signature import Parameter

# By NumPy's name: the type in kernel.json, and whether the runtime takes such a tensor as it is.
_TYPES = {
    "float32": ("f32", True), "float16": ("f16", True), "bfloat16": ("bf16", True), "float8_e4m3fn": ("e4m3", True),
    "float64": ("f64", True), "int8": ("i8", True), "int16": ("i16", True), "int32": ("i32", True),
    "int64": ("i64", True), "uint8": ("u8", True), "uint16": ("u16", True), "uint32": ("u32", True),
    "uint64": ("i64", False), "bool": ("u8", False),
}
_SCALARS = {"int8": "i8", "uint8": "u8", "bool": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
            "uint32": "u32", "int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64"}
_DLPACK = {"i64": "int64", "u8": "uint8"}  # of those that it does not
_MOST_STATED = 1 << 40  # of an integer that a call states
_MOST_RANK = 6


def numpy_module() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("moetune.tune needs numpy: pip install numpy") from error
    return numpy


def _on_host(value: Any) -> tuple[Any, str]:
    """A contiguous NumPy array of the contents, and the name of the elements' type, which NumPy may lack."""
    np = numpy_module()
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # PyTorch's
        value = value.detach().cpu().contiguous()
        name = str(value.dtype).rpartition(".")[2]
        if name in ("bfloat16", "float8_e4m3fn"):
            import torch

            return value.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy(), name
        return value.numpy(), name
    for method in ("get", "copy_to_host"):  # CuPy's and Numba's
        if hasattr(value, "__cuda_array_interface__") and hasattr(value, method):
            value = getattr(value, method)()
    if not isinstance(value, np.ndarray):
        value = np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    return np.ascontiguousarray(value).reshape(value.shape), value.dtype.name


class _Unordered:
    """An array of CuPy's whose export waits for no stream: launches are ordered by their own, and the default stream,
    which CuPy would let wait, may not wait for one that a graph is being captured from."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**{**options, "stream": -1})

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Array:
    """A tensor of the kernel, or of its __constant__ memory. `content` holds the elements as a .npy file of kernel.json
    has them."""

    def __init__(self, name: str, value: Any, is_constant: bool = False) -> None:
        np = numpy_module()
        content, self.element = _on_host(value)
        if content.dtype.hasobject:
            raise _errors.InvalidArgument(f"'{name}' is an array of Python's objects")
        self.name, self.role, self.is_constant = name, "input", is_constant
        self.type, self._is_natural = _TYPES.get(self.element, ("u8", False))
        self.elements_dtype = content.dtype
        self.shape = list(content.shape) or [1]
        if len(self.shape) > _MOST_RANK or content.size == 0:
            raise _errors.InvalidArgument(f"'{name}' is an array of shape {content.shape}: at most {_MOST_RANK} "
                                          "dimensions, and some elements, are needed")
        if self.element not in _TYPES:  # its bytes
            self.shape[-1] *= content.dtype.itemsize
            content = content.reshape(-1).view(np.uint8)
        elif self.type in ("bf16", "e4m3"):
            content = content.view(np.uint16 if self.type == "bf16" else np.uint8)
        self.content = content.reshape(self.shape)

    @property
    def is_float(self) -> bool:
        return self.type in ("f64", "f32", "f16", "bf16", "e4m3")

    def values(self, content: Any) -> Any:
        """The elements as a reference computes with them: in their own type, or as float32 if NumPy lacks that."""
        np = numpy_module()
        if self.type == "bf16":
            return (content.astype(np.uint32) << 16).view(np.float32)
        if self.type == "e4m3":
            sign, exponent, fraction = content >> 7, content >> 3 & 15, content & 7
            magnitude = np.where(exponent == 0, fraction * 2.0 ** -9, (8.0 + fraction) * 2.0 ** (exponent - 10.0))
            magnitude[(content & 127) == 127] = math.nan
            return np.where(sign == 1, -magnitude, magnitude).astype(np.float32)
        if self.element in _TYPES:
            return content.copy()
        shape = [*self.shape[:-1], self.shape[-1] // self.elements_dtype.itemsize]
        return content.reshape(-1).view(self.elements_dtype).reshape(shape).copy()

    def answer(self, value: Any) -> Any:
        """What a reference returned for this output, as a file has it: floats in float32, or float64 in their own."""
        np = numpy_module()
        given = Array(self.name, value)
        values = given.values(given.content)
        is_bytes = self.element not in _TYPES
        if values.size * (self.elements_dtype.itemsize if is_bytes else 1) != self.content.size:
            raise _errors.InvalidArgument(f"the reference's '{self.name}' has the shape {values.shape}, and the "
                                          f"argument has {self.content.size} elements")
        is_narrow = self.is_float and self.type != "f64"
        flat = values.astype(np.float32 if is_narrow else self.elements_dtype).reshape(-1)
        return flat.view(np.uint8) if is_bytes else flat

    def on_device(self, value: Any, device: int) -> Any:
        """The tensor that the runtime binds."""
        if self._is_natural:
            return _Unordered(value) if type(value).__module__.partition(".")[0] == "cupy" else value
        import moetune

        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None and not hasattr(value, "data_ptr"):
            raise _errors.InvalidArgument(f"'{self.name}' has elements of {self.element}: such an array must have "
                                          "__cuda_array_interface__ or data_ptr()")
        address = interface["data"][0] if interface is not None else value.data_ptr()
        return moetune.from_address(address, self.shape, _DLPACK[self.type], device=device, owner=value)


class Scalar(NamedTuple):
    """A number. If `is_stated`, each call states its own; otherwise it is part of what was tuned."""

    name: str
    type: str
    value: Union[int, float]
    is_stated: bool = False

    @property
    def is_real(self) -> bool:
        return self.type.startswith("f")

    def can_be_stated(self) -> bool:
        return self.is_real or abs(self.value) <= _MOST_STATED

    @staticmethod
    def plain(value: Any) -> Union[int, float]:
        plain: Union[int, float] = value.item() if hasattr(value, "item") else value
        return plain

    def require_same(self, value: Any) -> None:
        if self.plain(value) != self.value:
            raise _errors.InvalidArgument(f"'{self.name}' was {self.value} when the kernel was tuned, and is {value}")


def _array_of(name: str, value: Any, parameter: Optional[Parameter]) -> Array:
    if not any(hasattr(value, one) for one in ("__dlpack__", "__array__", "__cuda_array_interface__")):
        raise _errors.InvalidArgument(f"'{name}' is of the type {type(value).__name__}: neither an array nor a number")
    array = Array(name, value)
    wanted = parameter.type if parameter is not None else ""
    if wanted not in ("", "i8", "u8") and wanted.replace("u", "i") != array.type.replace("u", "i"):
        raise _errors.InvalidArgument(f"the kernel has {wanted} in '{name}', and the array holds {array.element}")
    return array


def argument_of(value: Any, at: int, parameter: Optional[Parameter]) -> Union[Array, Scalar]:
    """An argument of a call, of the kernel's parameter if that is known."""
    name = parameter.name if parameter is not None else f"arg{at}"
    dtype = getattr(value, "dtype", None)
    is_number = isinstance(value, (bool, int, float)) or (dtype is not None and hasattr(value, "item") and
                                                          getattr(value, "shape", None) == () and
                                                          not (parameter is not None and parameter.is_pointer))
    if not is_number:
        return _array_of(name, value, parameter)
    plain = Scalar.plain(value)
    usual = "f32" if isinstance(value, float) else "u8" if isinstance(value, bool) else "i32"
    kind = usual if dtype is None else _SCALARS.get(str(dtype).rpartition(".")[2], "")
    if parameter is not None and not parameter.is_pointer:
        kind = parameter.type or kind
    if not kind or isinstance(plain, complex) or not math.isfinite(plain) or (kind[0] != "f" and plain != int(plain)):
        raise _errors.InvalidArgument(f"'{name}' is {value!r}: no number that a kernel can be given"
                                      + (f" for {kind}" if kind else ""))
    return Scalar(name, kind, float(plain) if kind.startswith("f") else int(plain))
