"""Host time of moetune's calls from Python above the C call, and of the PyTorch operator.

    python bench/python_overhead.py [--cache FILE] [--json FILE]

The C call is timed in the same process, by a loop inside the library; what is above it is Python's share. With PyTorch
and a GPU, the operators' whole host time stands beside torch's in-place add; those of the MoE kernels need the problems
of tests/python/problems.txt in the cache. All are medians of interleaved rounds of
100 launches that the GPU does not hold up; lengths are 0, so that kernels are short.
"""

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from typing import Any, Callable

import moetune
from moetune._library import function

ROUNDS, LAUNCHES = 60, 100
BATCH, HEADS, DIM, PAGE, COLUMNS = 4, 8, 128, 16, 32


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        work()
    return time.perf_counter() - begin


def medians(rows: dict[str, Callable[[], float]], wait: Callable[[], None]) -> dict[str, float]:
    """Microseconds a call: each row returns the seconds of LAUNCHES calls."""
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, row in rows.items():
            wait()
            seconds[name].append(row())
    wait()
    return {name: statistics.median(each) / LAUNCHES * 1e6 for name, each in seconds.items()}


def host_tensors() -> list[Any]:
    """For the scripted driver, whose device memory is the host's."""
    import numpy as np

    def made(shape: tuple[int, ...], dtype: str, bytes_: int) -> Any:
        memory = np.zeros(int(np.prod(shape)) * bytes_ + 256, np.uint8)
        return moetune.from_address(memory.ctypes.data + -memory.ctypes.data % 256, shape, dtype, owner=memory)

    cache = (BATCH * COLUMNS, PAGE, 1, DIM)
    return [made((BATCH, HEADS, DIM), "bfloat16", 2), made(cache, "bfloat16", 2), made(cache, "bfloat16", 2),
            made((BATCH, COLUMNS), "int32", 4), made((BATCH,), "int32", 4), made((BATCH, HEADS, DIM), "bfloat16", 2),
            made((8 << 20,), "uint8", 1)]


def torch_tensors(torch: Any) -> list[Any]:
    def made(*shape: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.zeros(*shape, dtype=dtype, device="cuda")

    cache = (BATCH * COLUMNS, PAGE, 1, DIM)
    table = torch.arange(BATCH * COLUMNS, dtype=torch.int32, device="cuda").reshape(BATCH, COLUMNS)
    return [made(BATCH, HEADS, DIM), made(*cache), made(*cache), table, made(BATCH, dtype=torch.int32),
            made(BATCH, HEADS, DIM), made(8 << 20, dtype=torch.uint8)]


def direct_rows(runtime: moetune.Runtime, tensors: list[Any]) -> dict[str, Callable[[], float]]:
    family = runtime.family("decode_attention", "group=8,head_dim=128,page=16")
    *bound, workspace = tensors
    call = family.bind(*bound, layout="tokens_first", scale=DIM**-0.5)
    choice = family.pick(BATCH, 1, COLUMNS * PAGE)
    runtime.init_workspace(workspace)
    time_launches = function("time_launches")
    handles = [each._handle for each in (family, choice, call)]
    return {"C launch": lambda: float(time_launches(*handles, workspace, None, LAUNCHES)),
            "Python launch": lambda: timed(lambda: family.launch(choice, call, workspace)),
            "Python pick": lambda: timed(lambda: family.pick(BATCH, 1, COLUMNS * PAGE)),
            "Python bind": lambda: timed(lambda: family.bind(*bound, layout="tokens_first"))}


def operator_rows(torch: Any, runtime: moetune.Runtime, tensors: list[Any]) -> dict[str, Callable[[], float]]:
    import moetune.torch

    moetune.torch.use(runtime)
    q, keys, values, table, lengths, out, _ = tensors
    operator, given = torch.ops.moetune.decode_attention, (q, keys, values, table, lengths, DIM**-0.5)
    operator(*given)
    x = torch.zeros_like(q)
    return {"torch operator": lambda: timed(lambda: operator(*given)),
            "moetune.torch function": lambda: timed(lambda: moetune.torch.decode_attention(*given, out=out)),
            "torch operator .out": lambda: timed(lambda: operator.out(*given, out=out)),
            "torch in-place add": lambda: timed(lambda: x.add_(1))}


def moe_rows(torch: Any) -> dict[str, Callable[[], float]]:
    """The operators that write what the caller allocated, on 64 tokens; none if their families are not tuned."""
    import moetune.torch

    logits, x = torch.randn(64, 16, device="cuda"), torch.randn(64, 256, device="cuda").bfloat16()
    ops = torch.ops.moetune
    try:
        routing = moetune.torch.route(logits, 2)
        rows = moetune.torch.moe_dispatch(x, routing.sorted, routing.inverse)
        out = moetune.torch.moe_combine(rows, routing.inverse, routing.weights)
    except moetune.NotTuned as error:
        print(f"no MoE operators: {error}")
        return {}
    routed = routing._asdict()
    moved, summed = (x, routing.sorted, routing.inverse), (rows, routing.inverse, routing.weights)
    return {"route": lambda: timed(lambda: ops.route(logits, 2)),
            "route.out": lambda: timed(lambda: ops.route.out(logits, 2, **routed)),
            "moe_dispatch.out": lambda: timed(lambda: ops.moe_dispatch.out(*moved, rows=rows)),
            "moe_combine.out": lambda: timed(lambda: ops.moe_combine.out(*summed, out=out))}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    scripted = "fakecuda" in os.environ.get("MOETUNE_LIBCUDA", "")
    torch: Any = None if scripted else importlib.import_module("torch")
    runtime = moetune.open([options.cache] if options.cache else [])
    tensors = host_tensors() if torch is None else torch_tensors(torch)
    rows = direct_rows(runtime, tensors)
    if torch is not None:
        rows |= operator_rows(torch, runtime, tensors) | moe_rows(torch)
    found = medians(rows, (lambda: None) if torch is None else torch.cuda.synchronize)
    found["Python above C"] = found["Python launch"] - found["C launch"]
    for name, microseconds in found.items():
        print(f"{name:<22} {microseconds:7.2f} us")
    print("bars: Python above C <= 2 us; torch operator <= 12 us and <= torch in-place add")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
