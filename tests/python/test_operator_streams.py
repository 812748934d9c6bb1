"""Whose workspace a stream's handle names: in which thread, and of the default stream's two handles."""

import threading
import unittest
from typing import Any, Callable

import numpy as np

from moetune._library import function
from support import on_device

add_workspace, workspace_bytes = function("operator_add_workspace"), function("operator_workspace_bytes")

DEVICE = 77  # which no other test has
DEFAULT, LEGACY, PER_THREAD = 0, 1, 2  # handles as cuda.h has them


def bytes_of(count: int) -> Any:
    return on_device(np.zeros(count, np.uint8), "uint8")


def in_a_thread(work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


class OperatorStreamsTest(unittest.TestCase):
    def test_a_stream_has_one_workspace_in_all_threads(self) -> None:
        add_workspace(DEVICE, 4096, bytes_of(512))
        self.assertEqual(workspace_bytes(DEVICE, 4096), 512)
        self.assertEqual(in_a_thread(lambda: workspace_bytes(DEVICE, 4096)), 512)
        self.assertEqual(workspace_bytes(DEVICE + 1, 4096), 0)

    def test_the_stream_of_each_thread_has_a_workspace_in_each(self) -> None:
        def second() -> tuple[int, int]:
            before = workspace_bytes(DEVICE, PER_THREAD)
            add_workspace(DEVICE, PER_THREAD, bytes_of(1024))
            return before, workspace_bytes(DEVICE, PER_THREAD)

        add_workspace(DEVICE, PER_THREAD, bytes_of(512))
        self.assertEqual(in_a_thread(second), (0, 1024))
        self.assertEqual(in_a_thread(second), (0, 1024))  # nor does a later thread take over an ended one's
        self.assertEqual(workspace_bytes(DEVICE, PER_THREAD), 512)

    def test_the_default_stream_has_one_workspace_by_either_handle(self) -> None:
        add_workspace(DEVICE, LEGACY, bytes_of(512))
        self.assertEqual(workspace_bytes(DEVICE, DEFAULT), 512)
        add_workspace(DEVICE, DEFAULT, bytes_of(768))
        self.assertEqual(workspace_bytes(DEVICE, LEGACY), 768)


if __name__ == "__main__":
    unittest.main()
