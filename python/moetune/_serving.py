"""What the operators need at run time: a runtime for each device, families, and a workspace for each stream."""

import threading
from typing import Any, Optional, Sequence

import torch

import moetune
from moetune._library import function

_set_helper = function("operator_set_helper")
_forget_families = function("operator_forget_families")
_add_workspace = function("operator_add_workspace")
_workspace_bytes = function("operator_workspace_bytes")
_relax_capture = function("driver_relax_capture")
_make_stream = function("driver_make_stream")

_OPEN_FAMILY = 1
_ALIGNMENT = 256  # bytes
_STREAM_PER_THREAD = 2  # cudaStreamPerThread: to another thread, another stream

_lock = threading.RLock()
_kept: list[moetune.Runtime] = []  # captured graphs may run what they loaded
_runtimes: dict[int, moetune.Runtime] = {}
_own_streams: dict[int, Any] = {}  # to make ready on what streams that capture will use
_largest = {"batch": 256, "context": 131072, "tokens": 32768}
_bytes: dict[int, int] = {}
host_is_device = 0  # of the tests: CPU tensors on the scripted driver


class _Opened:
    """A family, and what the calls that were seen need."""

    def __init__(self, kernel: str, family: moetune.Family) -> None:
        self.kernel, self.family = kernel, family
        self.kv_heads = 0  # the most that were seen
        self.seen_bytes = 0

    def saw(self, extents: Sequence[int]) -> None:
        """Raises, and keeps nothing of the call, if the family cannot serve it."""
        self.seen_bytes = max(self.seen_bytes, self.family.workspace_bytes(*extents))
        if len(extents) > 1:
            self.kv_heads = max(self.kv_heads, extents[1])

    def workspace_bytes(self) -> int:
        """For those calls and for what prepare() says."""
        try:
            return max(self.seen_bytes, self.family.workspace_bytes(*self._prepared_extents()))
        except (moetune.InvalidArgument, moetune.Unsupported):  # no choice serves as much at once
            return self.seen_bytes

    def _prepared_extents(self) -> tuple[int, ...]:
        batch, context, tokens = _largest["batch"], _largest["context"], _largest["tokens"]
        if self.kernel == "decode_attention":
            return batch, self.kv_heads, context
        if self.kernel == "prefill_attention":
            seqlen_q = -(-tokens // batch)
            return batch, self.kv_heads, seqlen_q, max(seqlen_q, context)
        return (tokens,)


_families: dict[tuple[int, str, str], _Opened] = {}


def use(runtime: moetune.Runtime) -> None:
    """Makes the operators of the runtime's device use it, instead of moetune.open(device=...). Never close it."""
    if not isinstance(runtime, moetune.Runtime):
        raise TypeError(f"a moetune.Runtime is expected, not {type(runtime).__name__}")
    if runtime.closed:
        raise moetune.InvalidArgument("the runtime is closed")
    with _lock:
        device = runtime.device
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


def why_not(device: int, kernel: str, specialization: str) -> Optional[moetune.Error]:
    """None if a family serves; else the error that a call of it would raise."""
    try:
        runtime(device).family(kernel, specialization)
    except moetune.Error as error:
        return error
    return None


def prepare(max_batch: int = 256, max_context: int = 131072, max_tokens: int = 32768) -> None:
    """States what workspaces must suffice for, before they are allocated.

    `max_batch` and `max_context` are the attention operators', `max_tokens` the others' and prefill_attention's (new
    tokens of all sequences). A larger call allocates a larger workspace; the smaller one stays, for graphs captured
    with it.
    """
    for name, value in (("max_batch", max_batch), ("max_context", max_context), ("max_tokens", max_tokens)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if value < 1:
            raise moetune.InvalidArgument(f"{name} is {value}; it must be at least 1")
    with _lock:
        _largest.update(batch=max_batch, context=max_context, tokens=max_tokens)
        _bytes.clear()


def _open_family(device: int, operator: str, kernel: str, specialization: str, problem: str) -> _Opened:
    key = (device, kernel, specialization)
    try:
        serving = runtime(device)
        if key not in _families:
            _families[key] = _Opened(kernel, serving.family(kernel, specialization))
    except moetune.NotTuned as miss:
        raise moetune.NotTuned(f"{operator}: nothing is tuned for {kernel} {specialization}; run: moetune search "
                               f"{kernel} --problem {problem}") from miss
    except moetune.InvalidArgument as error:
        raise moetune.InvalidArgument(f"{operator}: {str(error).removeprefix(kernel + ': ')}") from error
    return _families[key]


def _needed_bytes(device: int) -> int:
    most = max([_bytes.get(device, moetune.WORKSPACE_COUNTERS),
                *(opened.workspace_bytes() for (of, _, _), opened in _families.items() if of == device)])
    _bytes[device] = most
    return most


def _stream_of(device: int, stream: int) -> Any:
    return torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)


# Called by one thread at a time, with relaxed capture and the device as the current one.
def _own_stream(device: int) -> Any:
    if device not in _own_streams:
        _own_streams[device] = torch.cuda.ExternalStream(_make_stream(), device=device)
    return _own_streams[device]


class _Allocation(threading.Thread):
    """Allocates a workspace with its counters zeroed.

    In a thread of its own, which may allocate while others capture graphs, and whose memory is of no pool that graphs
    have. `stream` is the one that will use it: what another stream's tensors left free may still be written. None: one
    that captures will, or that this thread has no handle of, so it is made on one of our own and waited for.
    """

    def __init__(self, device: int, bytes_: int, stream: Optional[int]) -> None:
        super().__init__()
        self._runtime = runtime(device)
        self._device, self._bytes, self._stream = device, bytes_, stream
        self._made: Optional[torch.Tensor] = None
        self._failure: Optional[Exception] = None

    def run(self) -> None:
        try:
            self._made = self._allocated()
        except Exception as error:
            self._failure = error

    def result(self) -> torch.Tensor:
        self.start()
        self.join()
        if isinstance(self._failure, torch.cuda.OutOfMemoryError):
            raise moetune.OutOfMemory(f"moetune.torch: no {self._bytes} bytes for a workspace on device "
                                      f"{self._device}") from self._failure
        if self._failure is not None:
            raise self._failure
        assert self._made is not None
        return self._made

    def _allocated(self) -> torch.Tensor:
        if host_is_device:
            return _aligned(torch.zeros(self._bytes + _ALIGNMENT, dtype=torch.uint8), self._bytes)
        _relax_capture()
        torch.cuda.set_device(self._device)  # or the end of the stream's block makes a context on device 0
        stream = _own_stream(self._device) if self._stream is None else _stream_of(self._device, self._stream)
        with torch.cuda.stream(stream):
            memory = _aligned(torch.empty(self._bytes + _ALIGNMENT, dtype=torch.uint8, device="cuda"), self._bytes)
        self._runtime.init_workspace(memory, stream.cuda_stream)
        if self._stream is None:
            stream.synchronize()
        return memory


def _aligned(memory: torch.Tensor, bytes_: int) -> torch.Tensor:
    begin = -memory.data_ptr() % _ALIGNMENT
    return memory[begin:begin + bytes_]


def _grow_workspace(device: int, stream: int, capturing: bool) -> None:
    bytes_ = _needed_bytes(device)
    if int(_workspace_bytes(device, stream)) < bytes_:
        elsewhere = capturing or stream == _STREAM_PER_THREAD
        _add_workspace(device, stream, _Allocation(device, bytes_, None if elsewhere else stream).result())


def _help(step: int, device: int, operator: str, kernel: str, specialization: str, problem: str,
          extents: Sequence[int], stream: int, capturing: bool) -> Any:
    """Called by the library when a call needs a family, which this returns, or a workspace that is not there."""
    with _lock:
        if capturing and step == _OPEN_FAMILY:
            raise moetune.InvalidArgument(
                f"{operator}: the family {specialization} is not loaded yet, and loading is not possible while a graph "
                "is captured; call the operator once before")
        opened = _open_family(device, operator, kernel, specialization, problem)
        opened.saw(extents)
        _grow_workspace(device, stream, capturing)
        return opened.family._handle if step == _OPEN_FAMILY else None


_set_helper(_help)

# The function behind torch.cuda.is_current_stream_capturing(), which first asks whether there is a GPU.
_cuda_captures: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


def is_capturing() -> bool:
    """Whether the current stream captures a graph."""
    return host_is_device == 0 and bool(_cuda_captures())
