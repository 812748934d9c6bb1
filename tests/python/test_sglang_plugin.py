"""moetune in SGLang: its registries, its bases' contracts, and its own pools, batches and runners. SGLang's package
without its compiled parts is enough."""

import argparse
import json
import logging
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from server_support import (DIM, HEADS, KV_HEADS, PAGE, Paged, differences, experts_of, namespace, right_experts,
                            why_not)
from torch_support import DEVICE, largest_error

WHY_NOT = why_not("sglang.srt.layers.attention.attention_registry") or why_not("moetune.sglang.attention")
if not WHY_NOT:
    import torch
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
    from sglang.srt.model_executor.forward_batch_info import ForwardMode
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES, MOE_RUNNER_BACKEND_CHOICES, ServerArgs

    import moetune.sglang
    from moetune import _families, _servers
    from moetune.sglang import attention

NO_EXPERTS = WHY_NOT or why_not("moetune.sglang.experts")
CONTEXT = 128


def model(**changed: Any) -> Any:
    layer = RadixAttention(HEADS, DIM, DIM ** -0.5, KV_HEADS, layer_id=0, **changed)
    return torch.nn.ModuleList([layer])


def runner_of(paged: Paged, page: int = PAGE, **changed: Any) -> Any:
    """What of a model runner the backend reads, with pools of SGLang's own."""
    slots = paged.pages * PAGE
    pool = MHATokenToKVPool(size=slots - page, page_size=page, dtype=torch.bfloat16, head_num=KV_HEADS, head_dim=DIM,
                            layer_num=1, device=DEVICE, enable_memory_saver=False)
    requests = ReqToTokenPool(16, CONTEXT, DEVICE, enable_memory_saver=False)
    for sequence, tokens in enumerate(paged.slots):
        requests.req_to_token[2 * sequence + 1, :len(tokens)] = tokens.to(torch.int32).to(DEVICE)
    parts = {"model": model(), "use_mla_backend": False, "dtype": torch.bfloat16, "kv_cache_dtype": torch.bfloat16,
             "spec_algorithm": namespace(is_none=lambda: True), "page_size": page, "token_to_kv_pool": pool,
             "req_to_token_pool": requests, "kv_index_translator": namespace(is_translating=False),
             "model_config": namespace(has_attention_sinks=False, context_len=CONTEXT), "server_args": None}
    return namespace(**{**parts, **changed})


