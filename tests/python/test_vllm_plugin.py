"""moetune in vLLM: its registry, its bases' contracts, and its own metadata over caches as it lays them out. vLLM's
package without its compiled parts is enough."""

import os
import pickle
import subprocess
import sys
import unittest
from types import ModuleType
from typing import Any
from unittest import mock

from server_support import (DIM, HEADS, KV_HEADS, PAGE, Paged, differences, experts_of, namespace, offsets,
                            right_experts, why_not)
from torch_support import DEVICE, largest_error

WHY_NOT = why_not("vllm.v1.attention.backend") or why_not("moetune.vllm.attention")
if not WHY_NOT:
    import torch
    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionImpl,
                                           AttentionMetadataBuilder, CommonAttentionMetadata)
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout

    import moetune
    import moetune.vllm
    from moetune import _families, _servers
    from moetune.vllm import attention

NO_EXPERTS = WHY_NOT or why_not("moetune.vllm.experts")
WINDOW, DRAFTS = 30, 3


def model_config(**changed: Any) -> Any:
    """What of vLLM's configuration the backend reads."""
    text = namespace(attn_logit_softcapping=changed.pop("softcap", None))
    model = namespace(get_num_attention_heads=lambda _: HEADS, get_num_kv_heads=lambda _: changed.get("kv", KV_HEADS),
                      get_sliding_window=lambda: WINDOW, hf_text_config=text, max_model_len=4096)
    drafts = namespace(num_speculative_tokens=changed["drafts"],
                       num_speculative_tokens_per_batch_size=changed.get("by_batch")) if "drafts" in changed else None
    return namespace(model_config=model, parallel_config=None, speculative_config=drafts,
                     scheduler_config=namespace(max_num_seqs=16, max_num_batched_tokens=256),
                     compilation_config=namespace(static_forward_context={}))


def selected(**changed: Any) -> Any:
    return AttentionSelectorConfig(**{"head_size": DIM, "dtype": torch.bfloat16, "kv_cache_dtype": "auto",
                                      "block_size": None, **changed})


def cuda_platform() -> Any:
    """vLLM's selection for CUDA, as on an H200. Its module imports compiled operators, which it does not need."""
    with mock.patch.dict(sys.modules, {"vllm._C_stable_libtorch": ModuleType("vllm._C_stable_libtorch")}):
        from vllm.platforms.cuda import CudaPlatformBase

    class Platform(CudaPlatformBase):  # type: ignore[misc]
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(9, 0)

    return Platform


def common(paged: Paged) -> Any:
    starts = offsets(paged.new)
    return CommonAttentionMetadata(
        query_start_loc=starts.to(DEVICE), query_start_loc_cpu=starts,
        seq_lens=torch.tensor(paged.lengths, dtype=torch.int32, device=DEVICE), num_reqs=len(paged.new),
        num_actual_tokens=sum(paged.new), max_query_len=max(paged.new), max_seq_len=max(paged.lengths),
        block_table_tensor=paged.table.to(DEVICE), slot_mapping=paged.new_slots())


