"""What the wheel says of itself: an author, addresses, and links that lead to files of the project."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MOETUNE_SOURCE"])


class Metadata(unittest.TestCase):
    metadata = importlib.metadata.metadata("moetune")

    def test_author_and_addresses(self) -> None:
        self.assertEqual("the moetune authors", self.metadata["Author"])
        addresses = dict(line.split(", ", 1) for line in self.metadata.get_all("Project-URL") or [])
        self.assertLessEqual({"Homepage", "Documentation", "Changelog", "Issues"}, set(addresses))
        for address in addresses.values():
            self.assertRegex(address, r"^https://\S+$")
        extras = set(self.metadata.get_all("Provides-Extra") or [])
        self.assertLessEqual({"torch", "transformers", "search", "headers", "fleet"}, extras)

    def test_links_lead_to_files(self) -> None:
        addresses = dict(line.split(", ", 1) for line in self.metadata.get_all("Project-URL") or [])
        files = f"{addresses['Homepage']}/blob/v{self.metadata['Version']}/"
        text = importlib.metadata.distribution("moetune").read_text("METADATA") or ""
        links = re.findall(r"\]\(([^)\s]+)\)", text) + [addresses["Documentation"], addresses["Changelog"]]
        self.assertGreater(len(links), 5)
        own = [link for link in links if link.startswith(files)]
        self.assertGreater(len(own), 5)
        for link in links:
            self.assertRegex(link, r"^https://")
        for link in own:
            self.assertTrue((SOURCE / link.removeprefix(files).partition("#")[0]).exists(), link)

    def test_without_torch_it_says_what_to_install(self) -> None:
        program = "import sys; sys.modules['torch'] = None; import moetune; import moetune.torch"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(1, ended.returncode)
        self.assertRegex(ended.stderr, r"ModuleNotFoundError: moetune.torch .*pip install 'moetune\[torch\]'")

    def test_without_transformers_it_says_what_to_install(self) -> None:
        program = "import sys; sys.modules['transformers'] = None; import moetune.transformers"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(1, ended.returncode)
        missing = (r"ImportError: moetune.transformers needs transformers 5.17 or newer: pip install "
                   r"'moetune\[transformers\]'" if importlib.util.find_spec("torch") is not None
                   else "ModuleNotFoundError: moetune.torch registers operators for PyTorch, which is not installed")
        self.assertRegex(ended.stderr, missing)


if __name__ == "__main__":
    unittest.main()