def batch_of(paged: Paged) -> Any:
    """What of a ForwardBatch the backend reads: of steps if each sequence has one new token, else of an extend."""
    mode = ForwardMode.DECODE if max(paged.new) == 1 else ForwardMode.EXTEND
    return namespace(forward_mode=mode, out_cache_loc=paged.new_slots(), out_cache_loc_is_physical=True,
                     req_pool_indices=torch.arange(1, 2 * len(paged.new), 2, device=DEVICE),
                     seq_lens=torch.tensor(paged.lengths, device=DEVICE), seq_lens_cpu=torch.tensor(paged.lengths),
                     extend_seq_lens=torch.tensor(paged.new, dtype=torch.int32, device=DEVICE),
                     extend_seq_lens_cpu=paged.new)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class SglangTest(unittest.TestCase):
    def setUp(self) -> None:
        moetune.sglang.register()
        moetune.sglang.register()
        _servers.page_for.cache_clear()
        patch = mock.patch.object(_families, "_search")
        patch.start()
        self.addCleanup(patch.stop)

    def test_registered_once(self) -> None:
        for choices in (ATTENTION_BACKENDS, ATTENTION_BACKEND_CHOICES, MOE_RUNNER_BACKEND_CHOICES):
            self.assertEqual(list(choices).count("moetune"), 1)
        parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(parser)
        parsed = parser.parse_args(["--model-path", "x", "--attention-backend", "moetune", "--moe-runner-backend",
                                    "moetune"])
        self.assertEqual((parsed.attention_backend, parsed.moe_runner_backend), ("moetune", "moetune"))

    def test_a_failure_registers_no_runner_and_is_said_once(self) -> None:
        from sglang.srt.plugins.hook_registry import HookRegistry

        with mock.patch.dict(ATTENTION_BACKENDS), mock.patch.object(HookRegistry, "register", side_effect=TypeError), \
                mock.patch("sglang.srt.server_args.add_attention_backend_choices"), \
                mock.patch("sglang.srt.server_args.add_moe_runner_backend_choices") as offered:
            del ATTENTION_BACKENDS["moetune"]
            with self.assertLogs("moetune", "INFO"):
                moetune.sglang.register()
            with self.assertNoLogs("moetune", "INFO"):
                moetune.sglang.register()
            self.assertIn("moetune", ATTENTION_BACKENDS)
        offered.assert_not_called()

    def test_the_bases_contract(self) -> None:
        self.assertEqual(differences(attention.Backend, AttentionBackend), [])

    def run_batch(self, paged: Paged, in_graph: bool) -> None:
        runner, batch = runner_of(paged), batch_of(paged)
        backend, layer = ATTENTION_BACKENDS["moetune"](runner), runner.model[0]
        self.assertIsInstance(backend, attention.Backend)
        old = [slots[:len(slots) - new] for slots, new in zip(paged.slots, paged.new)]
        for buffer, part in zip((runner.token_to_kv_pool.k_buffer[0], runner.token_to_kv_pool.v_buffer[0]),
                                (paged.k, paged.v)):
            buffer.fill_(float("nan"))
            for slots, tokens in zip(old, part):
                buffer[slots] = tokens[:len(slots)].to(DEVICE)
        if in_graph:
            backend.init_cuda_graph_state(16, 16)
            backend.init_forward_metadata_out_graph(batch, in_capture=True)
            backend.init_forward_metadata_in_graph(batch)
        else:
            backend.init_forward_metadata(batch)
        made = backend.forward(paged.q.flatten(1), *paged.new_tokens(), layer, batch)
        self.assertLess(largest_error(made.view(-1, HEADS, DIM).cpu(), paged.right()), 0.02)

    def test_batches_over_its_own_pools(self) -> None:
        self.run_batch(Paged((1, 1, 1), (77, 16, 3)), in_graph=False)
        self.run_batch(Paged((1, 1, 1), (77, 16, 3)), in_graph=True)
        self.run_batch(Paged((40, 1, 17), (40, 33, 60)), in_graph=False)  # a mixed batch is an extend, too

    def test_windows_and_sinks(self) -> None:
        paged, sinks = Paged((1, 1), (77, 16)), torch.randn(HEADS).bfloat16().to(DEVICE)
        layers = model(sliding_window_size=29)
        runner = runner_of(paged, model=layers, model_config=namespace(has_attention_sinks=True, context_len=CONTEXT))
        backend, batch = ATTENTION_BACKENDS["moetune"](runner), batch_of(paged)
        backend.init_forward_metadata(batch)
        with mock.patch.object(_servers, "attend") as seen:
            backend.forward(paged.q.flatten(1), *paged.new_tokens(), layers[0], batch, sinks=sinks)
        self.assertEqual(seen.call_args.kwargs["window"], 30)
        self.assertTrue(torch.equal(seen.call_args.kwargs["sinks"], sinks.float()))

    def test_what_it_does_not_serve_is_sglangs_own(self) -> None:
        paged = Paged((1,), (9,))
        other = namespace(is_none=lambda: False)
        cases = (("a latent", {"use_mla_backend": True}), ("speculative", {"spec_algorithm": other}),
                 ("--disable-hybrid-swa-memory", {"token_to_kv_pool": object()}),
                 ("float8_e4m3fn for a model", {"kv_cache_dtype": torch.float8_e4m3fn}),
                 ("choose --page-size 64", {"page": 48}),
                 ("a softcap of 30.5", {"model": model(logit_cap=30.5)}),
                 ("nothing is tuned for decode_attention .*softcap=30", {"model": model(logit_cap=30.0)}),
                 ("nothing is tuned for decode_attention group=4,head_dim=64,page=64", {"page": 64}))
        for sentence, changed in cases:
            with mock.patch("sglang.srt.arg_groups.model_override_base.get_default_attn_backend",
                            return_value="triton"), mock.patch.dict(ATTENTION_BACKENDS, triton=lambda _: "its own"), \
                    self.assertLogs("moetune", "WARNING") as said:
                self.assertEqual(ATTENTION_BACKENDS["moetune"](runner_of(paged, **changed)), "its own")
            self.assertRegex(said.output[0], f"SGLang's own attention .triton. serves: .*{sentence}")


