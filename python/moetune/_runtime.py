"""Runtimes, families, choices and launches: moetune.h in Python."""

import enum
import json
import os
from types import TracebackType
from typing import Any, NamedTuple, Optional, Sequence, TypeVar, Union

from moetune._library import function, tvm_ffi, use_cuda

WORKSPACE_COUNTERS = 1 << 20
"""Bytes at the start of a workspace that hold counters."""

_Path = Union[str, "os.PathLike[str]"]

_open = function("open")
_close = function("close")
_is_closed = function("is_closed")
_device = function("device")
_family = function("family")
_refresh = function("refresh")
_prepare = function("prepare")
_generation = function("generation")
_warnings = function("warnings")
_explain = function("explain")
_counts = function("counts")
_write_misses = function("write_misses")
_abi_version = function("abi_version")
_pick = function("pick")
_pick_range = function("pick_range")
_family_workspace = function("family_workspace")
_wanted_workspace = function("wanted_workspace")
_offer_workspace = function("offer_workspace")
_choice_workspace = function("choice_workspace")
_choice_facts = function("choice_facts")
_make_choice = function("make_choice")
_init_workspace = function("init_workspace")
_bind = function("bind")
_make_arguments = function("make_arguments")
_arguments_facts = function("arguments_facts")
_launch = function("launch")
_from_address = function("from_address")


class ChoiceKind(enum.IntEnum):
    """How a choice came about."""

    EXACT = 0
    """The winner of this very cell."""
    NEAREST = 1
    """The winner of a measured cell nearby, which beat the default of this problem."""
    DEFAULT = 2
    """The space's default: too far from anything measured."""
    PINNED = 3
    """MOETUNE_PIN."""


# TVM-FFI crashes on an object of its own without its C++ half, which __new__ makes of any class below tvm_ffi.Object.
# So the public classes are plain ones that hold such an object.
for _name in ("Arguments", "Choice", "Family", "Runtime"):
    tvm_ffi.register_object(f"moetune.{_name}")(type(f"_{_name}Handle", (tvm_ffi.Object,), {}))


class _Holder:
    """Holds an object of the library. Only this module makes one, with _hold."""

    __slots__ = ("_handle",)
    _handle: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise TypeError(f"a {type(self).__name__} is not made by its class; see moetune.open")

    # Called only for attributes that are missing.
    def __getattr__(self, name: str) -> Any:
        if name == "_handle":
            raise TypeError(f"this {type(self).__name__} was made by its class and holds nothing; see moetune.open")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to this process's runtime; it cannot be copied or pickled")


_Held = TypeVar("_Held", bound=_Holder)
_new = object.__new__


def _hold(kind: type[_Held], handle: Any) -> _Held:
    made = _new(kind)
    made._handle = handle
    return made


def _handle_of(value: Any, kind: type[_Holder]) -> Any:
    if isinstance(value, kind):
        return value._handle
    raise TypeError(f"a moetune.{kind.__name__} is expected, not {type(value).__name__}")


class Counts(NamedTuple):
    """Picks by kind, misses, and launches."""

    exact: int
    nearest: int
    defaults: int
    pinned: int
    misses: int
    launches: int


class Arguments(_Holder):
    """A call's tensors, strides and scale. Keeps the tensors that it was made of.

    Family.bind makes one of tensors; from_fields makes one by hand, as C's moetune_arguments.
    """

    __slots__ = ()

    @staticmethod
    def from_fields(tensors: Sequence[Any], integers: Sequence[int], reals: Sequence[float]) -> "Arguments":
        """`tensors` by slot: device addresses, DLPack tensors or None; the call's fields in the kernel's order."""
        handle = _make_arguments([0 if each is None else each for each in tensors], list(integers),
                                 [float(each) for each in reals])
        return _hold(Arguments, handle)

    @property
    def tensors(self) -> tuple[int, ...]:
        """The device addresses by slot."""
        return tuple(_arguments_facts(self._handle)[0])

    @property
    def integers(self) -> tuple[int, ...]:
        """Strides and sizes in the kernel's order."""
        return tuple(_arguments_facts(self._handle)[1])

    @property
    def reals(self) -> tuple[float, ...]:
        """decode_attention: the scale."""
        return tuple(_arguments_facts(self._handle)[2])

    @property
    def extents(self) -> tuple[int, ...]:
        """The greatest extents that the tensors have room for; () if made by hand."""
        return tuple(_arguments_facts(self._handle)[3])


