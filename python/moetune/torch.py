"""PyTorch operators: `import moetune.torch` registers torch.ops.moetune.decode_attention.

    out = torch.ops.moetune.decode_attention(q, k_cache, v_cache, page_table, seq_lens, scale)
    torch.ops.moetune.decode_attention.out(q, k_cache, v_cache, page_table, seq_lens, scale, out=out, lse=lse)

They work eagerly, under torch.compile and inside torch.cuda.graph. Nothing of them synchronizes or reads seq_lens on
the host. `.out` writes what the caller allocated; `.lse` returns the output and writes the log-sum-exp.
"""

import os
import threading
from typing import Any, Optional

import torch

import moetune
from moetune._library import function

__all__ = ["decode_attention", "prepare", "runtime", "use"]

_decode = function("decode")
_set_helper = function("decode_set_helper")
_forget_families = function("decode_forget_families")
_add_workspace = function("decode_add_workspace")
_workspace_bytes = function("decode_workspace_bytes")
_register_kernels = function("torch_register")

_HEADS_FIRST = {"NHD": 0, "HND": 1}
_OPEN_FAMILY = 1

_lock = threading.RLock()
_kept: list[moetune.Runtime] = []  # captured graphs may run what they loaded
_runtimes: dict[int, moetune.Runtime] = {}
_families: dict[tuple[int, str], moetune.Family] = {}
_spares: dict[int, list[torch.Tensor]] = {}
_largest = {"batch": 256, "context": 131072}
_bytes: dict[int, int] = {}
_host_is_device = 0  # of the tests: CPU tensors on the scripted driver


def use(runtime: moetune.Runtime) -> None:
    """Makes the operators of the runtime's device use it, instead of moetune.open(device=...). Never close it."""
    with _lock:
        device = max(runtime.device, 0)
        for key in [key for key in _families if key[0] == device]:
            del _families[key]
        _forget_families(device)
        _kept.append(runtime)
        _runtimes[device] = runtime


def runtime(device: int = 0) -> moetune.Runtime:
    """The runtime that serves a device; opened at first use."""
    with _lock:
        if device not in _runtimes or _runtimes[device].closed:
            use(moetune.open(device=device))
        return _runtimes[device]


def prepare(max_batch: int = 256, max_context: int = 131072) -> None:
    """States the largest batch and context that workspaces must suffice for, before they are allocated.

    A larger call outside of graph capture allocates a larger workspace; while capturing it fails.
    """
    with _lock:
        _largest.update(batch=max_batch, context=max_context)
        _bytes.clear()


# What torch.cuda.is_current_stream_capturing() calls, without asking first whether there is a GPU.
_stream_captures: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


def _open_family(device: int, specialization: str, batch: int, kv_heads: int, context: int,
                 capturing: bool) -> moetune.Family:
    key = (device, specialization)
    if capturing:
        raise moetune.InvalidArgument(
            f"decode_attention: the family {specialization} is not loaded yet, and loading is not possible while a "
            "graph is captured; call the operator once before")
    serving = runtime(device)
    if key not in _families:
        try:
            _families[key] = serving.family("decode_attention", specialization)
        except moetune.NotTuned as miss:
            group, _, others = specialization.partition(",")
            heads = kv_heads * int(group.removeprefix("group="))
            raise moetune.NotTuned(
                f"nothing is tuned for decode_attention {specialization}; run: moetune search decode_attention "
                f"--problem batch={batch},q_heads={heads},kv_heads={kv_heads},context={context},{others}") from miss
    return _families[key]


def _needed_bytes(device: int, batch: int, kv_heads: int, context: int) -> int:
    most = _bytes.get(device, moetune.WORKSPACE_COUNTERS)
    extents = max(batch, _largest["batch"]), kv_heads, max(context, _largest["context"])
    for (of, _), family in _families.items():
        if of != device:
            continue
        try:
            most = max(most, family.workspace_bytes(*extents))
        except moetune.Unsupported:  # some choice's counters do not fit at such extents
            most = max(most, family.workspace_bytes(batch, kv_heads, context))
    _bytes[device] = most
    return most


# In a thread of its own, so that the memory is of no pool that this thread allocates for graphs from.
def _allocate(device: int, bytes_: int, stream: int) -> torch.Tensor:
    place = torch.device("cpu") if _host_is_device else torch.device("cuda", device)
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(torch.empty(bytes_ + 256, dtype=torch.uint8, device=place)))
    thread.start()
    thread.join()
    if not made:
        raise moetune.OutOfMemory(f"decode_attention: no {bytes_} bytes for a workspace on device {device}")
    begin = -made[0].data_ptr() % 256
    memory = made[0][begin:begin + bytes_]
    if _host_is_device:
        memory.zero_()
    else:
        runtime(device).init_workspace(memory, stream)
    return memory


# One workspace for each stream. Capturing cannot allocate; so whenever a stream gets its workspace outside of capture,
# another one is made ready for the stream that captures next.
def _grow_workspace(device: int, batch: int, kv_heads: int, context: int, stream: int, capturing: bool) -> None:
    spares = _spares.setdefault(device, [])
    present = int(_workspace_bytes(device, stream))
    if capturing:
        fitting = [each for each in spares if each.numel() > present]
        if not fitting:
            raise moetune.OutOfMemory(
                "decode_attention: no workspace is ready for this capture; call the operator on this stream before it, "
                "with the largest batch and context, or state them with moetune.torch.prepare()")
        spares[:] = [each for each in spares if each is not fitting[-1]]
        _add_workspace(device, stream, fitting[-1])
        return
    bytes_ = _needed_bytes(device, batch, kv_heads, context)
    if present < bytes_:
        _add_workspace(device, stream, _allocate(device, bytes_, stream))
    if not spares or spares[-1].numel() < bytes_:
        spares.append(_allocate(device, bytes_, stream))


