"""A pack onto a host: what install() changes, and that nothing else is ever taken away. Without the tool and a GPU."""

import hashlib
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from moetune.fleet import worker

OLD, NEW = b"the pack of before", b"the pack of now"


class InstallTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "all.pack"
        self.lost: list[str] = []
        for name, stand_in in (("run_tool", lambda *_, **__: {}), ("_duels", lambda *_: self.lost)):
            patch: Any = mock.patch.object(worker, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    def request(self, duels: bool) -> dict[str, Any]:
        return {"path": str(self.path), "sha256": hashlib.sha256(NEW).hexdigest(),
                "duels": [["decode_kernel", "elements=1"]] if duels else []}

    def install(self, duels: bool = True) -> tuple[str, bool]:
        answer = worker.install(self.request(duels), NEW)
        return answer["status"], answer["changed"]

    def test_one_that_loses_goes_back_to_what_was_there(self) -> None:
        self.path.write_bytes(OLD)
        self.lost = ["slower"]
        self.assertEqual(self.install(), ("lost", True))
        self.assertEqual(self.path.read_bytes(), OLD)

    def test_one_that_loses_goes_back_to_nothing(self) -> None:
        self.lost = ["slower"]
        self.assertEqual(self.install(), ("lost", True))
        self.assertFalse(self.path.exists())

    def test_one_that_was_there_stays_whatever_the_duels_say(self) -> None:
        self.path.write_bytes(OLD)
        self.assertEqual(self.install(duels=False), ("ok", True))
        self.lost = ["somebody else uses the GPU"]
        self.assertEqual(self.install(), ("lost", False))
        self.assertEqual(self.path.read_bytes(), NEW)
        self.path.unlink()
        self.path.write_bytes(NEW)  # as a first installation by hand: there is no pack of before
        self.assertEqual(self.install(), ("lost", False))
        self.assertEqual(self.path.read_bytes(), NEW)

    def test_one_that_was_killed_before_its_duels_ended_is_still_on_trial(self) -> None:
        self.path.write_bytes(OLD)
        with mock.patch.object(worker, "_duels", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.install()
        self.assertEqual(self.path.read_bytes(), NEW)
        self.lost = ["slower"]
        self.assertEqual(self.install(), ("lost", True))
        self.assertEqual(self.path.read_bytes(), OLD)

    def test_a_host_that_agreed_goes_back_when_it_is_asked_to(self) -> None:
        self.path.write_bytes(OLD)
        self.assertEqual(self.install(), ("ok", True))
        self.assertEqual(worker.restore(self.request(True)), {"status": "ok"})
        self.assertEqual(self.path.read_bytes(), OLD)
        self.assertEqual(worker.restore(self.request(True)), {"status": "ok"})  # it is not there any more
        self.assertEqual(self.path.read_bytes(), OLD)

    def test_its_signature_comes_and_goes_with_it(self) -> None:
        old, new = (worker.SIGNATURE_HEAD + name + "\n" for name in ("0123 old", "4567 new"))
        signature = worker.signature_path(self.path)
        self.assertEqual(signature.name, "all.pack.sig")
        self.path.write_bytes(OLD)
        signature.write_text(old)
        request = {**self.request(True), "signature": new}
        seen: list[str] = []
        replace = os.replace

        def watched(source: Path, target: Path) -> None:
            if target == self.path:
                seen.append(signature.read_text())
            replace(source, target)

        with mock.patch("os.replace", watched):
            self.assertEqual(worker.install(request, NEW), {"status": "ok", "changed": True})
            self.assertEqual(signature.read_text(), new)
            self.assertEqual(worker.restore(request), {"status": "ok"})
        self.assertEqual((self.path.read_bytes(), signature.read_text()), (OLD, old))
        both = [worker.SIGNATURE_HEAD + lines for lines in ("4567 new\n0123 old\n", "0123 old\n4567 new\n")]
        self.assertEqual(seen, both)  # a reader in between finds the signature of either
        self.assertEqual(self.install(), ("ok", True))
        self.assertFalse(signature.exists())  # that of another pack would make a server refuse this one
        self.assertEqual(worker.install(request, NEW)["changed"], False)
        self.assertEqual(signature.read_text(), new)  # signed since
        self.path.unlink()
        signature.unlink()
        worker.install(request, NEW)
        worker.restore(request)
        self.assertEqual([each.name for each in self.path.parent.iterdir()], ["all.pack.lock"])
        self.assertEqual(worker.install({**request, "signature": "x"}, NEW)["status"], "broken")


if __name__ == "__main__":
    unittest.main()