class Choice(_Holder):
    """A variant with its run-time values for given extents. Good until its runtime closes, also after a refresh."""

    __slots__ = ()

    @property
    def entry(self) -> int:
        """The choice's number within its family."""
        return int(_choice_facts(self._handle)[0])

    @property
    def kind(self) -> ChoiceKind:
        """How the choice came about."""
        return ChoiceKind(_choice_facts(self._handle)[1])

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents that it is for; of pick_range the last ones."""
        return tuple(_choice_facts(self._handle)[2:])

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that a launch of it needs."""
        return int(_choice_workspace(self._handle))

    def explain(self) -> dict[str, Any]:
        """Kind, configuration, where and when it was measured, hardware, file."""
        explained: dict[str, Any] = json.loads(_explain(self._handle))
        return explained


class Family(_Holder):
    """A kernel's problems that share what is compiled in, with their cubins loaded. Lives as long as its runtime."""

    __slots__ = ()

    def pick(self, *extents: int, total: int = 0) -> Choice:
        """The choice for these free dimensions (decode_attention: batch, kv_heads, longest context).

        `total` is the sum that tells even batches from ragged ones (decode_attention: tokens of all contexts); 0 is
        for unknown. Raises NotTuned on a miss.
        """
        return _hold(Choice, _pick(self._handle, total, *extents))

    def pick_range(self, *extents: int, last: int, total: int = 0) -> Choice:
        """One choice for all of a range, as the last extent grows to `last`, for a graph that is captured once.

        It is used as few cells of the table as possible from a cell that it serves; of equal ones the range table's
        least loss decides. Its kind is "exact" only if it is so in every cell of the range.
        `total` is as of pick(), at the range's end: the whole range counts as even or ragged as the batch is there.
        """
        return _hold(Choice, _pick_range(self._handle, last, total, *extents))

    def choice(self, entry: int, kind: int, extents: Sequence[int]) -> Choice:
        """A choice from the plain values of one that this family gave, such as were kept beside a captured graph."""
        return _hold(Choice, _make_choice(self._handle, entry, kind, list(extents)))

    def workspace_bytes(self, *extents: int) -> int:
        """Bytes that suffice for every choice within `extents`, now and after every later refresh."""
        return int(_family_workspace(self._handle, *extents))

    def offer_workspace(self, bytes_: int, *extents: int) -> None:
        """Raises what workspace_bytes(*extents) promises: the next refresh takes in winners that need up to that.

        From now on every choice within `extents` is launched with at least so large a workspace. Graphs captured before
        keep theirs. Raises OutOfMemory if it is less than what was promised or is needed now.
        """
        _offer_workspace(self._handle, bytes_, *extents)

    def wanted_workspace(self, *extents: int) -> int:
        """Bytes to offer, so that every winner within `extents` that the last refresh read can be picked."""
        return int(_wanted_workspace(self._handle, *extents))

    def bind(self, *tensors: Any, **options: Any) -> Arguments:
        """Reads shapes, strides and dtypes of DLPack tensors, in the order of the kernel's slots, None for absent.

        `options` say what shapes do not (decode_attention: layout="tokens_first" or "heads_first", scale=0.088,
        kv_settled=True).
        """
        text = ",".join(f"{name}={int(value) if isinstance(value, bool) else value}"
                        for name, value in options.items()) if options else ""
        return _hold(Arguments, _bind(self._handle, text, *tensors))

    def launch(self, choice: Choice, arguments: Arguments, workspace: Any = None, stream: Any = None) -> None:
        """Enqueues a choice. Legal under graph capture.

        `workspace` is a contiguous DLPack tensor on the runtime's device, aligned to 256 bytes; one a stream. `stream`
        is an address or an object with __cuda_stream__; None is the current stream of the framework that `workspace`
        is of, and is refused without a workspace.
        """
        _launch(self._handle, _handle_of(choice, Choice), _handle_of(arguments, Arguments), workspace, stream)


