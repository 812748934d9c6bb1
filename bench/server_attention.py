"""An attention layer in vLLM: its backend TRITON_ATTN beside MOETUNE, each by vLLM's own metadata, builders and cache.

    python bench/server_attention.py [--heads 32,4,128] [--max-model-len 32768] [--paths FILE...] [--json FILE]

Needs vLLM's package on a GPU; its compiled parts are not used, since the caches are filled before. A batch of steps, of
one new token each, or of drafts of three that are verified where vLLM drafts, is a graph that is captured as vLLM
captures it: for sequences of up to --max-model-len tokens, and replayed at shorter ones. Others, which vLLM runs
between its graphs, are called. us a layer, over as many layers' caches as do not fit into L2 together, are medians of
rounds in turn. `largest difference` is between the two outputs. Ends with 1 if any is above 0.03.
"""

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator
from unittest import mock

import torch
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.kv_cache_interface import FullAttentionSpec

import moetune
import moetune.torch
from moetune.vllm import attention

L2_BYTES = 64 << 20
MAX_DIFFERENCE = 0.03  # of two outputs in bf16
STEPS = ((1, 2048), (8, 2048), (32, 2048), (128, 2048), (1, 8192), (32, 8192))  # sequences, tokens of each
DRAFTS = 3
# New tokens and lengths of the sequences of a call: one that begins, chunks beside steps, and drafts to be verified.
OTHERS = (((2048,), (2048,)), ((1,) * 31 + (2048,), (2048,) * 31 + (4096,)), ((1 + DRAFTS,) * 32, (2048,) * 32))


class Layers:
    """Sequences over the caches of some layers, which lie as vLLM shows them to a backend of pages in HND."""

    def __init__(self, heads: tuple[int, int, int], new: tuple[int, ...], lengths: tuple[int, ...], page: int,
                 widest: int) -> None:
        """`widest` is the columns of a page table."""
        q_heads, kv_heads, dim = heads
        torch.manual_seed(1)
        columns = -(-max(lengths) // page)
        pages = max(len(lengths) * columns, widest)  # a server's cache holds its longest sequence
        count = max(2, min(48, -(-3 * L2_BYTES // (sum(lengths) * kv_heads * dim * 4))))
        self.caches = torch.randn(count, pages, kv_heads, page, 2 * dim, device="cuda", dtype=torch.bfloat16)
        self.q = torch.randn(sum(new), q_heads, dim, device="cuda", dtype=torch.bfloat16)
        self.kv = self.q.new_empty(sum(new), kv_heads, dim)
        self.new, self.lengths = new, torch.tensor(lengths, dtype=torch.int32, device="cuda")
        self.table = torch.zeros(len(lengths), widest, dtype=torch.int32, device="cuda")
        self.table[:, :columns] = torch.randperm(pages, device="cuda")[:len(lengths) * columns].view(-1, columns)

    def metadata(self, longest: int) -> Any:
        starts = torch.tensor([0, *self.new]).cumsum(0).to(torch.int32)
        return CommonAttentionMetadata(
            query_start_loc=starts.cuda(), query_start_loc_cpu=starts, seq_lens=self.lengths.clone(),
            num_reqs=len(self.new), num_actual_tokens=sum(self.new), max_query_len=max(self.new), max_seq_len=longest,
            block_table_tensor=self.table, slot_mapping=torch.zeros(sum(self.new), dtype=torch.int64, device="cuda"))


class Server:
    """A backend of vLLM for one kind of layer."""

    def __init__(self, backend: Any, heads: tuple[int, int, int], page: int, config: Any) -> None:
        q_heads, kv_heads, dim = heads
        self.layer = backend.get_impl_cls()(q_heads, dim, dim ** -0.5, kv_heads, None, None, "auto")
        self.layer.process_weights_after_loading(torch.bfloat16)
        config.compilation_config.static_forward_context["layer"] = SimpleNamespace(impl=self.layer)
        spec = FullAttentionSpec(block_size=page, num_kv_heads=kv_heads, head_size=dim, dtype=torch.bfloat16)
        with mock.patch("vllm.v1.attention.backends.triton_attn.get_num_attention_heads_from_layers",
                        lambda *_: q_heads):
            self.builder = backend.get_builder_cls()(spec, ["layer"], config, torch.device("cuda"))
        one = torch.ones(1, device="cuda")
        self.scales = SimpleNamespace(_k_scale=one, _v_scale=one, _q_scale=one)
        self._captured: Any = None

    def prepared(self, layers: Layers, max_model_len: int) -> tuple[Callable[[], Any], Any]:
        """A call of all layers, and where the last one's output will be."""
        out, captured = torch.empty_like(layers.q), set(layers.new) in ({1}, {1 + DRAFTS})
        common = layers.metadata(max_model_len if captured else int(layers.lengths.max()))
        build = self.builder.build_for_cudagraph_capture if captured else lambda given: self.builder.build(0, given)
        metadata = build(common)

        def call() -> None:
            for cache in layers.caches:
                self.layer.forward(self.scales, layers.q, layers.kv, layers.kv, cache, metadata, out)

        call()
        torch.cuda.synchronize()
        if not captured:
            return call, out
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        common.seq_lens.copy_(layers.lengths)  # a capture may have shortened them
        self._captured = call, common  # whose tensors the graph reads
        return graph.replay, out


def microseconds(call: Callable[[], Any], layers: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / (5 * layers)


@contextlib.contextmanager
def configured(heads: tuple[int, int, int], max_model_len: int) -> Iterator[Any]:
    """Yields the parts of vLLM's configuration that the backends read."""
    from vllm.config import CUDAGraphMode

    model = SimpleNamespace(get_num_attention_heads=lambda _: heads[0], get_num_kv_heads=lambda _: heads[1],
                            get_head_size=lambda: heads[2], get_sliding_window=lambda: None, rswa_window=None,
                            hf_text_config=SimpleNamespace(attn_logit_softcapping=None), max_model_len=max_model_len)
    graphs = SimpleNamespace(static_forward_context={}, cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
                             cudagraph_capture_sizes=[1, 2, 4, *range(8, 257, 8)])
    config = SimpleNamespace(model_config=model, parallel_config=None, compilation_config=graphs,
                             speculative_config=None,
                             scheduler_config=SimpleNamespace(max_num_seqs=256, max_num_batched_tokens=8192))
    with mock.patch("torch.get_default_dtype", lambda: torch.bfloat16):
        yield config


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", default="32,4,128", help="of queries, of keys, and their size")
    parser.add_argument("--max-model-len", type=int, default=32768)
    parser.add_argument("--page", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--paths", nargs="*", default=[], help="caches and packs; else those of the package")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend

    q_heads, kv_heads, dim = map(int, options.heads.split(","))
    heads = (q_heads, kv_heads, dim)
    if options.paths:
        moetune.torch.use(moetune.open(options.paths))
    cases = [((1,) * batch, (length,) * batch) for batch, length in STEPS] + list(OTHERS)
    rows, agree = [], True
    with configured(heads, options.max_model_len) as config:
        servers = []
        for drafts in (0, DRAFTS):
            if drafts:
                config.speculative_config = SimpleNamespace(num_speculative_tokens=drafts, parallel_drafting=False,
                                                            num_speculative_tokens_per_batch_size=None)
            servers.append([Server(backend, heads, options.page, config)
                            for backend in (TritonAttentionBackend, attention.Backend)])
        print(f"{'new tokens':>14} {'length':>7} | {'vLLM us':>8} {'moetune us':>10} {'times':>6} | largest difference")
        for new, lengths in cases:
            layers = Layers(heads, new, lengths, options.page, -(-options.max_model_len // options.page))
            calls = [server.prepared(layers, options.max_model_len) for server in servers[set(new) == {1 + DRAFTS}]]
            taken: list[list[float]] = [[] for _ in calls]
            for _ in range(options.rounds):
                for times, (call, _) in zip(taken, calls):
                    times.append(microseconds(call, len(layers.caches)))
            difference = float((calls[0][1].float() - calls[1][1].float()).abs().max())
            agree = agree and difference <= MAX_DIFFERENCE  # NaN is not
            theirs, ours = map(statistics.median, taken)
            rows.append({"new": new, "lengths": lengths, "vllm_us": theirs, "moetune_us": ours,
                         "difference": difference})
            text = f"{len(new)} x {new[-1]}" if len(set(new)) == 1 else f"{len(new) - 1} x {new[0]} + {new[-1]}"
            print(f"{text:>14} {max(lengths):7} | {theirs:8.1f} {ours:10.1f} {theirs / ours:6.2f} | {difference:.4f}",
                  flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
