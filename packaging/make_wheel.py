"""make_wheel.py BUILD FOLDER: puts python/moetune and what BUILD holds into a wheel in FOLDER, and prints its path.

A wheel is a zip file with a manifest (PEP 427). No library of it depends on a version of Python: they are loaded
through TVM-FFI's stable ABI.
"""

import base64
import hashlib
import posixpath
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

METADATA = """\
Metadata-Version: 2.1
Name: moetune
Version: {version}
Summary: Tuned CUDA kernels for mixture-of-experts inference: runtime, PyTorch operators, tuner
Author: {author}
License: {license}
Home-page: {url}
Project-URL: Homepage, {url}
Project-URL: Documentation, {files}/docs/python.md
Project-URL: Changelog, {files}/CHANGELOG.md
Project-URL: Issues, {url}/issues
Requires-Python: >=3.10
Requires-Dist: apache-tvm-ffi>=0.1.6,<0.2
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Provides-Extra: transformers
Requires-Dist: torch; extra == "transformers"
Requires-Dist: transformers>=5.17; extra == "transformers"
Provides-Extra: search
Requires-Dist: nvidia-cuda-nvrtc>=12.8; extra == "search"
Provides-Extra: headers
Requires-Dist: nvidia-cuda-nvrtc>=13.0; extra == "headers"
Requires-Dist: nvidia-cuda-runtime>=13.0; extra == "headers"
Requires-Dist: nvidia-cuda-crt>=13.0; extra == "headers"
Requires-Dist: nvidia-cuda-cccl>=13.0; extra == "headers"
Provides-Extra: fleet
Requires-Dist: ray>=2.40,<3; extra == "fleet"
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

"""

ENTRY_POINTS = """\
[console_scripts]
moetune = moetune._tool:main

[vllm.general_plugins]
moetune = moetune.vllm:register

[sglang.srt.plugins]
moetune = moetune.sglang:register
"""


def needed_glibc(files: list[Path]) -> tuple[int, int]:
    """The newest version of glibc that any of the files asks for."""
    newest = (2, 17)
    for file in files:
        symbols = subprocess.run(["objdump", "-T", str(file)], check=True, capture_output=True, text=True).stdout
        for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols):
            newest = max(newest, (int(major), int(minor)))
    return newest


def version_and_url() -> tuple[str, str]:
    found = re.search(r"project\(moetune VERSION ([\d.]+) HOMEPAGE_URL (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None
    return found[1], found[2]


def description(page: str, files: str) -> str:
    """The page, whose links lead to what `files` has of the project: an index of packages has no other pages."""
    def absolute(link: re.Match[str]) -> str:
        path, _, fragment = link[1].partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        return f"]({files}/{there}{'#' if fragment else ''}{fragment})"

    return re.sub(r"\]\((?![a-z]+:)([^)\s]+)\)", absolute, (ROOT / page).read_text())


def write(wheel: zipfile.ZipFile, records: list[str], name: str, data: bytes, mode: int = 0o644) -> None:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # equal files make equal wheels
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(data)}")


def main(build: Path, folder: Path) -> None:
    libraries = [build / "libmoetune_runtime.so.1", build / "libmoetune_tvm_ffi.so"]
    tool = build / "moetune"
    present = libraries + ([tool] if tool.exists() else [])
    version, url = version_and_url()
    files = f"{url}/blob/v{version}"
    major, minor = needed_glibc(present)
    machine = subprocess.run(["uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    platform = f"manylinux_{major}_{minor}_{machine}"
    info = f"moetune-{version}.dist-info"
    license_text = (ROOT / "LICENSE").read_text()
    author = re.search(r"^Copyright \(c\) \d+ (.*)$", license_text, re.M)
    assert author is not None
    metadata = METADATA.format(version=version, license=license_text.split("\n")[0], author=author[1], url=url,
                               files=files)
    metadata += description("docs/python.md", files)

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"moetune-{version}-py3-none-{platform}.whl"
    records: list[str] = []
    with zipfile.ZipFile(path, "w") as wheel:
        for source in sorted((ROOT / "python/moetune").rglob("*")):
            if source.suffix == ".py" or source.name == "py.typed":
                write(wheel, records, source.relative_to(ROOT / "python").as_posix(), source.read_bytes())
        for library in libraries:
            write(wheel, records, f"moetune/lib/{library.name}", library.read_bytes(), 0o755)
        if tool.exists():
            write(wheel, records, "moetune/bin/moetune", tool.read_bytes(), 0o755)
        for pack in sorted((ROOT / "packs").glob("*.pack")):
            write(wheel, records, f"moetune/lib/packs/{pack.name}", pack.read_bytes())
        write(wheel, records, f"{info}/METADATA", metadata.encode())
        write(wheel, records, f"{info}/WHEEL",
              f"Wheel-Version: 1.0\nGenerator: moetune\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode())
        write(wheel, records, f"{info}/entry_points.txt", ENTRY_POINTS.encode())
        write(wheel, records, f"{info}/LICENSE", license_text.encode())
        records.append(f"{info}/RECORD,,\n")
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), "\n".join(records))
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
