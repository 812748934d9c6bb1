"""Defines torch.ops.moetune.*: the schemas, what they return, and their kernels in Python for older PyTorch."""

import contextlib
import os
from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch

import moetune
from moetune import _serving
from moetune._library import function, tvm_ffi

_operate = function("operate")
_check = function("operator_check")
_outputs = function("operator_outputs")
_refuse_gradient = function("operator_refuse_gradient")
_tensor = function("operator_tensor")
_overload_texts = function("operator_overloads")
_register_kernels = function("torch_register")


def _like_q(q: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def _wide_like_q(q: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty(q.shape, dtype=torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype, device=q.device)


def _ids_and_weights(logits: torch.Tensor, top_k: int, *_: Any, ids_type: str = "i32",
                     **__: Any) -> tuple[torch.Tensor, ...]:
    shape = (logits.shape[0], top_k)
    ids = logits.new_empty(shape, dtype=torch.int64 if ids_type == "i64" else torch.int32)
    return ids, logits.new_empty(shape, dtype=torch.float32)


def _integers(logits: torch.Tensor, *shapes: Sequence[int]) -> tuple[torch.Tensor, ...]:
    return tuple(logits.new_empty(shape, dtype=torch.int32) for shape in shapes)


def _planned(like: torch.Tensor, experts: Any, top_k: Any, align: int,
             last: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
    """A plan of padded segments for the rows of `like`; `last` has its last output's size."""
    slots = like.shape[0] * top_k
    places = (slots + torch.sym_min(experts, slots) * (align - 1) + align - 1) // align * align
    return _integers(like, (experts,), (experts + 1,), (places,), (like.shape[0], top_k), (last(experts, places, align),))


def _routing(last: Callable[..., Any]) -> Callable[..., Any]:
    def make(logits: torch.Tensor, top_k: int, *, align: int = 16, **options: Any) -> tuple[torch.Tensor, ...]:
        return (*_ids_and_weights(logits, top_k, **options), *_planned(logits, logits.shape[1], top_k, align, last))
    return make


def _masked_routing(logits: torch.Tensor, top_k: int, segment: int, **options: Any) -> tuple[torch.Tensor, ...]:
    tokens, experts = logits.shape
    plan = _integers(logits, (experts,), (experts * segment,), (tokens, top_k))
    return (*_ids_and_weights(logits, top_k, **options), *plan)


def _rank_routing(logits: torch.Tensor, top_k: int, ranks: int, *, ids_type: str = "i64",
                  **_: Any) -> tuple[torch.Tensor, ...]:
    tokens, experts = logits.shape
    return (*_ids_and_weights(logits, top_k, ids_type=ids_type), *_integers(logits, (experts,), (ranks,)),
            logits.new_empty((tokens, ranks), dtype=torch.bool))


def _plan(last: Callable[..., Any]) -> Callable[..., Any]:
    def make(ids: torch.Tensor, num_experts: int, *, align: int = 16, **_: Any) -> tuple[torch.Tensor, ...]:
        return _planned(ids, num_experts, ids.shape[1], align, last)
    return make


def _masked_plan(ids: torch.Tensor, num_experts: int, segment: int, **_: Any) -> tuple[torch.Tensor, ...]:
    return _integers(ids, (num_experts,), (num_experts * segment,), ids.shape)


def _rows(x: torch.Tensor, sorted: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return x.new_empty((sorted.shape[0], x.shape[1]), dtype=torch.bfloat16)


def _rows_and_scales(x: torch.Tensor, sorted: torch.Tensor, *_: Any, scale: str = "group", scale_layout: str = "row",
                     **__: Any) -> tuple[torch.Tensor, ...]:
    (places,), hidden = sorted.shape, x.shape[1]
    groups = 1 if scale == "token" else (hidden + 127) // 128
    shape = (places, groups) if scale_layout == "row" else (groups, (places + 3) // 4 * 4)
    return x.new_empty((places, hidden), dtype=torch.float8_e4m3fn), x.new_empty(shape, dtype=torch.float32)


def _sums(rows: torch.Tensor, inverse: torch.Tensor, *_: Any) -> torch.Tensor:
    return rows.new_empty((inverse.shape[0], rows.shape[1]), dtype=torch.bfloat16)


def _experts(x: torch.Tensor, sorted: Optional[torch.Tensor], _offsets: torch.Tensor, inverse: Optional[torch.Tensor],
             _weights: Optional[torch.Tensor], w_gate_up: Optional[torch.Tensor], w_down: Optional[torch.Tensor],
             **_: Any) -> torch.Tensor:
    rows = (inverse if inverse is not None else sorted if sorted is not None else x).shape[0]
    if w_gate_up is None:
        assert w_down is not None
        width = w_down.shape[1] * (16 if w_down.dtype == torch.uint8 else 1)
    elif w_down is None:
        width = w_gate_up.shape[1] * 8 if w_gate_up.dtype == torch.uint8 else w_gate_up.shape[1] // 2
    else:
        width = x.shape[1]
    return x.new_empty((rows, width), dtype=torch.bfloat16 if x.dtype == torch.float8_e4m3fn else x.dtype)


class _Overload(NamedTuple):
    number: int  # the library's
    schema: str
    make: Optional[Callable[..., Any]]  # the outputs, uninitialized; None: the caller has them


_MAKES: dict[str, Callable[..., Any]] = {
    "decode_attention": _like_q,
    "prefill_attention": _wide_like_q,
    "route": _routing(lambda _, places, align: places // align),
    "route_rows": _routing(lambda _, places, __: places),
    "route_ends": _routing(lambda experts, *_: experts),
    "route_masked": _masked_routing,
    "route_ranks": _rank_routing,
    "route_weights": _ids_and_weights,
    "route_plan": _plan(lambda _, places, align: places // align),
    "route_plan_rows": _plan(lambda _, places, __: places),
    "route_plan_ends": _plan(lambda experts, *_: experts),
    "route_plan_masked": _masked_plan,
    "moe_dispatch": _rows,
    "moe_dispatch_e4m3": _rows_and_scales,
    "moe_combine": _sums,
    "moe_experts": _experts,
}


def _overload_of(number: int, text: str) -> tuple[str, _Overload]:
    """Of a text of the library: "route.out(Tensor logits, int top_k, ...) -> ()"."""
    name, parenthesis, schema = text.partition("(")
    operator, _, kind = name.partition(".")
    if kind == "out" or operator in _MAKES:
        return name, _Overload(number, parenthesis + schema, None if kind == "out" else _MAKES[operator])
    return name, _Overload(number, parenthesis + schema, lambda *given, **options: _Kernel(name).made(given, options))


_OVERLOADS = dict(_overload_of(number, str(text)) for number, text in enumerate(_overload_texts()))

_registered: list[Any] = []
_Library: Any = torch.library.Library


class _UnknownSize(Exception):
    """A symbolic size that has no value yet."""


def _present(size: Any, unknown: Optional[int] = None) -> Any:
    """The value that a size has now, without the guard that int() of a symbolic one adds."""
    if not isinstance(size, torch.SymInt):
        return size
    if size.node.has_hint():
        return int(size.node.hint)
    if unknown is None:
        raise _UnknownSize
    return unknown


def _described(value: Any, unknown: Optional[int] = None) -> Any:
    """A fake tensor in terms of the library, or another argument's present value. `unknown`: what sizes without one are
    taken for."""
    if isinstance(value, (list, tuple)):
        return [_described(each, unknown) for each in value]
    if not isinstance(value, torch.Tensor):
        return _present(value, unknown)
    sizes, strides = (tvm_ffi.Shape(tuple(_present(size, unknown) for size in each))
                      for each in (value.shape, value.stride()))
    try:
        dtype = tvm_ffi.dtype(str(value.dtype).removeprefix("torch."))
    except ValueError:
        dtype = tvm_ffi.dtype("handle")  # which no kernel takes
    return _tensor(sizes, strides, dtype, value.device.type in ("cuda", "meta"), value.device.index or 0)


class _Kernel:
    """An overload in Python: its arguments go to the library in the schema's order."""

    def __init__(self, name: str) -> None:
        operator, _, overload = name.partition(".")
        self.operator = getattr(torch.ops.moetune, operator)
        arguments = getattr(self.operator, overload or "default")._schema.arguments
        self.index = _OVERLOADS[name].number
        self.kinds = [str(argument.type) for argument in arguments]
        self.is_list = self.kinds[0] == "str"  # launch
        self.places = {argument.name: place for place, argument in enumerate(arguments)}
        self.defaults = [argument.default_value for argument in arguments]
        self.written = [argument.name for argument in arguments
                        if argument.alias_info is not None and argument.alias_info.is_write]

    def values(self, given: Sequence[Any], options: dict[str, Any]) -> list[Any]:
        """The arguments in the schema's order. Raises if one of them requires a gradient and grad mode is on."""
        values = [*given, *self.defaults[len(given):]]
        for name, value in options.items():
            values[self.places[name]] = value
        for place, value in enumerate(values):
            values[place] = ([self._without_gradient(place, each) for each in value] if isinstance(value, (list, tuple))
                             else self._without_gradient(place, value))
        return values

    def _without_gradient(self, place: int, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        if torch.is_grad_enabled():
            _refuse_gradient(self.index, place)
        return value.detach()

    def tensors(self, values: list[Any]) -> list[Any]:
        """Of the arguments, also those in lists; None for what is missing."""
        return [each for value, kind in zip(values, self.kinds) if "Tensor" in kind
                for each in (value if isinstance(value, (list, tuple)) else (value,))]

    def made(self, given: Sequence[Any], options: dict[str, Any]) -> Any:
        """Uninitialized outputs of a described kernel. A size is an argument's where both are one dimension."""
        values = self.values(given, options)
        shown, tensors = (_described(each, 64) for each in values), self.tensors(values)
        outputs, fixed = _outputs(self.index, False, _serving.host_is_device, *shown)

        def size_at(place: int) -> Any:
            return tensors[place // 8].shape[place % 8]

        if any(place < 0 for _, _, places in outputs for place in places):
            for place in fixed:
                int(size_at(place))  # a cubin has it compiled in
        like = next(each for each in tensors if each is not None)
        made = [like.new_empty([size if place < 0 else size_at(place) for size, place in zip(sizes, places)],
                               dtype=getattr(torch, str(dtype))) for dtype, sizes, places in outputs]
        return made if self.is_list else made[0] if len(made) == 1 else tuple(made)

    def check(self, given: Sequence[Any], options: dict[str, Any]) -> None:
        """Raises what a call would, whose outputs may be missing yet."""
        _check(self.index, False, _serving.host_is_device, *self.values(given, options))

    def check_fake(self, given: Sequence[Any], options: dict[str, Any]) -> None:
        """The same of fake tensors, if all their sizes are known."""
        try:
            values = [_described(value) for value in self.values(given, options)]
        except _UnknownSize:
            return
        _check(self.index, False, _serving.host_is_device, *values)

    def __call__(self, *given: Any, **options: Any) -> None:
        values = self.values(given, options)
        first = next((each for each in self.tensors(values) if each is not None), None)
        assert first is not None  # of which the dispatcher knew the device
        # A thread without a context has device 0, and the launch would leave it with the context of another one.
        elsewhere = first.is_cuda and first.device.index != torch.cuda.current_device()
        with torch.cuda.device(first.device) if elsewhere else contextlib.nullcontext():
            launched = _operate(self.index, first.is_cuda and _serving.is_capturing(), _serving.host_is_device, *values)
        if not launched and not self.is_list:  # no tokens
            made = len(self.operator.default._schema.returns)  # the others are updated: caches and residuals
            for name in self.written[:made]:
                if options.get(name) is not None and options[name].numel() > 0:
                    options[name].zero_()


def _functional(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    own, out = _Kernel(name), _Kernel(f"{name.partition('.')[0]}.out")

    def kernel(*given: Any, **options: Any) -> Any:
        own.check(given, options)
        made = make(*given, **options)
        outputs = made if isinstance(made, tuple) else (made,)
        out(*given, **dict(zip(out.written, outputs)), **options)  # of launch one list
        return made

    return kernel


def _fake(name: str, make: Optional[Callable[..., Any]]) -> Callable[..., Any]:
    own = _Kernel(name)

    def kernel(*given: Any, **options: Any) -> Any:
        own.check_fake(given, options)
        return None if make is None else make(*given, **options)

    return kernel


def _with_one_error(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """As the library's own kernels raise: a RuntimeError whose text begins with the class."""
    def run(*given: Any, **options: Any) -> Any:
        try:
            return kernel(*given, **options)
        except moetune.Error as error:
            raise RuntimeError(f"moetune.{type(error).__name__}: {error}") from error
    return run


def outputs_for(name: str, *given: Any, **options: Any) -> Any:
    """Uninitialized outputs of an operator."""
    make = _OVERLOADS[name].make
    assert make is not None, name
    return make(*given, **options)


def _register(key: str) -> None:
    """Kernels of the library if this PyTorch's stable C interface has what they need (2.10), else Python's."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    wanted = os.environ.get("MOETUNE_TORCH_KERNELS") != "python"
    if wanted and _register_kernels(folder, key, bool(_serving.host_is_device)):
        return
    library = _Library("moetune", "FRAGMENT")
    for name, (_, _, make) in _OVERLOADS.items():
        library.impl(name, _with_one_error(_Kernel(name) if make is None else _functional(name, make)), key)
    _registered.append(library)


def _define() -> None:
    library = _Library("moetune", "DEF")
    for name, (_, schema, make) in _OVERLOADS.items():
        library.define(name + schema, tags=(torch.Tag.needs_fixed_stride_order,))
        torch.library.register_fake(f"moetune::{name}", _with_one_error(_fake(name, make)), lib=library)
    _registered.append(library)


_define()
for _key in ("CUDA", "CPU"):  # with tensors of the CPU they raise WrongDevice
    _register(_key)
