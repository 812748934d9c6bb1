"""The command `moetune`: the tool in this package, with NVRTC from NVIDIA's pip packages if they are installed."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Optional

TOOL = Path(__file__).absolute().parent / "bin" / "moetune"


def _major(library: Path) -> int:
    digits = library.name.rpartition(".so.")[2].split(".")[0]
    return int(digits) if digits.isdigit() else 0


def find_nvrtc() -> Optional[Path]:
    """The newest NVRTC among the installed packages (nvidia-cuda-nvrtc and its like), or None."""
    found = importlib.util.find_spec("nvidia")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    libraries = [each for folder in folders for each in Path(folder).glob("*/lib/libnvrtc.so.*")]
    return max(libraries, key=_major, default=None)


def _has_nvrtc(toolkit: str) -> bool:
    """Whether the folder is a toolkit with NVRTC, where the tool itself looks."""
    return any(next(Path(toolkit).glob(f"{folder}/libnvrtc.so.*"), None) for folder in ("lib64", "lib", "targets/*/lib"))


def environment() -> dict[str, str]:
    """What the tool runs with: this process's environment, and NVRTC named if neither MOETUNE_NVRTC nor a toolkit that
    CUDA_HOME or CUDA_PATH names has it.
    """
    environment = dict(os.environ)
    toolkits = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    if not environment.get("MOETUNE_NVRTC") and not any(map(_has_nvrtc, toolkits)):
        library = find_nvrtc()
        if library is not None:
            environment["MOETUNE_NVRTC"] = str(library)
    return environment


def main() -> None:
    """Becomes the tool."""
    if not TOOL.exists():
        sys.exit(f"moetune: this package was built without the tool ({TOOL})")
    os.execve(TOOL, ["moetune", *sys.argv[1:]], environment())