@unittest.skipIf(NO_EXPERTS, NO_EXPERTS)
class ExpertsTest(unittest.TestCase):
    EXPERTS, HIDDEN, INTERMEDIATE, TOP_K = 16, 256, 128, 2

    @classmethod
    def setUpClass(cls) -> None:
        from sglang.srt.plugins.hook_registry import HookRegistry

        moetune.sglang.register()
        logging.disable(logging.INFO)
        HookRegistry.apply_hooks()

    @classmethod
    def tearDownClass(cls) -> None:
        logging.disable(logging.NOTSET)

    def setUp(self) -> None:
        from sglang.srt.layers.moe import utils
        from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig
        from sglang.srt.layers.quantization import fp8, mxfp4, unquant

        self.unquant, self.Config = unquant, MoeRunnerConfig
        self.chosen = "moetune"
        for name, value in (("get_moe_runner_backend", lambda: utils.resolve_moe_runner_backend(self.chosen)),
                            ("get_moe_a2a_backend", lambda: utils.MoeA2ABackend.NONE),
                            ("get_lora", lambda: namespace(enable_lora=False, lora_paths=None))):
            for module in (fp8, mxfp4, unquant, utils, __import__("moetune.sglang.experts", fromlist=["experts"]),
                           __import__("sglang.srt.layers.moe.moe_runner.runner", fromlist=["runner"])):
                if hasattr(module, name):
                    patch = mock.patch.object(module, name, value)
                    patch.start()
                    self.addCleanup(patch.stop)

    def config(self, **changed: Any) -> Any:
        return self.Config(**{"num_experts": self.EXPERTS, "num_local_experts": self.EXPERTS, "top_k": self.TOP_K,
                              "hidden_size": self.HIDDEN, "intermediate_size_per_partition": self.INTERMEDIATE,
                              "params_dtype": torch.bfloat16, "layer_id": 3, **changed})

    def made(self, **changed: Any) -> Any:
        method = self.unquant.UnquantizedFusedMoEMethod()
        method.create_moe_runner(namespace(), self.config(**changed))
        return method

    def test_inert_unless_chosen(self) -> None:
        self.chosen = "auto"
        self.assertEqual(self.made().runner.runner_backend.value, "triton")

    def test_our_kernel_runs(self) -> None:
        from sglang.srt.layers.moe.token_dispatcher.standard import StandardDispatchOutput
        from sglang.srt.layers.moe.topk import StandardTopKOutput

        w13, w2 = experts_of(self.EXPERTS, self.HIDDEN, self.INTERMEDIATE)
        layer = namespace(w13_weight=w13, w2_weight=w2)
        x = torch.randn(7, self.HIDDEN).bfloat16().to(DEVICE)
        ids = torch.stack([torch.randperm(self.EXPERTS)[:2] for _ in range(7)]).to(torch.int32).to(DEVICE)
        ids[2, 1] = -1  # an expert of another GPU
        weights = torch.rand(7, 2).to(DEVICE)
        for factor in (None, 2.5):
            method = self.made(routed_scaling_factor=factor)
            self.assertEqual(method.runner.runner_backend.value, "moetune")
            dispatched = StandardDispatchOutput(x, None, StandardTopKOutput(weights, ids, None))
            made = method.forward_cuda(layer, dispatched).hidden_states
            right = right_experts(x, ids, weights * (factor or 1.0), w13, w2)
            self.assertLess(largest_error(made.cpu(), right), 0.02 * float(right.abs().max()))

    def test_what_it_does_not_serve_is_sglangs_own(self) -> None:
        for sentence, changed in (("activation gelu", {"activation": "gelu"}), ("limit", {"swiglu_limit": 7.0}),
                                  ("without a gate", {"is_gated": False}), ("without a sum", {"no_combine": True}),
                                  ("in float32: unquantized", {"params_dtype": torch.float32})):
            with self.assertLogs("moetune", "WARNING") as said:
                method = self.made(**changed)
            self.assertRegex(said.output[0], f"SGLang's own experts serve layer 3: .*{sentence}")
            self.assertEqual(method.runner.runner_backend.value, "triton")

    def test_packed_weights_are_refused(self) -> None:
        from sglang.srt.layers.moe.token_dispatcher.standard import StandardDispatchOutput
        from sglang.srt.layers.moe.topk import StandardTopKOutput

        x, packed = torch.ones(1, self.HIDDEN).bfloat16(), torch.zeros(1, 2, 2, dtype=torch.uint8)
        dispatched = StandardDispatchOutput(x, None, StandardTopKOutput(x, x, None))
        with self.assertRaisesRegex(moetune.Unsupported, "in torch.uint8 for tokens in torch.bfloat16: .*leave out"):
            self.made().forward_cuda(namespace(w13_weight=packed, w2_weight=packed), dispatched)

    def resolved(self, model: str, **quantization: Any) -> Any:
        """SGLang's arguments for a model with a folder of its own, once SGLang chose by the model."""
        from sglang.srt.arg_groups.model_hook import handle_model_specific_adjustments
        from sglang.srt.arg_groups.overrides import resolved_view
        from sglang.srt.arg_groups.resolution_hooks import run_hook

        config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": self.HIDDEN,
                  "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
                  "head_dim": DIM, "moe_intermediate_size": self.INTERMEDIATE, "num_experts": self.EXPERTS,
                  "num_experts_per_tok": self.TOP_K, "max_position_embeddings": CONTEXT, "torch_dtype": "bfloat16",
                  **quantization}
        (Path(model) / "config.json").write_text(json.dumps(config))
        arguments = ServerArgs(model_path=model, moe_runner_backend="moetune", device="cuda")
        run_hook(handle_model_specific_adjustments, arguments)
        return resolved_view(arguments)

    def test_a_quantized_model_has_sglangs_own_experts(self) -> None:
        from sglang.srt.layers.quantization import fp8, mxfp4

        with TemporaryDirectory() as model:
            view = self.resolved(model)
            self.assertEqual((view.moe_runner_backend, view.speculative_moe_runner_backend), ("moetune", "auto"))
        with TemporaryDirectory() as model, self.assertLogs("moetune", "WARNING") as said:
            view = self.resolved(model, quantization_config={"quant_method": "fp8", "activation_scheme": "dynamic",
                                                             "weight_block_size": [128, 128]})
        self.assertRegex(said.output[0], "SGLang's own experts serve: the model is quantized .fp8.")
        methods = (fp8.Fp8MoEMethod(fp8.Fp8Config(is_checkpoint_fp8_serialized=True, weight_block_size=[128, 128])),
                   mxfp4.Mxfp4MoEMethod.__new__(mxfp4.Mxfp4MoEMethod))
        methods[1].use_mega_moe = methods[1].use_triton_kernels = False
        self.chosen = view.moe_runner_backend
        for method in methods:
            method.create_moe_runner(namespace(), self.config())
            self.assertEqual(method.runner.runner_backend.value, "triton")


if __name__ == "__main__":
    unittest.main()
