"""Reads of a CUDA source what tune() needs: a kernel's parameters, and the files beside it that it includes."""

import re
from pathlib import Path
from typing import NamedTuple, Optional

from moetune import _errors

_NO_NAMES = {"const", "volatile", "restrict", "__restrict__", "__restrict", "__grid_constant__", "struct"}
_MOST_FILES = 64

# C's types by their words in any order, without "int" beside others.
_INTEGERS = {
    "int": "i32", "int32_t": "i32", "unsigned": "u32", "uint32_t": "u32", "uint": "u32",
    "long long": "i64", "int64_t": "i64", "long": "i64", "ptrdiff_t": "i64",
    "long long unsigned": "u64", "long unsigned": "u64", "uint64_t": "u64", "size_t": "u64",
    "short": "i16", "int16_t": "i16", "short unsigned": "u16", "uint16_t": "u16",
    "char": "i8", "char signed": "i8", "int8_t": "i8", "char unsigned": "u8", "uint8_t": "u8", "bool": "u8",
    "float": "f32", "double": "f64", "half": "f16", "__half": "f16", "__nv_bfloat16": "bf16",
}


class Parameter(NamedTuple):
    """Of a kernel: its name, and whether it points to what the kernel may write."""

    name: str
    is_pointer: bool
    is_written: bool
    type: str = ""  # of a number or of what it points to, as kernel.json names it; "" if it is not known


def _parameter(text: str, at: int) -> Parameter:
    text = text.split("=")[0]
    words = [word for word in re.findall(r"[A-Za-z_]\w*", text) if word not in _NO_NAMES]
    is_pointer = "*" in text or "[" in text
    is_const = "const" in text.split("*")[0].split("[")[0].split()
    name = words[-1] if len(words) > 1 else f"arg{at}"
    types = sorted(word for word in words[:-1] if word != "int") or ["int"] * ("int" in words[:-1])
    return Parameter(name, is_pointer, is_pointer and not is_const, _INTEGERS.get(" ".join(types), ""))


def parameters_of(text: str, kernel: str) -> Optional[list[Parameter]]:
    """The parameters of `kernel`, whose template arguments do not matter; None if the text has no such function."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    name = kernel.split("<")[0].split("::")[-1]
    found = re.search(rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(", text)
    if found is None:
        return None
    parameters: list[Parameter] = []
    depth, begin = 0, found.end()
    for at in range(found.end(), len(text)):
        here = text[at]
        if here in ",)" and depth == 0:
            if text[begin:at].strip() not in ("", "void"):
                parameters.append(_parameter(text[begin:at], len(parameters)))
            begin = at + 1
            if here == ")":
                return parameters
        depth += (here in "(<[") - (here in ")>]")
    return None


def local_sources(text: str, path: Optional[Path]) -> dict[str, str]:
    """By their names, the files beside the source that it includes, and those that they include."""
    found: dict[str, str] = {}
    waiting = [text] if path is not None else []
    while waiting and path is not None:
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', waiting.pop(), flags=re.MULTILINE):
            file = path.parent / name
            if name in found or ".." in Path(name).parts or Path(name).is_absolute() or not file.is_file():
                continue
            if len(found) == _MOST_FILES:
                raise _errors.InvalidArgument(f"{path} includes more than {_MOST_FILES} files")
            found[name] = file.read_text()
            waiting.append(found[name])
    return found
