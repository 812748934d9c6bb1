"""The plug-ins of vLLM and SGLang without these servers: what the wheel announces, that nothing happens unless it is
chosen, and the calls that a server's batch becomes."""

import importlib.metadata
import subprocess
import sys
import unittest
from unittest import mock

import moetune
from server_support import DIM, HEADS, KV_HEADS, PAGE, Paged, offsets
from support import CACHE
from torch_support import DEVICE, REASON, largest_error

if not REASON:
    import torch

    from moetune import _families, _servers, _serving

GROUPS = {"vllm.general_plugins": "moetune.vllm:register", "sglang.srt.plugins": "moetune.sglang:register"}

WITHOUT = """
import logging, sys
sys.modules["{server}"] = None
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import moetune.{server}
before = set(sys.modules)
moetune.{server}.register()
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in ("torch", "moetune")))
print("torch" in sys.modules)
"""


class AnnouncedTest(unittest.TestCase):
    def test_entry_points_lead_to_functions(self) -> None:
        for group, value in GROUPS.items():
            found = [each for each in importlib.metadata.entry_points(group=group) if each.name == "moetune"]
            self.assertEqual([each.value for each in found], [value])
            self.assertTrue(callable(found[0].load()))

    def test_without_the_server_it_imports_nothing_and_raises_nothing(self) -> None:
        for server in ("vllm", "sglang"):
            program = WITHOUT.format(server=server)
            ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            said, imported, torch_there = ended.stdout.splitlines()
            self.assertRegex(said, f"moetune does not fit this {server}, which serves without it: ".replace(
                "vllm", "vLLM").replace("sglang", "SGLang"))
            self.assertEqual((imported, torch_there), ("[]", "False"))


@unittest.skipIf(REASON, REASON)
class AttendTest(unittest.TestCase):
    def setUp(self) -> None:
        self.heads = _servers.Heads(HEADS, KV_HEADS, DIM, torch.bfloat16)

    def attend(self, paged: Paged, steps: int, layout: str) -> None:
        pools = torch.full((2, paged.pages * PAGE, KV_HEADS, DIM), float("nan")).bfloat16()
        for part, pool in zip((paged.k, paged.v), pools):
            for slots, tokens in zip(paged.slots, part):
                pool[slots] = tokens
        k, v = (pool.view(paged.pages, PAGE, KV_HEADS, DIM).to(DEVICE) for pool in pools)
        if layout == "HND":
            k, v = (each.transpose(1, 2) for each in (k, v))
        others = paged.new[steps:]
        batch = _servers.Batch(steps, sum(paged.new), offsets(others).to(DEVICE) if others else None,
                               paged.table.to(DEVICE),
                               torch.tensor(paged.lengths, dtype=torch.int32, device=DEVICE), max(paged.new),
                               max(paged.lengths))
        q = torch.cat([paged.q, torch.ones_like(paged.q[:1]).expand(3, -1, -1)])  # a server pads
        out = torch.full_like(q, 7)
        _servers.attend(batch, q, k, v, out, DIM ** -0.5, layout)
        self.assertLess(largest_error(out[:-3].cpu(), paged.right()), 0.02)
        self.assertTrue(bool((out[-3:] == 7).all()))

    def test_steps_and_others_in_one_batch(self) -> None:
        for layout in ("NHD", "HND"):
            self.attend(Paged((1, 1, 1, 40, 1, 17), (33, 1, 90, 40, 16, 60)), 3, layout)
            self.attend(Paged((1, 1), (77, 16)), 2, layout)
            self.attend(Paged((20, 3), (20, 50)), 0, layout)

    def test_the_page_that_something_is_stored_for(self) -> None:
        _servers.page_for.cache_clear()
        with mock.patch.object(_families, "_search", side_effect=AssertionError):
            self.assertEqual(_servers.page_for(self.heads), (PAGE, None))
            with_sinks = self.heads._replace(window=30, sinks=True)
            self.assertEqual(_servers.page_for(with_sinks, (128, 16)), (PAGE, None))
            self.assertRegex(str(_servers.page_for(self.heads._replace(dtype=torch.float32))[1]), "float32: bf16")
            self.assertRegex(str(_servers.page_for(self.heads, ())[1]), "pages of 16, 32, 64, 128 and 256 tokens")

    def test_what_is_not_stored_is_searched_at_the_preferred_page_alone(self) -> None:
        searched = []

        def search(wanted: _families.Wanted, *_: object) -> None:
            searched.append((wanted.kernel, wanted.facts))

        heads = self.heads._replace(kv_heads=8)
        _servers.page_for.cache_clear()
        with mock.patch.object(_families, "_search", search):
            page, reason = _servers.page_for(heads)
        self.assertEqual((page, searched), (0, [("decode_attention", "group=1,head_dim=64,page=64,dtype=bf16")]))
        self.assertRegex(str(reason), r"nothing is tuned for decode_attention group=1.*; run: moetune search "
                         r"decode_attention --problem q_heads=8,kv_heads=8,head_dim=64,page=64,dtype=bf16 --over")

    def test_where_nothing_at_all_is_stored_is_searched_too(self) -> None:
        _servers.page_for.cache_clear()
        with mock.patch.object(_serving, "runtime", side_effect=moetune.NotTuned("there is no cache")), \
                mock.patch.object(_families, "_search") as searched:
            _servers.page_for(self.heads)
            with self.assertRaisesRegex(moetune.NotTuned, "run: moetune search decode_attention --problem tokens=1$"):
                _serving._open_family(0, "here", "decode_attention", "group=77", "tokens=1")
        self.assertTrue(searched.called)

    def test_experts(self) -> None:
        self.assertIsNone(_servers.experts_why_not(256, 16, 2, 128, torch.bfloat16))
        self.assertRegex(str(_servers.experts_why_not(256, 16, 2, 128, torch.float8_e4m3fn)),
                         "float8_e4m3fn: unquantized ones in bf16 and fp16 are served")
        with mock.patch.object(_families, "_search"):
            self.assertRegex(str(_servers.experts_why_not(256, 12, 2, 128, torch.bfloat16, local=True)),
                             "nothing is tuned for route_plan .*map=local; run: moetune search route_plan")

    def test_warm_loads_what_calls_need(self) -> None:
        _serving.use(moetune.open([CACHE]))
        _servers.warm(self.heads, PAGE, "HND")
        loaded = {kernel: facts for _, kernel, facts in _serving._families}
        self.assertEqual(set(loaded), {"decode_attention", "prefill_attention"})
        for facts in loaded.values():
            self.assertIn("group=4,head_dim=64,page=16", facts)


if __name__ == "__main__":
    unittest.main()