def _help(step: int, device: int, specialization: str, batch: int, kv_heads: int, context: int, stream: int,
          capturing: bool) -> Optional[moetune.Family]:
    """Called by the library when a call needs a family or a workspace that is not there."""
    with _lock:
        if step == _OPEN_FAMILY:
            return _open_family(device, specialization, batch, kv_heads, context, capturing)
        _grow_workspace(device, batch, kv_heads, context, stream, capturing)
        return None


_set_helper(_help)


def _out(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
         seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: torch.Tensor,
         lse: Optional[torch.Tensor] = None, max_context: int = 0, min_context: int = 0, total_tokens: int = 0,
         window: int = 0, sinks: Optional[torch.Tensor] = None, k_scale: Optional[torch.Tensor] = None,
         v_scale: Optional[torch.Tensor] = None) -> None:
    heads_first = _HEADS_FIRST.get(layout)
    if heads_first is None:
        raise moetune.InvalidArgument(f"decode_attention: layout is '{layout}'; it must be NHD or HND")
    capturing = _host_is_device == 0 and _stream_captures()
    arguments = (q, k_cache, v_cache, page_table, seq_lens, out, lse, sinks, k_scale, v_scale, scale, heads_first,
                 window, max_context, min_context, total_tokens, capturing, _host_is_device)
    try:
        _decode(*arguments)
    except moetune.WrongDevice:
        if not q.is_cuda or q.device.index == torch.cuda.current_device():
            raise
        with torch.cuda.device(q.device):
            _decode(*arguments)


def _functional(q: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    _out(q, *others, out=out, **options)
    return out


def _fake(q: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def _fake_out(*arguments: Any, **options: Any) -> None:
    pass


_INPUTS = ("Tensor q, Tensor k_cache, Tensor v_cache, Tensor? page_table, Tensor seq_lens, float scale, "
           "str layout='NHD', *, ")
_OPTIONS = ("SymInt max_context=0, SymInt min_context=0, SymInt total_tokens=0, int window=0, Tensor? sinks=None, "
            "Tensor? k_scale=None, Tensor? v_scale=None")
_OVERLOADS: dict[str, tuple[str, Any, Any]] = {
    "decode_attention": (f"({_INPUTS}{_OPTIONS}) -> Tensor", _functional, _fake),
    "decode_attention.out": (f"({_INPUTS}Tensor(a!) out, Tensor(b!)? lse=None, {_OPTIONS}) -> ()", _out, _fake_out),
    "decode_attention.lse": (f"({_INPUTS}Tensor(a!) lse, {_OPTIONS}) -> Tensor", _functional, _fake),
}

_registered: list[Any] = []
_Library: Any = torch.library.Library


def _register(key: str) -> None:
    """Kernels of the library if this PyTorch's stable C interface has what they need (2.10), else Python's."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    if os.environ.get("MOETUNE_TORCH_KERNELS") != "python" and _register_kernels(folder, key, bool(_host_is_device)):
        return
    library = _Library("moetune", "FRAGMENT")
    for name, (_, function_, _) in _OVERLOADS.items():
        library.impl(name, function_, key)
    _registered.append(library)


def _define() -> None:
    library = _Library("moetune", "DEF")
    for name, (schema, _, fake) in _OVERLOADS.items():
        library.define(name + schema, tags=(torch.Tag.needs_fixed_stride_order,))
        torch.library.register_fake(f"moetune::{name}", fake, lib=library)
    _registered.append(library)


_define()
_register("CUDA")


def _error_of(error: RuntimeError) -> Exception:
    """The class that a kernel's error names; PyTorch has one class for all."""
    name, _, sentence = str(error).partition(": ")
    kind = getattr(moetune, name.removeprefix("moetune."), None) if name.startswith("moetune.") else None
    return kind(sentence) if isinstance(kind, type) and issubclass(kind, moetune.Error) else error


def decode_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
                     seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: Optional[torch.Tensor] = None,
                     lse: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """Attention of the newest tokens over a paged KV cache; the operator with optional `out` and `lse`.

    q [batch, heads, dim] or [batch, q_len, heads, dim]; caches [pages, page, kv_heads, dim] (NHD) or [pages, kv_heads,
    page, dim] (HND), or [batch, ...] of contexts if page_table is None; page_table i32 [batch, columns]; seq_lens i32
    [batch]. Options: max_context (of all sequences now; 0 for what page_table has room for), min_context (a captured
    graph's choice is the best from here to max_context), total_tokens, window, sinks, k_scale, v_scale. Raises
    moetune.Error's classes; the operators themselves raise RuntimeError, whose text begins with the class.
    """
    given = (q, k_cache, v_cache, page_table, seq_lens, scale, layout)
    try:
        if out is not None:
            torch.ops.moetune.decode_attention.out(*given, out=out, lse=lse, **options)
            return out
        if lse is not None:
            made: torch.Tensor = torch.ops.moetune.decode_attention.lse(*given, lse=lse, **options)
        else:
            made = torch.ops.moetune.decode_attention.default(*given, **options)
        return made
    except RuntimeError as error:
        raise _error_of(error) from None
