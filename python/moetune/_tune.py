"""moetune.tune(): tunes a CUDA kernel of one's own from Python. Writes a folder with kernel.json (docs/new_kernel.md),
drives the tool, and launches what it found by the runtime."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from moetune import _errors, _tool
from moetune._arrays import Array, Scalar, argument_of
from moetune._kernel_folder import Judge, Launch, Size, Slot, is_constant, stated, write_folder
from moetune._signature import Parameter, local_sources, parameters_of

_Value = Union[int, str]
_Path = Union[str, "os.PathLike[str]"]
_Sizes = Union[None, Size, Sequence[Size]]

_named: list[str] = []  # the folder that a TunedKernel has put into MOETUNE_KERNELS last
_MOST_TRIED = 1_000_000  # configurations, while a default is looked for
_BAD_INPUT, _BROKEN = 2, 3  # exit codes of the tool: what was asked for, and the machine
_NAME = re.compile(r"[A-Za-z_]\w{0,30}", re.ASCII)


class TunedKernel:
    """The stored winner. Called as the kernel is, with arrays on a GPU and numbers, it enqueues one launch."""

    def __init__(self, name: str, problem: str, folder: Path, slots: Sequence[Slot], cache: Optional[_Path],
                 device: int) -> None:
        self._name, self._problem, self._folder, self._slots = name, problem, folder, slots
        self._cache, self._device = cache, device
        self._family: Any = None

    def __call__(self, *args: Any, stream: Any = 0, cmem_args: Optional[Mapping[str, Any]] = None) -> None:
        """`stream` is an address, or an object with __cuda_stream__; 0 is the default stream. `cmem_args` are arrays on
        the GPU for the same symbols."""
        symbols = [slot.name for slot in self._slots if is_constant(slot)]
        constants = cmem_args or {}
        if len(args) != len(self._slots) - len(symbols):
            raise _errors.InvalidArgument(f"{self._name} takes {len(self._slots) - len(symbols)} arguments, not "
                                          f"{len(args)}")
        if sorted(constants) != sorted(symbols):
            raise _errors.InvalidArgument(f"cmem_args has {', '.join(constants) or 'nothing'}; {self._name} takes "
                                          f"{', '.join(symbols) or 'nothing'}")
        tensors, options = [], {}
        for slot, value in zip(self._slots, [*args, *(constants[name] for name in symbols)]):
            if isinstance(slot, Array):
                tensors.append(slot.on_device(value, self._device))
            elif slot.is_stated:
                options[slot.name] = slot.plain(value)
            else:
                slot.require_same(value)
        if self._family is None:
            self._open()
        self._family.launch(self._choice, self._family.bind(*tensors, **options), None, stream)

    def _open(self) -> None:
        import moetune

        # Kernels of one name may follow one another; what a runtime has read of the others stays.
        os.environ["MOETUNE_KERNELS"] = f"{self._folder}:{_users_folders(os.environ)}"
        _named[:] = [str(self._folder)]
        self._runtime = moetune.open([] if self._cache is None else [self._cache], self._device)
        self._family = self._runtime.family(self._name, self._problem)
        self._choice = self._family.pick()


@dataclass
class Tuned:
    """What tune() found. `folder` holds kernel.json, sources and arrays; `document` is the tool's whole answer."""

    config: dict[str, _Value]
    time_us: float
    default_time_us: Optional[float]
    kernel: TunedKernel = field(repr=False)
    folder: Path
    document: dict[str, Any] = field(repr=False)


def _read_source(source: _Path) -> tuple[str, Optional[Path]]:
    if isinstance(source, str) and "\n" in source:
        return source, None
    path = Path(source)
    if not path.is_file():
        raise _errors.InvalidArgument(f"there is no file {path}; a source that is given as text has several lines")
    return path.read_text(), path


def _plain_value(name: str, value: Any) -> _Value:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, str):
        return value
    raise _errors.InvalidArgument(f"'{name}' has the value {value!r}: values are integers, or names such as float4")


