"""Decode steps from Python, as a server takes them: contexts grow, the choice follows, and nothing is compiled.

    moetune search decode_attention --problem batch=4,q_heads=8,kv_heads=1,context=512,page=16
    python decode_attention.py

Every key is 0 and every value 1, so that every output is 1. An argument names a cache or a pack. Device memory is the
driver's; with a framework pass its tensors as they are. decode_loop.py has PyTorch's operator.
"""

import ctypes
import sys
from typing import Any

import numpy as np

import moetune

BATCH, HEADS, DIM, PAGE, COLUMNS, POOL, ONE = 4, 8, 128, 16, 32, 128, 0x3F80  # one in bf16
driver = ctypes.CDLL("libcuda.so.1")


def cuda(function: str, *arguments: Any) -> None:
    if result := getattr(driver, function)(*arguments):
        raise RuntimeError(f"{function} returned {result}")


class OnDevice:
    """Device memory with a copy of an array; `tensor` speaks DLPack."""

    def __init__(self, host: Any, dtype: str) -> None:
        self.host, self.address = host, ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(host.nbytes))
        self.write()
        self.tensor = moetune.from_address(self.address.value, host.shape, dtype)

    def write(self) -> None:
        cuda("cuMemcpyHtoD_v2", self.address, ctypes.c_void_p(self.host.ctypes.data), ctypes.c_size_t(self.host.nbytes))

    def read(self) -> Any:
        cuda("cuMemcpyDtoH_v2", ctypes.c_void_p(self.host.ctypes.data), self.address, ctypes.c_size_t(self.host.nbytes))
        return self.host


def main(paths: list[str]) -> int:
    context = ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    cuda("cuCtxSetCurrent", context)

    q, out = (OnDevice(np.zeros((BATCH, HEADS, DIM), np.uint16), "bfloat16") for _ in range(2))
    keys = OnDevice(np.zeros((POOL, PAGE, 1, DIM), np.uint16), "bfloat16")
    values = OnDevice(np.full((POOL, PAGE, 1, DIM), ONE, np.uint16), "bfloat16")
    page_table = OnDevice(np.arange(POOL, dtype=np.int32).reshape(BATCH, COLUMNS), "int32")
    lengths = OnDevice(np.zeros(BATCH, np.int32), "int32")

    # Once a server: the results; once a model: its family, a workspace, and what the tensors look like.
    with moetune.open(paths, device=0) as runtime:
        decode = runtime.family("decode_attention", "group=8,head_dim=128,dtype=bf16,page=16")
        workspace = OnDevice(np.zeros(decode.workspace_bytes(BATCH, 1, COLUMNS * PAGE), np.uint8), "uint8")
        runtime.init_workspace(workspace.tensor)
        call = decode.bind(q.tensor, keys.tensor, values.tensor, page_table.tensor, lengths.tensor, out.tensor,
                           layout="tokens_first", scale=DIM**-0.5)

        # Once a step: what the batch is now, and a launch a layer.
        for tokens in (1, 100, 101, 102, 500):
            lengths.host[:] = tokens
            lengths.write()
            choice = decode.pick(BATCH, 1, tokens)
            decode.launch(choice, call, workspace.tensor)
            cuda("cuStreamSynchronize", None)
            wrong = int((out.read() != ONE).sum())
            print(f"context {tokens}: {choice.kind.name.lower()}, {wrong} of {out.host.size} outputs are wrong")
            if wrong:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