class Runtime(_Holder):
    """Opened results for one device. A context manager; all methods may be called from any thread."""

    __slots__ = ()

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Unloads all; what was launched must have ended.

        Families and choices raise InvalidArgument from then on; replay no captured graph.
        """
        _close(self._handle)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return bool(_is_closed(self._handle))

    @property
    def device(self) -> int:
        """The device that it was opened for."""
        return int(_device(self._handle))

    def family(self, kernel: str, specialization: str = "") -> Family:
        """Finds everything stored for a family and loads its cubins: the slow path, once a model."""
        return _hold(Family, _family(self._handle, kernel, specialization))

    def refresh(self, generation: str = "") -> None:
        """Takes in what the paths hold now, or moves to a generation that this runtime has held or prepared."""
        _refresh(self._handle, generation)

    def prepare(self) -> str:
        """Reads the paths and loads what is new, but serves on as before. Returns the generation for refresh()."""
        return str(_prepare(self._handle))

    @property
    def generation(self) -> str:
        """The digest of the present state, equal on all ranks that see equal files on equal hardware."""
        return str(_generation(self._handle))

    @property
    def warnings(self) -> list[str]:
        """What could not be used, and why."""
        return str(_warnings(self._handle)).splitlines()

    def init_workspace(self, workspace: Any, stream: Any = None) -> None:
        """Zeroes the counters of a workspace, once, before the first launch that uses it."""
        _init_workspace(self._handle, workspace, stream)

    @property
    def counts(self) -> Counts:
        """Picks by kind, misses and launches so far."""
        return Counts(*_counts(self._handle))

    def write_misses(self, path: _Path) -> None:
        """Writes the shapes that were picked without a measurement of their own, for `moetune search --from-misses`."""
        _write_misses(self._handle, os.fsencode(path))


def open(paths: Sequence[_Path] = (), device: int = 0, *, allow_recorded: bool = False,
         trusted_keys: Sequence[_Path] = ()) -> Runtime:
    """Opens caches, packs and folders of them; earlier ones win. None: the user's cache and the packs of the package.

    `device` is a CUDA ordinal; -1 is that of the thread's current context. `allow_recorded` is for tests. With
    `trusted_keys`, each 64 digits or a file of `moetune cache new-key`, a pack must be signed by one of them.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise TypeError("paths must be a list of paths, not one path")
    if isinstance(trusted_keys, (str, os.PathLike)):
        raise TypeError("trusted_keys must be a list of keys, not one key")
    use_cuda()
    return _hold(Runtime, _open([os.fsencode(path) for path in paths], device, allow_recorded,
                                [os.fsencode(key) for key in trusted_keys]))


def from_address(address: int, shape: Sequence[int], dtype: str, *, strides: Sequence[int] = (), device: int = 0,
                 owner: Any = None) -> tvm_ffi.Tensor:
    """A tensor over device memory that no framework describes, or of another dtype than the array states.

    `strides` are in elements; none for contiguous. `owner` is kept until the tensor is gone.
    """
    tensor: tvm_ffi.Tensor = _from_address(address, tvm_ffi.Shape(tuple(shape)), tvm_ffi.dtype(dtype),
                                           tvm_ffi.Shape(tuple(strides)), device, owner)
    return tensor


def abi_version() -> tuple[int, int]:
    """Major and minor version of the loaded library's ABI."""
    version = int(_abi_version())
    return version >> 16, version & 0xFFFF
