"""What importing moetune and moetune.torch may cost, and that a process may fork after it and use CUDA then."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest
from typing import Any

import moetune
from support import CACHE, FAMILY

# Prints what the import loaded, and the process's seconds of CPU time and MiB of resident memory after it.
COST = """
import json, os, sys, time
import moetune
pages = int(open("/proc/self/statm").read().split()[1])
print(json.dumps([sorted({"torch", "tvm_ffi", "numpy"} & set(sys.modules)), time.process_time(),
                  pages * os.sysconf("SC_PAGE_SIZE") / 2**20]))
"""

# Counts how often PyTorch is asked for CUDA, forks, and prints that and the child's answer, which `child` makes.
FORK = """
import json, os, sys
import torch
asked = []
is_available = torch.cuda.is_available
torch.cuda.is_available = lambda: bool(asked.append(None)) or is_available()
import {module}
{names}
count, (reader, writer) = len(asked), os.pipe()
if os.fork() == 0:
    try:
        answer = child()
    except BaseException as error:
        answer = str(error)
    os.write(writer, json.dumps(answer).encode())
    os._exit(0)
os.close(writer)
print(json.dumps([count, json.loads(os.read(reader, 10000))]))
"""

# What of tvm_ffi waits for open(): whether it was there before, what is left in the environment, whether it is there.
POSTPONED = """
import json, os, sys
import moetune
moetune.Runtime
module = sys.modules["tvm_ffi._optional_torch_c_dlpack"]
before = [hasattr(module, "_LIB"), "TVM_FFI_DISABLE_TORCH_C_DLPACK" in os.environ]
try:
    moetune.open().close()
except moetune.NoDriver:
    pass
print(json.dumps([*before, hasattr(module, "_LIB")]))
"""

STATE = "child = lambda: torch._C._cuda_isInBadFork() if hasattr(torch._C, '_cuda_isInBadFork') else False"
USE = f"""
def child():
    import moetune.torch
    with moetune.open([{CACHE!r}]) as runtime:
        kind = runtime.family("decode_attention", {FAMILY!r}).pick(4, 1, 500).kind
    return [float(torch.ones(8, device="cuda").sum()), int(kind)]
"""


def has_cuda() -> bool:
    """Asked in another process: this one's children may have to use CUDA."""
    if importlib.util.find_spec("torch") is None:
        return False
    asked = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


def result_of(script: str) -> Any:
    shown = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        raise AssertionError(shown.stderr)
    return json.loads(shown.stdout)


class ImportTest(unittest.TestCase):
    # With PyTorch the library needs 2 s of CPU time and 500 MiB, without it tens of milliseconds.
    def test_costs_little(self) -> None:
        loaded, seconds, mebibytes = result_of(COST)
        self.assertEqual(loaded, [])
        self.assertLess(seconds, 0.5)
        self.assertLess(mebibytes, 60)

    def test_the_tool_starts_at_once(self) -> None:
        def seconds() -> float:
            times = os.times()
            return times.children_user + times.children_system

        before = seconds()
        subprocess.run([sys.executable, "-m", "moetune", "--version"], capture_output=True, check=True)
        self.assertLess(seconds() - before, 0.5)

    def test_the_version_needs_no_framework(self) -> None:
        version, loaded = result_of("import json, sys, moetune; print(json.dumps([moetune.__version__, "
                                    "sorted({'torch', 'tvm_ffi'} & set(sys.modules))]))")
        self.assertEqual((version, loaded), (moetune.__version__, []))

    def test_tvm_ffi_is_whole_once_a_runtime_is_opened(self) -> None:
        self.assertEqual(result_of(POSTPONED), [False, False, True])

    def test_every_name_is_found(self) -> None:
        for name in moetune.__all__:
            self.assertIn(name, dir(moetune))
            self.assertIsNotNone(getattr(moetune, name))
        with self.assertRaisesRegex(AttributeError, "moetune.*'opne'"):
            moetune.opne  # type: ignore[attr-defined]


@unittest.skipIf(importlib.util.find_spec("torch") is None, "there is no torch")
class ForkTest(unittest.TestCase):
    def test_imports_ask_nothing_of_cuda(self) -> None:
        for module, names in (("moetune", "moetune.Runtime"), ("moetune.torch", "")):
            with self.subTest(module=module):
                self.assertEqual(result_of(FORK.format(module=module, names=f"{names}\n{STATE}")), [0, False])

    def test_a_forked_child_uses_cuda(self) -> None:
        if not has_cuda() or not CACHE:
            self.skipTest("torch has no CUDA, or no cache is named in MOETUNE_TEST_CACHE")
        for module in ("moetune", "moetune.torch"):
            with self.subTest(module=module):
                count, (total, kind) = result_of(FORK.format(module=module, names=USE))
                self.assertEqual((count, total), (0, 8.0))
                self.assertIn(kind, list(moetune.ChoiceKind))


if __name__ == "__main__":
    unittest.main()