def _listed(value: Any) -> list[Any]:
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else [value]


def _parameters(given: Any) -> dict[str, list[_Value]]:
    if not given:
        raise _errors.InvalidArgument("params is missing: {\"block_size_x\": [32, 64, 128]}")
    if not isinstance(given, Mapping):
        raise _errors.InvalidArgument("params must have a list of values for each name: {\"block_size_x\": [32, 64]}")
    return {str(key): [_plain_value(key, value) for value in _listed(values)] for key, values in given.items()}


def _sizes(what: str, sizes: Sequence[Any]) -> list[Size]:
    plain = [one.item() if hasattr(one, "item") else one for one in sizes]
    for one in plain:
        if not isinstance(one, (int, str)):
            raise _errors.InvalidArgument(f"{what} has {one!r}: integers, and expressions as text, are wanted")
    return plain


def _restrictions(given: Union[str, Sequence[str]]) -> list[str]:
    restrictions = _listed(given)
    for one in restrictions:
        if not isinstance(one, str):
            raise _errors.InvalidArgument("a restriction must be text, as \"block_size_x * block_size_y <= 1024\": what "
                                          f"{one!r} does cannot be seen")
    return restrictions


def _first_legal(parameters: Mapping[str, Sequence[_Value]], restrictions: Sequence[str]) -> dict[str, _Value]:
    """In the order of the values. The restrictions are the caller's own Python."""
    known = {"min": min, "max": max, "abs": abs, "all": all, "any": any, "sum": sum, "len": len, "range": range,
             "int": int, "list": list, "ceil_div": lambda a, b: -(-a // b), "log2": lambda a: int(a).bit_length() - 1,
             "is_pow2": lambda a: a > 0 and a & (a - 1) == 0, "ceil": math.ceil, "floor": math.floor}
    try:
        compiled = [compile(one.strip(), "a restriction", "eval") for one in restrictions]
    except SyntaxError as error:
        raise _errors.InvalidArgument(f"a restriction is no expression of Python: {error.text}") from None
    for values in itertools.islice(itertools.product(*parameters.values()), _MOST_TRIED):
        config = dict(zip(parameters, values))
        try:
            if all(eval(one, {"__builtins__": known, **config}) for one in compiled):
                return config
        except ArithmeticError:  # as a division by zero, which the tool takes for broken, too
            continue
        except (NameError, TypeError, AttributeError) as error:
            raise _errors.InvalidArgument(f"a restriction cannot be evaluated: {error}") from None
    raise _errors.InvalidArgument("no configuration satisfies the restrictions; if there is one, give it as default=")


def _mark_outputs(slots: Sequence[Slot], signature: Optional[Sequence[Parameter]], outputs: Optional[Sequence[int]],
                  in_out: Sequence[int], reference: Any) -> None:
    if outputs is None and isinstance(reference, (list, tuple)) and len(reference) == len(slots):
        outputs = [at for at, one in enumerate(reference) if one is not None]
    if outputs is None:
        if signature is None:
            raise _errors.InvalidArgument("the source has no such __global__ function; say which arguments it writes: "
                                          "outputs=[0]")
        outputs = [at for at, parameter in enumerate(signature) if parameter.is_written]
    for role, positions in (("output", outputs), ("inout", in_out)):
        for at in positions:
            slot = slots[at] if -len(slots) <= at < len(slots) else None
            if not isinstance(slot, Array):
                raise _errors.InvalidArgument(f"argument {at} is no array, and cannot be written")
            slot.role = role
    written = [slot for slot in slots if isinstance(slot, Array) and slot.role != "input"]
    if not written:
        raise _errors.InvalidArgument("the kernel writes nothing: every pointer is const. Say otherwise by outputs=[0]")
    for slot in written:
        if slot.element.startswith("complex"):
            raise _errors.InvalidArgument(f"'{slot.name}' holds {slot.element}: outputs are judged as real numbers")


def _check_names(slots: Sequence[Slot], parameters: Mapping[str, Any]) -> None:
    names = [slot.name for slot in slots]
    for name in names:
        if not _NAME.fullmatch(name):
            raise _errors.InvalidArgument(f"'{name}' is no name of at most 31 letters, digits and _")
        if name in parameters:
            raise _errors.InvalidArgument(f"'{name}' is a parameter that is tuned, and an argument of the kernel")
        if names.count(name) > 1:
            raise _errors.InvalidArgument(f"two arguments of the kernel, or of cmem_args, are named '{name}'")


def _grid(grid: _Sizes, problem_size: _Sizes, divisors: Sequence[Optional[Sequence[Size]]], names: Sequence[str],
          parameters: Mapping[str, Any]) -> list[Size]:
    if grid is not None:
        return _listed(grid)
    if problem_size is None:
        raise _errors.InvalidArgument("grid is missing: blocks along x, y and z, or problem_size and grid_div_x as of "
                                      "Kernel Tuner")
    sizes: list[Size] = []
    for size, divisor, name in zip(_listed(problem_size), divisors, names):
        if divisor is None:
            divisor = [name] if name in parameters else []
        by = " * ".join(f"({one})" for one in _listed(divisor))
        sizes.append(f"ceil_div({size}, {by})" if by else size)
    return sizes


def _block(block: _Sizes, names: Sequence[str], parameters: Mapping[str, Any]) -> list[Size]:
    if block is not None:
        return _listed(block)
    found: list[Size] = [name if name in parameters else 1 for name in names]
    if found[0] == 1:
        raise _errors.InvalidArgument(f"block is missing: threads along x, y and z; or tune a parameter '{names[0]}'")
    return found


def _users_folders(environment: Mapping[str, str]) -> str:
    folders = environment.get("MOETUNE_KERNELS", "").split(":")
    return ":".join(folder for folder in folders if folder not in _named)


def _run(command: Sequence[str], verbose: bool) -> dict[str, Any]:
    """The document of `moetune COMMAND`, whose other lines go to this process's stderr."""
    if not _tool.TOOL.exists():
        raise _errors.Unsupported(f"this package was built without the tool ({_tool.TOOL})")
    environment = _tool.environment()
    environment["MOETUNE_KERNELS"] = _users_folders(environment)
    last: list[str] = []
    with subprocess.Popen([str(_tool.TOOL), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", env=environment) as process:
        def show() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                last[:] = [*last[-1:], line.strip()]
                if verbose:
                    sys.stderr.write(line)

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        assert process.stdout is not None
        text = process.stdout.read()
        thread.join()
    why = last[-1].removeprefix("moetune: ") if last else f"the tool ended with {process.returncode}"
    if process.returncode == _BAD_INPUT:
        raise _errors.InvalidArgument(why)
    if process.returncode == _BROKEN:
        raise _errors.Error(why)
    try:
        document = json.loads(text)
    except ValueError:
        raise _errors.Error(why) from None
    if document.get("best"):
        return dict(document)
    raise _errors.NotTuned(f"no configuration works; the last trial: {last[0]}" if len(last) > 1 else why)


def _default_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "moetune" / "kernels"


def tune(
    source: _Path,
    kernel: str,
    args: Sequence[Any],
    params: Optional[Mapping[str, Sequence[Any]]] = None,
    *,
    grid: _Sizes = None,
    block: _Sizes = None,
    shared: Optional[Size] = None,
    restrictions: Union[str, Sequence[str]] = (),
    reference: Union[None, Callable[..., Any], Any] = None,
    outputs: Optional[Sequence[int]] = None,
    in_out: Sequence[int] = (),
    error: Optional[float] = None,
    default: Optional[Mapping[str, Any]] = None,
    budget: int = 200,
    time: Union[None, str, float] = None,
    strategy: str = "auto",
    seed: int = 1,
    device: Optional[int] = None,
    cache: Optional[_Path] = None,
    folder: Optional[_Path] = None,
    name: Optional[str] = None,
    verbose: bool = True,
    tune_params: Optional[Mapping[str, Sequence[Any]]] = None,
    problem_size: _Sizes = None,
    grid_div_x: Optional[Sequence[Size]] = None,
    grid_div_y: Optional[Sequence[Size]] = None,
    grid_div_z: Optional[Sequence[Size]] = None,
    block_size_names: Sequence[str] = ("block_size_x", "block_size_y", "block_size_z"),
    answer: Optional[Sequence[Any]] = None,
    atol: Optional[float] = None,
    cmem_args: Optional[Mapping[str, Any]] = None,
) -> Tuned:
    """Finds the fastest configuration of a CUDA kernel, checks it, and stores it in the cache.

    `source` is a file, or the text itself; parameters are macros in it. `kernel` is the function, or an instance of a
    template: "gemm<float, tile>". `args` are what it is called with: arrays, which may speak DLPack, and numbers.
    docs/python.md describes the others; those behind `verbose` are Kernel Tuner's.

    Raises InvalidArgument for what cannot be tuned as it is described, NotTuned if no configuration works, and Error
    for all else that the tool reports.
    """
    parameters = _parameters(params if params is not None else tune_params)
    if seed < 0:
        raise _errors.InvalidArgument(f"seed must be at least 0 (got {seed})")
    rules = _restrictions(restrictions)
    usual = ({key: _plain_value(key, value) for key, value in default.items()} if default is not None
             else _first_legal(parameters, rules))
    text, path = _read_source(source)
    signature = parameters_of(text, kernel)
    if signature is not None and len(signature) != len(args):
        raise _errors.InvalidArgument(f"{kernel} has {len(signature)} parameters, and args has {len(args)}")
    slots = stated([argument_of(value, at, signature[at] if signature else None) for at, value in enumerate(args)])
    right = answer if answer is not None else reference
    _mark_outputs(slots, signature, outputs, in_out, right)
    slots += [Array(symbol, value, is_constant=True) for symbol, value in (cmem_args or {}).items()]
    _check_names(slots, parameters)
    label = name or kernel.split("<")[0].split("::")[-1]
    if not _NAME.fullmatch(label):
        raise _errors.InvalidArgument(f"'{label}' is no name of at most 31 letters, digits and _: give another, name=")
    space = {"parameters": [{"name": key, "values": values} for key, values in parameters.items()],
             "constraints": [{"expr": rule, "why": "a restriction"} for rule in rules],
             "defaults": [{"config": usual}]}
    blocks = _grid(grid, problem_size, (grid_div_x, grid_div_y, grid_div_z), block_size_names, parameters)
    launch = Launch(kernel, _sizes("grid", blocks), _sizes("block", _block(block, block_size_names, parameters)),
                    None if shared is None else _sizes("shared", [shared])[0])
    kernels = write_folder(label, text, local_sources(text, path), slots, launch, space, Judge(right, error, atol),
                           ",".join(f"{key}={value}" for key, value in usual.items()), seed,
                           Path(folder) if folder is not None else _default_folder())
    command = ["search", label, "--kernels", str(kernels), "--budget", str(budget), "--strategy", strategy, "--seed",
               str(seed), "--json", "--verbose"]
    if time is not None:
        command += ["--time", time if isinstance(time, str) else f"{time}s"]
    if device is not None:
        command += ["--device", f"cuda:{device}"]
    if cache is not None:
        command += ["--cache", os.fspath(cache)]
    document = _run(command, verbose)
    best = document["best"]
    found = dict(one.split("=", 1) for one in best["config"].split(","))
    config = {key: next(value for value in values if str(value) == found[key]) for key, values in parameters.items()}
    launcher = TunedKernel(label, document["problem"], kernels, slots, cache, device or 0)
    return Tuned(config, best["time_us"], (document.get("default") or {}).get("time_us"), launcher, kernels / label,
                 document)
