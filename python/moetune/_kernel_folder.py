"""Writes the folder of a kernel that tune() tunes: kernel.json beside sources and arrays (docs/new_kernel.md)."""

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence, Union

from moetune import _errors
from moetune._arrays import Array, Scalar, numpy_module

Size = Union[int, str]
Slot = Union[Array, Scalar]

# What an output may be off by, as a share of its largest value, if nobody says.
_ERRORS = {"f64": 1e-10, "f32": 1e-4, "f16": 2e-3, "bf16": 1e-2, "e4m3": 0.1}
_MOST_CALL_INTEGERS, _MOST_CALL_REALS = 24, 4


class Launch(NamedTuple):
    """How the kernel is launched, in expressions of its parameters and of its arguments that are integers."""

    entry: str
    grid: Sequence[Size]
    block: Sequence[Size]
    shared: Optional[Size]


class Judge(NamedTuple):
    """What is right, and how far a floating-point output may be off: a share of its largest value, or absolutely."""

    reference: Any
    error: Optional[float]
    atol: Optional[float]


def is_constant(slot: Slot) -> bool:
    return isinstance(slot, Array) and slot.is_constant


def stated(slots: Sequence[Slot]) -> list[Slot]:
    """The same, with as many numbers stated by each call as a call has room for."""
    room = {False: _MOST_CALL_INTEGERS, True: _MOST_CALL_REALS}
    result: list[Slot] = []
    for slot in slots:
        if isinstance(slot, Scalar) and slot.can_be_stated() and room[slot.is_real] > 0:
            room[slot.is_real] -= 1
            slot = slot._replace(is_stated=True)
        result.append(slot)
    return result


def _contents(slots: Sequence[Slot], seed: int, twice: bool) -> list[list[Any]]:
    """By argument, the contents of an input: those that were given and, if there are to be two, those backwards from some
    element on. Integers may be positions in something, and stay as they are, as constants do."""
    np = numpy_module()
    random = np.random.default_rng(seed)
    contents: list[list[Any]] = []
    for slot in slots:
        if not isinstance(slot, Array) or slot.role == "output":
            contents.append([])
            continue
        other = slot.content
        if slot.is_float and not slot.is_constant:
            other = np.roll(slot.content.reshape(-1)[::-1], random.integers(slot.content.size)).reshape(slot.shape)
        contents.append([slot.content, other] if twice else [slot.content])
    return contents


def _by_output(returned: Any, slots: Sequence[Slot]) -> list[Any]:
    """By written argument, of a single array, one for each output, or one (or None) for each argument."""
    written = [at for at, slot in enumerate(slots) if isinstance(slot, Array) and slot.role != "input"]
    several = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(several) == len(slots) and len(several) != len(written):
        several = [several[at] for at in written]
    if len(several) != len(written) or any(one is None for one in several):
        raise _errors.InvalidArgument(f"the reference gives {len(several)} arrays, and the kernel writes {len(written)}")
    return several


