"""Tensors of one decode_attention call in host memory, which the scripted driver takes for the device's."""

import ctypes
import os
import tempfile
import unittest
from typing import Any

import numpy as np

import moetune

CACHE = os.environ.get("MOETUNE_TEST_CACHE", "")
FAMILY = "group=8,head_dim=128,page=16"
ONE = 0x3F80  # in bf16
SCRIPTED = "fakecuda" in os.environ.get("MOETUNE_LIBCUDA", "")

needs_scripted_driver = unittest.skipUnless(SCRIPTED and CACHE, "the scripted driver is not in MOETUNE_LIBCUDA")


class FullQueue:
    """While it is entered, launches on the scripted driver wait, ten seconds at most."""

    def __enter__(self) -> "FullQueue":
        self._file = tempfile.NamedTemporaryFile(prefix="moetune_full_")
        os.environ["MOETUNE_FAKE_FULL"] = self._file.name
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()
        del os.environ["MOETUNE_FAKE_FULL"]


def settled_launches() -> int:
    """The launches of decode_attention so far that the scripted driver was told kv_settled=1 of."""
    found = ctypes.c_void_p()
    driver = ctypes.CDLL(os.environ["MOETUNE_LIBCUDA"])
    driver.cuGetProcAddress_v2(b"fakeCountSettled", ctypes.byref(found), 13000, ctypes.c_uint64(0), None)
    assert found.value is not None
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(found.value)())


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros at a multiple of 256 bytes, as a device's allocator returns them."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 256, np.uint8)
    begin = -memory.ctypes.data % 256
    return memory[begin:begin + count].view(dtype).reshape(shape)


def on_device(array: Any, dtype: str, **options: Any) -> Any:
    """The array as a tensor of device 0."""
    strides = [step // array.itemsize for step in array.strides]
    return moetune.from_address(array.ctypes.data, array.shape, dtype, strides=strides, owner=array, **options)


def to_bf16(values: Any) -> Any:
    """Rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(values: Any) -> Any:
    return (values.astype(np.uint32) << 16).view(np.float32)


class Call:
    """Random inputs of 4 sequences, 8 query heads and one KV head of 128, pages of 16."""

    BATCH, HEADS, DIM, PAGE, COLUMNS = 4, 8, 128, 16, 32
    SCALE = 0.0883883

    def __init__(self, layout: str = "tokens_first") -> None:
        random = np.random.default_rng(1)
        pages = self.BATCH * self.COLUMNS
        cache = (pages, self.PAGE, 1, self.DIM) if layout == "tokens_first" else (pages, 1, self.PAGE, self.DIM)
        self.layout = layout
        self.q, self.k, self.v = (aligned(shape, np.uint16)
                                  for shape in ((self.BATCH, self.HEADS, self.DIM), cache, cache))
        for tensor in (self.q, self.k, self.v):
            tensor[:] = to_bf16(random.standard_normal(tensor.shape))
        self.page_table = aligned((self.BATCH, self.COLUMNS), np.int32)
        self.page_table[:] = random.permutation(pages).reshape(self.BATCH, self.COLUMNS)
        self.lengths = aligned((self.BATCH,), np.int32)
        self.lengths[:] = (500, 1, 0, 300)
        self.o = aligned(self.q.shape, np.uint16)
        self.workspace = on_device(aligned((2 << 20,), np.uint8), "uint8")

    def tensors(self) -> list[Any]:
        """In the order of decode_attention's slots."""
        return [*(on_device(each, "bfloat16") for each in (self.q, self.k, self.v)),
                *(on_device(each, "int32") for each in (self.page_table, self.lengths)), on_device(self.o, "bfloat16")]

    def bind(self, family: moetune.Family) -> moetune.Arguments:
        return family.bind(*self.tensors(), layout=self.layout, scale=self.SCALE)

    def error(self) -> float:
        """The largest difference from attention in float64."""
        worst = 0.0
        for sequence, length in enumerate(self.lengths):
            keys, values = (from_bf16(pool[self.page_table[sequence]]).reshape(-1, self.DIM)[:length]
                            for pool in (self.k, self.v))
            scores = from_bf16(self.q[sequence]) @ keys.T * self.SCALE
            weights = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-1e30))
            right = weights @ values / np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
            worst = max(worst, float(np.abs(from_bf16(self.o[sequence]) - right).max()))
        return worst