def write(key: Any, value: Any, k: Any, v: Any, slots: Any, *_: Any) -> None:
    """vLLM's operator that writes new keys and values, which needs its compiled parts."""
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            k[slot // PAGE, slot % PAGE], v[slot // PAGE, slot % PAGE] = key[token], value[token]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class VllmTest(unittest.TestCase):
    def setUp(self) -> None:
        moetune.vllm.register()
        moetune.vllm.register()
        attention.Backend.pages, attention.Backend.verifies = _servers.PAGES, True
        _servers.page_for.cache_clear()
        self.config = model_config()
        for patch in (mock.patch.object(attention, "get_current_vllm_config_or_none", lambda: self.config),
                      mock.patch("vllm._custom_ops.reshape_and_cache_flash", write, create=True),
                      mock.patch("torch.get_default_dtype", lambda: torch.bfloat16),
                      mock.patch.object(_families, "_search")):
            patch.start()
            self.addCleanup(patch.stop)

    def reasons(self, **changed: Any) -> Any:
        return attention.Backend.validate_configuration(device_capability=DeviceCapability(9, 0),
                                                        **selected(**changed)._asdict())

    def layer(self, window: int = 0, sinks: Any = None) -> Any:
        impl = attention.Implementation(HEADS, DIM, DIM ** -0.5, KV_HEADS, None, window or None, "auto", sinks=sinks)
        impl.process_weights_after_loading(torch.bfloat16)
        return impl

    def builder(self, impl: Any, page: int = PAGE) -> Any:
        self.config.compilation_config.static_forward_context["layer"] = namespace(impl=impl)
        spec = FullAttentionSpec(block_size=page, num_kv_heads=KV_HEADS, head_size=DIM, dtype=torch.bfloat16)
        return attention.Builder(spec, ["layer"], self.config, torch.device(DEVICE))

    def test_registered_once(self) -> None:
        self.assertIs(AttentionBackendEnum["MOETUNE"].get_class(), attention.Choice)

    def test_a_process_without_plugins_reads_a_pickled_choice(self) -> None:
        """As one that vLLM spawns, which gets the configuration first."""
        backends = [AttentionBackendEnum["MOETUNE"], AttentionBackendEnum.TRITON_ATTN, AttentionBackendEnum.CUSTOM]
        program = "import pickle, sys; print([each.name for each in pickle.load(sys.stdin.buffer)])"
        ended = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(backends), capture_output=True)
        self.assertEqual(ended.stdout.decode(), "['MOETUNE', 'TRITON_ATTN', 'CUSTOM']\n", ended.stderr.decode())

    def test_the_bases_contracts(self) -> None:
        for own, base in ((attention.Backend, AttentionBackend), (attention.Builder, AttentionMetadataBuilder),
                          (attention.Implementation, AttentionImpl), (attention.Choice, AttentionBackend)):
            self.assertEqual(getattr(own, "__abstractmethods__", frozenset()), frozenset())
            self.assertEqual(differences(own, base), [])
        self.assertEqual(attention.Builder.get_cudagraph_support(self.config, None),
                         AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE)

    def test_validated_by_what_is_stored(self) -> None:
        self.assertEqual(self.reasons(), [])
        self.assertEqual(attention.Backend.get_preferred_block_size(16), PAGE)
        self.assertEqual(attention.Backend.get_supported_kernel_block_sizes(), [PAGE])
        self.assertEqual(self.reasons(block_size=48), [])
        self.assertEqual(self.reasons(has_sink=True, has_sliding_window=True), [])
        attention.Backend.pages = _servers.PAGES
        self.assertRegex(str(self.reasons(block_size=64)), "nothing is tuned for decode_attention .*page=64.* run: ")
        self.assertRegex(str(self.reasons(has_sink=True)), "nothing is tuned for decode_attention .*sinks=learned")
        self.assertRegex(str(self.reasons(head_size=96)), "nothing is tuned for decode_attention .*head_dim=96")
        for sentence, changed in (("head_dim", {"head_size": 72}), ("dtype", {"dtype": torch.float32}),
                                  ("block_size", {"block_size": 24}), ("MLA", {"use_mla": True}),
                                  ("non-causal", {"use_non_causal": True}),
                                  ("keys and values in float16 for", {"kv_cache_dtype": "float16"}),
                                  ("kv_cache_dtype", {"kv_cache_dtype": "fp8_e5m2"})):
            self.assertRegex(str(self.reasons(**changed)), sentence)
        for cap, sentence in ((30.0, "nothing is tuned for decode_attention .*softcap=30"),
                              (30.5, "a softcap of 30.5 is not served")):
            self.config = model_config(softcap=cap)
            self.assertRegex(str(self.reasons()), sentence)

    def test_what_it_does_not_serve_is_vllms_own_choice(self) -> None:
        platform, chosen = cuda_platform(), AttentionBackendEnum["MOETUNE"]
        with mock.patch.object(attention, "current_platform", platform):
            self.assertEqual(platform.get_attn_backend_cls(chosen, selected()), "moetune.vllm.attention.Backend")
            with self.assertLogs("moetune", "WARNING") as said:
                path = platform.get_attn_backend_cls(chosen, selected(head_size=72))
            self.assertEqual(path, platform.get_attn_backend_cls(None, selected(head_size=72)))
            self.assertTrue(path.startswith("vllm.v1.attention.backends."), path)
            self.assertEqual(platform.get_attn_backend_cls(chosen, selected()), "moetune.vllm.attention.Backend")
        self.assertRegex(said.output[0], f"vLLM's own attention .{path.rpartition('.')[2]}. serves .*: .*head_dim")

    def test_narrow_keys_and_values(self) -> None:
        paged = Paged((1, 5), (20, 9))
        impl = attention.Implementation(HEADS, DIM, 0.125, KV_HEADS, kv_cache_dtype="fp8")
        self.assertTrue(impl.heads.narrow)
        cache = torch.zeros(9, KV_HEADS, PAGE, 2 * DIM, dtype=torch.uint8, device=DEVICE)
        scales = namespace(_k_scale=torch.tensor(0.5), _v_scale=torch.tensor(2.0))
        with mock.patch.object(_servers, "attend") as seen:
            impl.forward(scales, paged.q, None, None, cache, mock.Mock(), paged.q)
        _, _, k, v, *_ = seen.call_args.args
        self.assertEqual((k.dtype, v.data_ptr() - k.data_ptr()), (torch.float8_e4m3fn, DIM))
        self.assertEqual([seen.call_args.kwargs[name].tolist() for name in ("k_scale", "v_scale")], [[0.5], [2.0]])

    def test_batches_over_every_layout_of_the_cache(self) -> None:
        sinks = torch.randn(HEADS).bfloat16().to(DEVICE)
        batches = ((1, 1, 1, 40, 1, 17), (33, 1, 90, 40, 16, 60)), ((1, 1, 1), (77, 16, 3)), ((20, 3), (20, 50))
        for kv_layout in KVCacheLayout:
            impl, begun = self.layer(), Paged(*batches[0])
            builder = self.builder(impl)
            for new, lengths in batches:
                with self.subTest(layout=kv_layout.name, new=new):
                    self.compare(impl, builder, Paged(new, lengths), kv_layout)
        with mock.patch.object(_servers, "attend") as seen:
            impl = self.layer(WINDOW, sinks)
            impl.forward(None, begun.q, None, None, self.cache(begun, kv_layout), builder.build(0, common(begun)),
                         torch.empty_like(begun.q))
        self.assertEqual(seen.call_args.kwargs["window"], WINDOW)
        self.assertTrue(torch.equal(seen.call_args.kwargs["sinks"], sinks.float()))

    def cache(self, paged: Paged, kv_layout: Any) -> Any:
        """As vLLM shows a layer its cache: [pages, heads, page, K and V], whatever lies where."""
        sizes = (2, paged.pages, KV_HEADS, PAGE, 2 * DIM)
        order = kv_layout.stride_order
        memory = torch.full([sizes[dim] for dim in order], float("nan"), dtype=torch.bfloat16, device=DEVICE)
        return memory.permute([order.index(dim) for dim in range(5)])[1]

    def compare(self, impl: Any, builder: Any, paged: Paged, kv_layout: Any) -> None:
        cache = self.cache(paged, kv_layout)
        for slots, k, v in zip(paged.slots, paged.k, paged.v):
            cache[slots // PAGE, :, slots % PAGE] = torch.cat((k, v), -1).to(DEVICE)
        new = paged.new_slots()
        cache[new // PAGE, :, new % PAGE] = float("nan")  # these the backend writes
        metadata = builder.build(common_prefix_len=0, common_attn_metadata=common(paged))
        rows = sum(paged.new)
        padded = [torch.cat([each, each[:1].expand(2, -1, -1)]) for each in (paged.q, *paged.new_tokens())]
        out = torch.full_like(padded[0], 7)
        scales = namespace(_k_scale=None, _v_scale=None)
        impl.do_kv_cache_update(scales, padded[1], padded[2], cache, new)
        self.assertIs(impl.forward(scales, *padded, cache, metadata, output=out), out)
        self.assertLess(largest_error(out[:rows].cpu(), paged.right()), 0.02)
        self.assertTrue(bool((out[rows:] == 7).all()))

    def test_steps_that_a_graph_pads(self) -> None:
        """Sequences without tokens and of length 0, whose rows of q are there."""
        paged, impl = Paged((1, 1, 1), (77, 16, 3)), self.layer()
        builder, cache = self.builder(impl), self.cache(paged, KVCacheLayout.LBNHC)
        for slots, k, v in zip(paged.slots, paged.k, paged.v):
            cache[slots // PAGE, :, slots % PAGE] = torch.cat((k, v), -1).to(DEVICE)
        batch = common(paged)
        pad = torch.nn.functional.pad
        batch = batch.replace(num_reqs=5, num_actual_tokens=5,
                              query_start_loc=pad(batch.query_start_loc, (0, 2), value=3),
                              query_start_loc_cpu=pad(batch.query_start_loc_cpu, (0, 2), value=3),
                              seq_lens=pad(batch.seq_lens, (0, 2)),
                              block_table_tensor=pad(batch.block_table_tensor, (0, 0, 0, 2)))
        self.assertEqual(builder.build(0, batch.replace(num_actual_tokens=3)).steps, 3)
        metadata = builder.build_for_cudagraph_capture(batch)
        self.assertIsNone(metadata.q_offsets)
        q = torch.cat([paged.q, paged.q[:2]])
        out = impl.forward(None, q, None, None, cache, metadata, torch.full_like(q, 7))
        self.assertLess(largest_error(out[:3].cpu(), paged.right()), 0.02)
        self.assertTrue(bool((out[3:] == 0).all()))

    def test_verified_drafts_are_steps(self) -> None:
        """Of as many tokens each: what comes first and is alike; all else is a prompt's."""
        self.config = model_config(drafts=DRAFTS)
        self.assertEqual(self.reasons(), [])
        self.assertEqual(attention.Builder.get_cudagraph_support(self.config, None), AttentionCGSupport.UNIFORM_BATCH)
        impl = self.layer()
        builder, each = self.builder(impl), 1 + DRAFTS
        self.assertEqual(builder.reorder_batch_threshold, each)
        for new, lengths, steps, step_tokens in (((each,) * 3, (77, 16, each), 3, each), ((1, 1), (20, 3), 2, 1),
                                                 ((each, each, 1, 2, 40), (33, 5, 9, 20, 60), 2, each),
                                                 ((1, each, 2), (20, 30, 40), 1, 1), ((2, 2), (20, 30), 0, 1),
                                                 ((3, each, 20), (20, 30, 40), 0, 1), ((9, each), (20, 30), 0, 1)):
            with self.subTest(new=new):
                batch = builder.build(0, common(Paged(new, lengths)))
                self.assertEqual((batch.steps, batch.step_tokens), (steps, step_tokens))
                self.assertEqual(batch.q_offsets is None, steps == len(new))
                self.compare(impl, builder, Paged(new, lengths), KVCacheLayout.LBNHC)

    def test_a_graph_of_verified_drafts_is_padded(self) -> None:
        self.config = model_config(drafts=DRAFTS)
        paged, impl, each = Paged((1 + DRAFTS,) * 2, (20, 7)), self.layer(), 1 + DRAFTS
        builder, pad = self.builder(impl), torch.nn.functional.pad
        batch = common(paged)
        batch = batch.replace(num_reqs=4, num_actual_tokens=4 * each,
                              query_start_loc=pad(batch.query_start_loc, (0, 2), value=2 * each),
                              query_start_loc_cpu=pad(batch.query_start_loc_cpu, (0, 2), value=2 * each),
                              seq_lens=pad(batch.seq_lens, (0, 2)),
                              block_table_tensor=pad(batch.block_table_tensor, (0, 0, 0, 2)))
        metadata = builder.build_for_cudagraph_capture(batch)
        self.assertEqual((metadata.steps, metadata.step_tokens, metadata.q_offsets), (4, each, None))
        self.assertEqual(builder.build(0, batch.replace(num_actual_tokens=2 * each)).steps, 2)
        cache = self.cache(paged, KVCacheLayout.LBNHC)
        for slots, k, v in zip(paged.slots, paged.k, paged.v):
            cache[slots // PAGE, :, slots % PAGE] = torch.cat((k, v), -1).to(DEVICE)
        q = torch.cat([paged.q, paged.q])
        out = impl.forward(None, q, None, None, cache, metadata, torch.full_like(q, 7))
        self.assertLess(largest_error(out[:2 * each].cpu(), paged.right()), 0.02)
        self.assertTrue(bool((out[2 * each:] == 0).all()))
        for new in ((2, 2), (each, 1)):
            with self.assertRaisesRegex(moetune.Unsupported, "PIECEWISE"):
                builder.build_for_cudagraph_capture(common(Paged(new, (20, 7))))

    def test_drafts_that_decode_attention_does_not_verify(self) -> None:
        for drafts, config in ((_servers.MOST_VERIFIED, model_config(drafts=_servers.MOST_VERIFIED)),
                               (DRAFTS - 1, model_config(drafts=DRAFTS - 1))):
            self.config, attention.Backend.verifies = config, True
            has_family = drafts < _servers.MOST_VERIFIED  # of which nothing is stored
            with self.assertLogs("moetune", "WARNING") as said:
                _servers.LOG.warning("before")
                self.assertEqual(self.reasons(), [])
            self.assertEqual(attention.Builder.get_cudagraph_support(config, None),
                             AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE)
            self.assertEqual(self.builder(self.layer()).reorder_batch_threshold, 1)
            self.assertEqual(len(said.output), 2 if has_family else 1)
            if has_family:
                self.assertRegex(said.output[1], f"verified by prefill_attention.*q_len={drafts + 1}")

    def test_drafts_of_other_layers_and_of_changing_numbers(self) -> None:
        self.config = model_config(drafts=DRAFTS)
        self.assertEqual(self.reasons(), [])
        with self.assertNoLogs("moetune", "WARNING"):
            self.assertRegex(str(self.reasons(head_size=72)), "head_dim")
        self.assertEqual(attention.Builder.get_cudagraph_support(self.config, None), AttentionCGSupport.UNIFORM_BATCH)
        dynamic = model_config(drafts=DRAFTS, by_batch=[[1, 4, 3], [5, 16, 1]])
        self.assertEqual(attention.Builder.get_cudagraph_support(dynamic, None),
                         AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE)

    def test_what_a_graph_needs_is_loaded_before(self) -> None:
        impl = self.layer()
        for verified in (1, 1 + DRAFTS):
            self.config = model_config(drafts=verified - 1)
            with mock.patch.object(_servers, "warm") as warmed:
                self.builder(impl)
            warmed.assert_called_once_with(impl.heads, PAGE, "HND", verified)

    def test_without_metadata(self) -> None:
        q = torch.ones(4, HEADS, DIM, dtype=torch.bfloat16, device=DEVICE)
        self.assertFalse(self.layer().forward(None, q, None, None, q[:0], None, torch.ones_like(q)).any())

    def test_refused_at_the_start(self) -> None:
        for options, sentence in (({"alibi_slopes": [1.0]}, "leave out --attention-backend MOETUNE"),
                                  ({"attn_type": "encoder"}, "leave out --attention-backend MOETUNE"),
                                  ({"logits_soft_cap": 30.5}, "a softcap of 30.5 is not served")):
            with self.assertRaisesRegex(moetune.Unsupported, sentence):
                attention.Implementation(HEADS, DIM, 0.125, KV_HEADS, **options)
        with self.assertRaisesRegex(moetune.Unsupported, "with pages of 64: nothing is tuned for decode_attention"):
            self.builder(self.layer(), 64)


@unittest.skipIf(NO_EXPERTS, NO_EXPERTS)
class ExpertsTest(unittest.TestCase):
    EXPERTS, HIDDEN, INTERMEDIATE, TOP_K = 16, 256, 128, 2
    backend = "TRITON"

    def setUp(self) -> None:
        from vllm.config import CompilationConfig
        from vllm.model_executor import custom_op
        from vllm.model_executor.layers.fused_moe import unquantized_fused_moe_method as module
        from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend

        self.module, self.method = module, module.UnquantizedFusedMoEMethod
        compilation = CompilationConfig(custom_ops=["none"])
        for patch in (mock.patch.object(module, "select_unquantized_moe_backend",
                                        lambda moe_config: (UnquantizedMoeBackend[self.backend], None)),
                      mock.patch.object(custom_op, "get_cached_compilation_config", lambda: compilation),
                      mock.patch.dict(custom_op.op_registry_oot), mock.patch.object(_families, "_search"),
                      mock.patch.object(self.method, "process_weights_after_loading"),
                      mock.patch.object(self.method, "forward_native", return_value="vLLM's")):
            patch.start()
            self.addCleanup(patch.stop)

    def made(self, dtype: Any = None, **changed: Any) -> tuple[Any, Any]:
        """A method, once weights are loaded, and its layer."""
        parallel = namespace(use_all2all_kernels=False, dp_size=changed.pop("dp_size", 1))
        method = self.method(namespace(has_bias=changed.pop("has_bias", False), is_lora_enabled=False,
                                       moe_parallel_config=parallel))
        w13, w2 = (each.to(dtype or torch.bfloat16)
                   for each in experts_of(self.EXPERTS, self.HIDDEN, self.INTERMEDIATE))
        layer = namespace(**{"w13_weight": w13, "w2_weight": w2, "activation": namespace(value="silu"),
                             "apply_router_weight_on_input": False, "expert_map": None, "top_k": self.TOP_K, **changed})
        method.process_weights_after_loading(layer)
        return method, layer

    def test_inert_unless_chosen(self) -> None:
        moetune.vllm.register()
        for value, reason, missing in (("yes", "MOETUNE_VLLM_EXPERTS must be 1 or 0 .got yes", {}),
                                       ("1", "moetune does not fit this vLLM", {"moetune.vllm.experts": None})):
            with mock.patch.dict(os.environ, MOETUNE_VLLM_EXPERTS=value), mock.patch.dict(sys.modules, missing), \
                    self.assertLogs("moetune", "WARNING") as said:
                moetune.vllm.register()
            self.assertRegex(said.output[0], reason)
        self.assertIs(type(self.made()[0]), self.method)
        with mock.patch.dict(os.environ, MOETUNE_VLLM_EXPERTS="1"):
            moetune.vllm.register()
            moetune.vllm.register()
        self.assertEqual(type(self.made()[0]).__name__, "Experts")

    def test_routed_experts(self) -> None:
        from moetune.vllm import experts

        experts.register()
        self.assertEqual(differences(experts.Experts, self.method), [])
        method, layer = self.made()
        self.assertEqual(method.topk_indices_dtype, torch.int32)
        x, weights = torch.randn(7, self.HIDDEN).bfloat16().to(DEVICE), torch.rand(7, 2).to(DEVICE)
        half = torch.arange(2 * self.EXPERTS, dtype=torch.int32, device=DEVICE) - self.EXPERTS // 2
        for expert_map in (None, torch.where(half < self.EXPERTS, half.clamp(min=-1), -1)):
            method, layer = self.made(expert_map=expert_map)
            count = self.EXPERTS if expert_map is None else len(expert_map)
            ids = torch.stack([torch.randperm(count)[:2] for _ in range(7)]).to(torch.int32).to(DEVICE)
            made = method.apply(layer, x, weights, ids, None, None)
            local = ids if expert_map is None else expert_map[ids.long()]
            right = right_experts(x, local, weights, layer.w13_weight, layer.w2_weight)
            self.assertLess(largest_error(made.cpu(), right), 0.02 * float(right.abs().max()))

    def test_what_it_does_not_serve_is_vllms(self) -> None:
        from moetune.vllm import experts

        experts.register()
        for sentence, changed in (("activation gelu", {"activation": namespace(value="gelu")}),
                                  ("with biases or a limit", {"has_bias": True}), ("on the input", {
                                      "apply_router_weight_on_input": True}), ("data parallelism", {"dp_size": 2}),
                                  ("in float8_e4m3fn: unquantized", {"dtype": torch.float8_e4m3fn}),
                                  ("nothing is tuned for route_plan .*top_k=3", {"top_k": 3})):
            with self.assertLogs("moetune", "WARNING") as said:
                method, layer = self.made(**changed)
            self.assertRegex(said.output[0], f"vLLM's own experts serve a layer: .*{sentence}")
            self.assertEqual(method.apply(layer, None, None, None, None, None), "vLLM's")
        self.backend = "FLASHINFER_CUTLASS"
        with self.assertLogs("moetune", "WARNING") as said:
            self.made()
        self.assertRegex(said.output[0], "FLASHINFER_CUTLASS reorders their weights; choose --moe-backend triton")


if __name__ == "__main__":
    unittest.main()