def _answers(reference: Any, slots: Sequence[Slot], contents: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """By written argument, what is right for each of the contents."""
    written = [slot for slot in slots if isinstance(slot, Array) and slot.role != "input"]
    sets = max((len(one) for one in contents), default=1)
    answers: list[list[Any]] = [[] for _ in written]
    for number in range(max(sets, 1)):
        returned = reference
        if callable(reference):
            values = [slot.value if isinstance(slot, Scalar) else
                      slot.values(held[number] if held else slot.content) for slot, held in zip(slots, contents)]
            returned = reference(*values)
        for slot, answer, so_far in zip(written, _by_output(returned, slots), answers):
            so_far.append(slot.answer(answer))
    return answers


class _Writer:
    """One folder on its way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digest = hashlib.sha256()

    def text(self, name: str, text: str) -> None:
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(text)
        self._digest.update(f"{name}\0{text}\0".encode())

    def arrays(self, name: str, contents: Sequence[Any]) -> list[str]:
        """The files of an argument; equal contents are one."""
        files: list[str] = []
        for number, content in enumerate(contents):
            if number > 0 and content is contents[0]:
                files.append(files[0])
                continue
            files.append(f"{name}.{number}.npy")
            numpy_module().save(self._folder / files[-1], content, allow_pickle=False)
            self._digest.update(f"{files[-1]}\0".encode())
            self._digest.update(content.data)
        return files

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]


def _check(slot: Array, judge: Judge, answers: Sequence[Any]) -> dict[str, float]:
    error = _ERRORS[slot.type] if judge.error is None else judge.error
    if judge.error is None and judge.atol is not None and answers:
        largest = max(float(abs(answer).max()) for answer in answers)
        error = judge.atol / largest if largest > 0 else error
    return {"error": error, "dissimilarity": 2e-3} if slot.type == "e4m3" else {"error": error}


def _tensor(slot: Array, files: Sequence[str], judge: Judge, answers: Sequence[Any]) -> dict[str, Any]:
    tensor: dict[str, Any] = {"name": slot.name, "dtype": slot.type, "shape": slot.shape, "role": slot.role}
    if files:
        tensor["fill"] = {"files": files}
    if slot.role != "input" and slot.is_float:
        tensor["check"] = _check(slot, judge, answers)
    return tensor


def _argument(slot: Slot) -> Any:
    if isinstance(slot, Array):
        return slot.name
    if slot.is_stated:
        return {slot.type: f"call.{slot.name}"}
    return {slot.type: slot.value}


def _description(name: str, slots: Sequence[Slot], launch: Launch, space: dict[str, Any]) -> dict[str, Any]:
    elements = next(slot.content.size for slot in slots if isinstance(slot, Array) and slot.role != "input")
    described: dict[str, Any] = {"entry": launch.entry, "grid": list(launch.grid), "block": list(launch.block),
                                 "arguments": [_argument(slot) for slot in slots if not is_constant(slot)]}
    copies = [{"symbol": slot.name, "of": slot.name} for slot in slots if is_constant(slot)]
    if launch.shared is not None:
        described["shared"] = launch.shared
    return {
        "kernel": name, "doc": "written by moetune.tune", "syntax": "python", "source": f"{name}.cu",
        "problem": [{"name": "elements_written", "default": elements, "range": [elements, elements]}],
        "call": [{"name": slot.name, "type": "f32" if slot.is_real else "i64", "default": slot.value}
                 for slot in slots if isinstance(slot, Scalar) and slot.is_stated],
        **space, "launches": [*copies, described]}


def _place(made: Path, folder: Path) -> None:
    """Puts what was made in place. Equal contents have equal names, so what is there already is the same."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(made, folder)
    except OSError:
        if not (folder / "kernel.json").is_file():
            raise
        shutil.rmtree(made, ignore_errors=True)


def write_folder(name: str, source: str, files: dict[str, str], slots: Sequence[Slot], launch: Launch,
                 space: dict[str, Any], judge: Judge, default: str, seed: int, under: Path) -> Path:
    """Returns the folder of kernels that holds the one written, `under`/DIGEST: another one for other contents."""
    is_known = judge.reference is not None
    inputs = [slot for slot in slots if isinstance(slot, Array) and slot.role != "output"]
    twice = any(slot.is_float and not slot.is_constant for slot in inputs) and (callable(judge.reference) or not is_known)
    contents = _contents(slots, seed, twice)
    arguments = [slot for slot in slots if not is_constant(slot)]  # the first ones
    answers = _answers(judge.reference, arguments, contents) if is_known else []
    under.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".being-written-", dir=under))
    try:
        writer = _Writer(made)
        writer.text(f"{name}.cu", source)
        for file, text in files.items():
            writer.text(file, text)
        description = _description(name, slots, launch, space)
        right = iter(answers)
        description["tensors"], arrays = [], {}
        for slot, held in zip(slots, contents):
            if not isinstance(slot, Array):
                continue
            answer = next(right, []) if slot.role != "input" else []
            description["tensors"].append(_tensor(slot, writer.arrays(slot.name, held), judge, answer))
            if answer:
                arrays[slot.name] = writer.arrays(f"{slot.name}.right", answer)
        description["reference"] = {"arrays": arrays} if is_known else {"config": default}
        writer.text("kernel.json", json.dumps(description, indent=1))
        folder = under / writer.digest()
        _place(made, folder / name)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder
