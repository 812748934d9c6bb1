"""PyTorch operators: `import moetune.torch` registers torch.ops.moetune.decode_attention.

    out = torch.ops.moetune.decode_attention(q, k_cache, v_cache, page_table, seq_lens, scale)
    torch.ops.moetune.decode_attention.out(q, k_cache, v_cache, page_table, seq_lens, scale, out=out, lse=lse)

They work eagerly, under torch.compile and inside torch.cuda.graph. Nothing of them synchronizes or reads seq_lens on
the host. `.out` writes what the caller allocated; `.lse` returns the output and writes the log-sum-exp.
"""

import threading
from typing import Any, Optional

import torch

import moetune
from moetune._library import function

__all__ = ["decode_attention", "prepare", "runtime", "use"]

_step = function("decode")
_specialization = function("decode_specialization")
_add_family = function("decode_add_family")
_forget_families = function("decode_forget_families")
_add_workspace = function("decode_add_workspace")
_workspace_bytes = function("decode_workspace_bytes")

_HEADS_FIRST = {"NHD": 0, "HND": 1}
_OPEN_FAMILY, _GROW_WORKSPACE = 1, 2

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


def _is_capturing() -> bool:
    return _host_is_device == 0 and bool(_stream_captures())


def _extents(arguments: tuple[Any, ...]) -> tuple[int, int, int]:
    q, k, page_table = arguments[0], arguments[1], arguments[3]
    heads, tokens = (1, 2) if arguments[11] else (2, 1)
    capacity = k.shape[tokens] * (1 if page_table is None else page_table.shape[1])
    return q.shape[0], k.shape[heads], arguments[13] or capacity


def _open_family(arguments: tuple[Any, ...], device: int) -> None:
    specialization = str(_specialization(*arguments))
    if _is_capturing():
        raise moetune.InvalidArgument(
            f"decode_attention: the family {specialization} is not loaded yet, and loading is not possible while a "
            "graph is captured; call the operator once before")
    key = (device, specialization)
    serving = runtime(device)
    if key not in _families:
        try:
            _families[key] = serving.family("decode_attention", specialization)
        except moetune.NotTuned as miss:
            batch, kv_heads, context = _extents(arguments)
            group, _, others = specialization.partition(",")
            heads = kv_heads * int(group.removeprefix("group="))
            raise moetune.NotTuned(
                f"nothing is tuned for decode_attention {specialization}; run: moetune search decode_attention "
                f"--problem batch={batch},q_heads={heads},kv_heads={kv_heads},context={context},{others}") from miss
    _add_family(*arguments, _families[key])


def _needed_bytes(device: int, batch: int, kv_heads: int, context: int) -> int:
    most = _bytes.get(device, moetune.WORKSPACE_COUNTERS)
    extents = max(batch, _largest["batch"]), kv_heads, max(context, _largest["context"])
    for (of, _), family in _families.items():
        if of == device:
            most = max(most, family.workspace_bytes(*extents))
    _bytes[device] = most
    return most


# In a thread of its own, so that the memory is of no pool that this thread allocates for graphs from.
def _allocate(device: int, bytes_: int, q: torch.Tensor) -> torch.Tensor:
    made: list[torch.Tensor] = []
    thread = threading.Thread(
        target=lambda: made.append(torch.empty(bytes_ + 256, dtype=torch.uint8, device=q.device)))
    thread.start()
    thread.join()
    if not made:
        raise moetune.OutOfMemory(f"decode_attention: no {bytes_} bytes for a workspace on device {device}")
    begin = -made[0].data_ptr() % 256
    memory = made[0][begin:begin + bytes_]
    if _host_is_device:
        memory.zero_()
    else:
        runtime(device).init_workspace(memory)
    return memory


