"""Which NVRTC the installed command compiles with. A stand-in for it says by its version that it is the one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STAND_IN = os.environ.get("MOETUNE_TEST_NVRTC", "")
NAME = "libnvrtc.so.99"  # newer than any that is installed


@unittest.skipUnless(STAND_IN, "the stand-in for NVRTC is not in MOETUNE_TEST_NVRTC")
class NvrtcTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = dict(os.environ)
        for name in ("MOETUNE_NVRTC", "CUDA_HOME", "CUDA_PATH"):
            self.environment.pop(name, None)

    def folder_with(self, path: str, library: str) -> str:
        """A folder that has this file as NVRTC at `path`."""
        (self.folder / path).mkdir(parents=True)
        shutil.copy(library, self.folder / path / NAME)
        return str(self.folder / path)

    def install_package(self, library: str) -> None:
        """As `pip install nvidia-cuda-nvrtc` puts it beside the package."""
        self.folder_with("site/nvidia/cu99/lib", library)
        self.environment["PYTHONPATH"] = f"{self.folder / 'site'}:{self.environment['PYTHONPATH']}"

    def compiler(self) -> str:
        shown = subprocess.run([sys.executable, "-m", "moetune", "devices", "--json"], env=self.environment, timeout=60,
                               capture_output=True, text=True, check=True)
        document = json.loads(shown.stdout)
        return str(document["compiler"] or document["why_no_compiler"])

    def test_the_one_of_an_installed_package_is_found(self) -> None:
        self.install_package(STAND_IN)
        self.assertEqual(self.compiler(), "nvrtc 99.0.1")

    def test_a_toolkit_without_nvrtc_hides_no_package(self) -> None:
        self.install_package(STAND_IN)
        for name in ("CUDA_HOME", "CUDA_PATH"):
            self.environment[name] = str(self.folder / "toolkit")
        self.assertEqual(self.compiler(), "nvrtc 99.0.1")

    def test_a_toolkit_that_is_named_goes_before_packages(self) -> None:
        self.install_package(__file__)
        self.folder_with("toolkit/targets/x86_64-linux/lib", STAND_IN)
        self.environment["CUDA_HOME"] = str(self.folder / "toolkit")
        self.assertEqual(self.compiler(), "nvrtc 99.0.1")

    def test_a_library_that_is_named_goes_before_all(self) -> None:
        self.install_package(__file__)
        self.folder_with("toolkit/lib64", __file__)
        self.environment["CUDA_HOME"] = str(self.folder / "toolkit")
        self.environment["MOETUNE_NVRTC"] = self.folder_with("named", STAND_IN)
        self.assertEqual(self.compiler(), "nvrtc 99.0.1")

    def test_one_that_cannot_be_opened_is_named(self) -> None:
        self.install_package(__file__)
        self.assertRegex(self.compiler(), rf"cannot open .*/site/nvidia/cu99/lib/{NAME}")


if __name__ == "__main__":
    unittest.main()
