"""examples/kv_overlap.py as far as it runs without a GPU: layers in turn, on the scripted driver."""

import importlib.util
import os
import pathlib
import types
import unittest
from typing import Any
from unittest import mock

from moe_cases import if_tuned
from torch_support import DEVICE, REASON, VERBOSITY

if not REASON:
    import torch


def example() -> Any:
    """The module, with the sizes of families that the tests have, and memory of the device in place of the host's."""
    file = pathlib.Path(os.environ["MOETUNE_SOURCE"]) / "examples" / "kv_overlap.py"
    spec = importlib.util.spec_from_file_location("kv_overlap", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {"HIDDEN": 64, "HEADS": 8, "KV_HEADS": 2, "DIM": 64, "PAGE": 16, "GPU": torch.device(DEVICE),
                        "on_host": torch.clone}.items():
        setattr(module, name, value)
    return module


@unittest.skipIf(REASON, REASON)
class OverlapTest(unittest.TestCase):
    @if_tuned
    def test_what_is_not_there_comes_before_it_is_read(self) -> None:
        options = types.SimpleNamespace(batch=4, context=100, pages=5, layers=3, sms=0)
        layers = example().Layers(options)
        self.assertEqual(len(layers.moved), 5)
        right = layers.in_turn(moves=False)
        self.assertFalse(bool(right.isnan().any()))
        pools = [pool.clone() for pool in layers.pools]
        layers.forget()
        self.assertTrue(all(bool(pool[layers.moved.long()].isnan().all()) for pool in layers.pools))
        self.assertTrue(torch.equal(layers.in_turn(), right))
        self.assertTrue(all(map(torch.equal, layers.pools, pools)))

    def test_a_path_is_needed(self) -> None:
        with mock.patch("sys.argv", ["kv_overlap.py"]), mock.patch("sys.stderr"), self.assertRaises(SystemExit):
            example().main()


if __name__ == "__main__":
    unittest.main(verbosity=VERBOSITY)