# One workspace for each stream. Capturing cannot allocate; so whenever a stream gets its workspace outside of capture,
# another one is made ready for the stream that captures next.
def _grow_workspace(arguments: tuple[Any, ...], device: int) -> None:
    q = arguments[0]
    stream = 0 if _host_is_device else torch.cuda.current_stream(q.device).cuda_stream
    spares = _spares.setdefault(device, [])
    if _is_capturing():
        present = int(_workspace_bytes(device, stream))
        fitting = [each for each in spares if each.numel() > present]
        if not fitting:
            raise moetune.OutOfMemory(
                "decode_attention: no workspace is ready for this capture; call the operator on this stream before it, "
                "with the largest batch and context, or state them with moetune.torch.prepare()")
        spares.remove(fitting[-1])
        _add_workspace(device, stream, fitting[-1])
        return
    bytes_ = _needed_bytes(device, *_extents(arguments))
    if int(_workspace_bytes(device, stream)) >= bytes_:
        raise moetune.OutOfMemory(f"decode_attention: a workspace of {bytes_} bytes is too small for a stored choice")
    _add_workspace(device, stream, _allocate(device, bytes_, q))
    if not spares or spares[-1].numel() < bytes_:
        spares.append(_allocate(device, bytes_, q))


def _complete(step: int, arguments: tuple[Any, ...]) -> None:
    device = arguments[0].device.index or 0
    with _lock:
        for _ in range(4):
            if step == 0:
                return
            if step == _OPEN_FAMILY:
                _open_family(arguments, device)
            else:
                _grow_workspace(arguments, device)
            step = _step(*arguments)
    if step != 0:
        raise moetune.InternalError("decode_attention: preparing a call did not end")


def _out(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
         seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: torch.Tensor,
         lse: Optional[torch.Tensor] = None, max_context: int = 0, min_context: int = 0, total_tokens: int = 0,
         window: int = 0, sinks: Optional[torch.Tensor] = None, k_scale: Optional[torch.Tensor] = None,
         v_scale: Optional[torch.Tensor] = None) -> None:
    heads_first = _HEADS_FIRST.get(layout)
    if heads_first is None:
        raise moetune.InvalidArgument(f"decode_attention: layout is '{layout}'; it must be NHD or HND")
    arguments = (q, k_cache, v_cache, page_table, seq_lens, out, lse, sinks, k_scale, v_scale, scale, heads_first,
                 window, max_context, min_context, total_tokens, _host_is_device == 0 and _stream_captures(), _host_is_device)
    try:
        step = _step(*arguments)
        if step:
            _complete(step, arguments)
    except moetune.WrongDevice:
        if not q.is_cuda or q.device.index == torch.cuda.current_device():
            raise
        with torch.cuda.device(q.device):
            _complete(_step(*arguments), arguments)


def _functional(q: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
    out = torch.empty_like(q)
    _out(q, *others, out=out, **options)
    return out


def _fake(q: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
    return torch.empty_like(q)


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


def decode_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: Optional[torch.Tensor],
                     seq_lens: torch.Tensor, scale: float, layout: str = "NHD", *, out: Optional[torch.Tensor] = None,
                     lse: Optional[torch.Tensor] = None, **options: Any) -> torch.Tensor:
    """Attention of the newest tokens over a paged KV cache; the operator with optional `out` and `lse`.

    q [batch, heads, dim] or [batch, q_len, heads, dim]; caches [pages, page, kv_heads, dim] (NHD) or [pages, kv_heads,
    page, dim] (HND), or [batch, ...] of contexts if page_table is None; page_table i32 [batch, columns]; seq_lens i32
    [batch]. Options: max_context (of all sequences now; 0 for what page_table has room for), min_context (a captured
    graph's choice is the best from here to max_context), total_tokens, window, sinks, k_scale, v_scale.
    """
    given = (q, k_cache, v_cache, page_table, seq_lens, scale, layout)
    if out is not None:
        torch.ops.moetune.decode_attention.out(*given, out=out, lse=lse, **options)
        return out
    if lse is not None:
        made: torch.Tensor = torch.ops.moetune.decode_attention.lse(*given, lse=lse, **options)
        return made
    made = torch.ops.moetune.decode_attention.default(*given, **options)
    return made
