"""moetune.transformers: small models beside themselves as transformers runs them, on a GPU or on the scripted driver.

The scripted driver's decode_attention knows no windows and sinks: what it is called with is compared there.
"""

import contextlib
import copy
import itertools
import unittest
import warnings
from typing import Any
from unittest import mock

import moetune
from support import SCRIPTED
from torch_support import DEVICE, backends, why_no_inductor
from transformers_models import WHY_NOT, cache_of, disagreements, make, prompt, same_experts, steps

if not WHY_NOT:
    import torch
    import transformers

    import moetune.torch as operators
    import moetune.transformers
    from moetune import _attend, _families, _serving, _small

STEPS = 5 if SCRIPTED else 16
COMPUTED = ("Llama", "Qwen3Moe", "Mixtral", *(() if SCRIPTED else ("GptOss",)))


def used(kind: str, **changed: Any) -> Any:
    model = make(kind, **changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        served = moetune.transformers.use(model, budget=0)
    assert served.attention is None, served.attention
    return model


@unittest.skipIf(WHY_NOT, WHY_NOT)
class TransformersTest(unittest.TestCase):
    def agree(self, made: Any, right: Any) -> None:
        error, other = disagreements(made, right)
        self.assertLess(error, 0.04)
        self.assertEqual(other, 0)

    def both(self, kind: str, run: Any) -> None:
        """Of a model and of the same one with use()."""
        stock, model = make(kind), used(kind)
        with torch.inference_mode(), same_experts(stock, model):
            right = run(stock)
            self.agree(run(model), right)

    def test_prompts_and_steps_as_stock(self) -> None:
        for kind in COMPUTED:
            for is_static, batch in itertools.product((False, True), (1, 4)):
                ids = prompt(batch, 13 + STEPS)
                with self.subTest(kind=kind, static=is_static, batch=batch):
                    self.both(kind, lambda model: steps(model, ids, is_static, 13))

    def test_new_tokens_go_into_static_caches_at_once(self) -> None:
        """But for the first layer, whose own update tells whether there is room."""
        model, ids = used("Qwen3Moe", num_hidden_layers=3), prompt(3, 12)
        for is_static, calls in ((True, 3 * 2), (False, 0)):
            with mock.patch.object(operators, "qk_norm_rope_kv_write", wraps=operators.qk_norm_rope_kv_write) as written:
                steps(model, ids, is_static, 9)
            self.assertEqual(written.call_count, calls)
        if SCRIPTED:  # on a GPU it ends the process
            cache = cache_of(model, True, 9)
            with torch.inference_mode(), self.assertRaises((IndexError, RuntimeError)):
                model(ids[:, :9], past_key_values=cache)
                model(ids[:, 9:10], past_key_values=cache)

    def test_where_new_tokens_go(self) -> None:
        """To the rows that the cache's own updates would take, which each forward's first layer finds."""
        model = used("Qwen3Moe", num_hidden_layers=3)
        layers, cache = _small.attention_layers(model), cache_of(model, True, 8)
        cache.early_initialization(2, 2, 64, model.dtype, torch.device(DEVICE))

        def slots(batch: int = 2, dtype: Any = model.dtype) -> list[Any]:
            qkv = torch.zeros(batch, 768, dtype=dtype, device=DEVICE)
            found = [_small._layer_and_slots(layer, cache, qkv) for layer in layers]
            return [None if each is None else each[1].tolist() for each in found]

        for length in (4, 5, 0):
            cache.layers[0].cumulative_length.fill_(length)
            self.assertEqual(slots(), [None, [length, 16 + length], [length, 16 + length]])
        self.assertEqual(slots(batch=1), [None, None, None])
        self.assertEqual(slots(dtype=torch.float16 if model.dtype == torch.bfloat16 else torch.bfloat16),
                         [None, None, None])
        with mock.patch.object(_small, "is_capturing", lambda: True):  # slots of a graph are the graph's
            self.assertIsNone(_small._layer_and_slots(layers[1], cache, torch.zeros(2, 768, dtype=model.dtype)))

    def test_without_a_cache(self) -> None:
        ids = prompt(3, 9)
        for kind in COMPUTED:
            self.both(kind, lambda model: model(ids, use_cache=False).logits.float())

    def test_padding_on_the_left(self) -> None:
        ids, mask = prompt(3, 12 + STEPS), torch.ones(3, 12 + STEPS, dtype=torch.long, device=DEVICE)
        mask[0, :5], mask[2, :11] = 0, 0
        for kind, is_static in itertools.product(COMPUTED, (False, True)):
            with self.subTest(kind=kind, static=is_static):
                self.both(kind, lambda model: steps(model, ids, is_static, 12, mask))

    def test_chunks_of_a_prompt(self) -> None:
        """New tokens see those of the cache, too."""
        ids = prompt(2, 20)
        for kind, is_static in itertools.product(COMPUTED, (False, True)):
            def run(model: Any) -> Any:
                cache = cache_of(model, is_static, 24)
                return torch.cat([model(part, past_key_values=cache).logits.float()
                                  for part in ids.split((9, 4, 7), 1)], 1)
            self.both(kind, run)

    def test_generate(self) -> None:
        ids, mask = prompt(3, 10), torch.ones(3, 10, dtype=torch.long, device=DEVICE)
        for cache, is_padded in itertools.product((None, "static"), (False, True)):
            decode: Any
            stock, model = make("Llama"), used("Llama")
            mask[1, :4] = 0 if is_padded else 1
            options = {"attention_mask": mask, "max_new_tokens": STEPS, "do_sample": False, "output_logits": True,
                       "return_dict_in_generate": True, "cache_implementation": cache,
                       "disable_compile": SCRIPTED or bool(why_no_inductor())}
            is_compiled = cache == "static" and not options["disable_compile"]
            counted = mock.patch.object(operators, "decode_attention", wraps=operators.decode_attention)
            with contextlib.nullcontext() if is_compiled else counted as decode:
                made, right = model.generate(ids, **options), stock.generate(ids, **options)
            with self.subTest(cache=cache, padded=is_padded):
                # Behind the first other token, where a margin was small, the answers are other ones.
                same = 1 + int((made.sequences == right.sequences)[:, 10:].all(0).cumprod(0).sum())
                self.agree(torch.stack(made.logits[:same]), torch.stack(right.logits[:same]))
                if decode is not None:
                    self.assertEqual(decode.call_count > 0, not is_padded)

    def test_calls_of_a_model_with_windows_and_sinks(self) -> None:
        model, calls = used("GptOss"), []

        def wraps(name: str) -> Any:
            operator = getattr(operators, name)

            def run(*given: Any, **options: Any) -> Any:
                calls.append((name, given, options))
                return operator(*given, **options)
            return mock.patch.object(operators, name, run)

        ids = prompt(2, 35)
        with wraps("decode_attention"), wraps("prefill_attention"), torch.inference_mode():
            for is_static in (False, True):
                steps(model, ids, is_static, 33)
            cache = transformers.DynamicCache()  # whose layers all keep all tokens
            for part in ids.split((33, 1, 1), 1):
                model(part, past_key_values=cache)
        kinds = [layer.self_attn.sliding_window for layer in model.model.layers]
        self.assertEqual(sorted(kinds, key=str), [30, None])
        seen = {(name, options["window"], int(given[4][-1]) if name == "decode_attention" else given[1].shape[1])
                for name, given, options in calls}
        self.assertLessEqual({("decode_attention", 0, 34), ("decode_attention", 0, 30), ("decode_attention", 30, 34),
                              ("prefill_attention", 30, 2 * 33 + 33)}, seen)
        for _, given, options in calls:
            self.assertEqual((options["sinks"].dtype, options["sinks"].shape), (torch.float32, (8,)))
            self.assertEqual(given[1].stride(-1), 1)

    def test_experts_of_gpt_oss(self) -> None:
        """Their weights [experts, in, out] stay where and as they are, and the operator gets views of them."""
        model, stock = make("GptOss"), make("GptOss")
        before = [(each.data_ptr(), each.stride()) for each in model.parameters()]
        moetune.transformers.use(model, budget=0)
        for ours, theirs in zip(model.model.layers, stock.model.layers):
            x, experts = torch.randn(7, 256, device=DEVICE).bfloat16(), ours.mlp.experts
            for each in experts.parameters():
                self.assertIn((each.data_ptr(), each.stride()), before)
            with mock.patch.object(operators, "moe_experts", wraps=operators.moe_experts) as called, \
                    torch.inference_mode():
                self.agree(ours.mlp(x[None])[0].float(), theirs.mlp(x[None])[0].float())
            for given, weights in zip(called.call_args.args[5:7], (experts.gate_up_proj, experts.down_proj)):
                self.assertEqual((given.data_ptr(), given.shape), (weights.data_ptr(), weights.transpose(1, 2).shape))
                self.assertEqual(given.stride(), (weights[0].numel(), 1, weights.shape[2]))
        self.assertIn("layout=n_major", _families.experts_of(model)[1].facts)
        experts.down_proj.data = experts.down_proj.data.transpose(1, 2).contiguous().transpose(1, 2)
        self.assertEqual(["n_major" in each.facts for each in _families.experts_of(model)[1::2]], [False, True])

    def test_nothing_is_copied(self) -> None:
        """Keys lie as the cache has them: tokens of a sequence side by side, heads and sequences apart."""
        model, operator = used("Llama"), operators.prefill_attention
        cache = cache_of(model, True, 40)
        with mock.patch.object(operators, "prefill_attention", wraps=operator) as seen, torch.inference_mode():
            model(prompt(3, 11), past_key_values=cache)
        _, k, v, q_offsets, kv_offsets = seen.call_args_list[0].args[:5]
        self.assertEqual(k.data_ptr(), cache.layers[0].keys.data_ptr())
        self.assertEqual(v.data_ptr(), cache.layers[0].values.data_ptr())
        self.assertEqual((tuple(k.shape), k.stride()), ((2, 2 * 2 * 40 + 40, 64), (40 * 64, 64, 1)))
        self.assertEqual(q_offsets.tolist(), [0, 0, 11, 11, 22, 22, 33])
        self.assertEqual(kv_offsets.tolist(), [0, 0, 11, 80, 91, 160, 171])

    def test_compiled_steps(self) -> None:
        ids, mask = prompt(2, 12), torch.ones(2, 12, dtype=torch.long, device=DEVICE)
        mask[0, :3] = 0
        for kind, backend, is_padded in itertools.product(("Llama", "Qwen3Moe"), backends(), (False, True)):
            torch._dynamo.reset()  # which bounds how often one function is compiled
            model, logits = used(kind), []
            for forward in (torch.compile(model.forward, backend=backend, fullgraph=True), model.forward):
                cache, made = cache_of(model, True, 16), []
                for begin, end, call in ((0, 9, model), *((at, at + 1, forward) for at in range(9, 12))):
                    given = {"attention_mask": mask[:, :end]} if is_padded else {}
                    with torch.inference_mode():
                        made.append(call(ids[:, begin:end], past_key_values=cache, **given).logits[:, -1].float())
                logits.append(torch.stack(made))
            with self.subTest(kind=kind, backend=backend, padded=is_padded):
                self.agree(*logits)

    def test_use_twice_and_stop(self) -> None:
        ids = prompt(1, 6)
        for kind, why in (("Qwen3Moe", None), ("GptOss", None), ("Llama", _families.NO_EXPERTS)):
            model = make(kind)
            before = model.config._attn_implementation, model.get_experts_implementation()
            with torch.inference_mode():
                right = model(ids).logits
            for _ in range(2):
                self.assertEqual(moetune.transformers.use(model, budget=0), (None, why, None, None, None, why))
                self.assertEqual(model.config._attn_implementation, "moetune")
            moetune.transformers.stop(model)
            moetune.transformers.stop(model)
            self.assertEqual((model.config._attn_implementation, model.get_experts_implementation()), before)
            self.assertNotIn("prepare_inputs_for_generation", vars(model))
            with torch.inference_mode():
                error, other = disagreements(model(ids).logits.float(), right.float())
            self.assertEqual((error, other), (0, 0))

    def test_norms_and_rope(self) -> None:
        for kind, calls in (("Llama", 5), ("Qwen3Moe", 5), ("GptOss", 5)):
            model, stock = used(kind), make(kind)
            with mock.patch.object(operators, "add_rmsnorm", wraps=operators.add_rmsnorm) as norm, \
                    mock.patch.object(operators, "qk_norm_rope", wraps=operators.qk_norm_rope) as rope, \
                    torch.inference_mode():
                model(prompt(2, 9))
            self.assertEqual((norm.call_count, rope.call_count), (calls, 2))
            self.assertEqual("q_weight" in rope.call_args.kwargs, kind == "Qwen3Moe")
            layer = model.model.layers[0].self_attn
            whole = getattr(layer, _small._WEIGHT)
            self.assertEqual(layer.k_proj.weight.data_ptr(), whole[512:].data_ptr())
            self.assertEqual(set(model.state_dict()), set(stock.state_dict()))
            moetune.transformers.stop(model)
            self.assertFalse(any("forward" in vars(each) for each in model.modules()))
            for mine, theirs in zip(model.parameters(), stock.parameters()):
                self.assertTrue(torch.equal(mine, theirs))
            self.assertEqual(layer.k_proj.weight.untyped_storage().nbytes(), layer.k_proj.weight.nbytes)

    def test_products_of_few_rows(self) -> None:
        """A layer's q, k and v, o and router, and the head; of 17 rows none."""
        for kind, calls, biased in (("Llama", 5, 0), ("Qwen3Moe", 7, 0), ("GptOss", 7, 6)):
            model, stock = used(kind), make(kind)
            for tokens in (16, 17):
                with mock.patch.object(operators, "few_rows_linear", wraps=operators.few_rows_linear) as few, \
                        torch.inference_mode():
                    model(prompt(1, tokens))
                given = [(tuple(call.args[1].shape), call.args[2] is not None) for call in few.call_args_list]
                self.assertEqual((len(given), sum(bias for _, bias in given)),
                                 (calls, biased) if tokens == 16 else (0, 0))
                if given:
                    self.assertLessEqual({(768, 256), (256, 512), (199, 256)}, {shape for shape, _ in given})
            for ours, theirs in zip(model.modules(), stock.modules()):
                if type(ours).__name__.endswith("TopKRouter"):
                    x = torch.randn(5, 256, device=DEVICE).bfloat16()
                    with torch.inference_mode():
                        logits, weights, ids = ours(x)
                        right = theirs(x)
                    self.agree(logits.float(), right[0].float())
                    self.assertEqual((weights.dtype, ids.dtype), (torch.float32, torch.int64))
                    self.assertLess(float((weights - right[1].float()).abs().max()), 0.02)

    def test_rows_and_weights_that_lie_apart(self) -> None:
        """Rows that vectors do not fit are copied, and such weights are PyTorch's."""
        layer = used("Llama").model.layers[0].self_attn.o_proj
        x, wide = torch.randn(3, 512, device=DEVICE).bfloat16(), torch.nn.functional.pad(layer.weight.data, (0, 3))
        with torch.inference_mode():
            right = torch.nn.functional.linear(x, layer.weight).float()
            for given in (x, x.t().contiguous().t(), torch.nn.functional.pad(x, (3, 0))[:, 3:], x[None]):
                self.agree(layer(given).float().view_as(right), right)
            layer.weight.data = wide[:, :-3]
            self.agree(layer(x).float(), right)

    def test_routing(self) -> None:
        """As the model's own: of the same logits the same experts, and weights but for their rounding."""
        for kind in ("Qwen3Moe", "Mixtral", "GptOss"):
            model, stock = used(kind), make(kind)
            for ours, theirs in zip(model.modules(), stock.modules()):
                if not type(ours).__name__.endswith("TopKRouter"):
                    continue
                x = torch.randn(70, 256, device=DEVICE).bfloat16()  # by PyTorch's product: the same logits
                with mock.patch.object(operators, "route_weights", wraps=operators.route_weights) as route, \
                        torch.inference_mode():
                    logits, weights, ids = ours(x)
                    right = theirs(x)
                self.assertEqual(route.call_count, 1)
                self.assertTrue(torch.equal(logits, right[0]))
                clear = logits.float().topk(3).values.diff().abs().amin(-1) > 0  # of equal ones any may be chosen
                self.assertTrue(torch.equal(ids[clear], right[2][clear]))
                self.assertGreater(int(clear.sum()), 50)
                self.assertLess(float((weights - right[1].float())[clear].abs().max()), 2 ** -8)
                with mock.patch.object(operators, "gate_route", wraps=operators.gate_route) as gate, \
                        torch.inference_mode():
                    logits, weights, ids = ours(x[:30])
                self.assertEqual(gate.call_count, 1)
                self.agree(logits.float(), right[0][:30].float())
                best = logits.float().topk(3)
                clear = best.values.diff().abs().amin(-1) > 0
                self.assertTrue(torch.equal(ids[clear], best.indices[clear, :2]))
                self.assertEqual((weights.dtype, ids.dtype), (torch.float32, torch.int64))
            moetune.transformers.stop(model)
            self.assertFalse(any("forward" in vars(each) for each in model.modules()))

    def test_routers_of_another_kind_are_the_models(self) -> None:
        self.assertRegex(str(moetune.transformers.use(make("DeepseekV3"), budget=0).routing),
                         "what DeepseekV3TopkRouter does is not known")

    def test_a_projection_that_changed_since_is_multiplied_as_it_is(self) -> None:
        ids = prompt(1, 6)
        model, seen = used("Llama"), []
        o_proj = model.model.layers[0].self_attn.o_proj
        o_proj.weight.data = o_proj.weight.data.clone().mul_(2)
        o_proj.register_forward_hook(lambda *_: seen.append(1))
        with torch.inference_mode():
            made = model(ids).logits
            moetune.transformers.stop(model)
            self.agree(made, model(ids).logits)
        self.assertEqual(len(seen), 2)

    def test_layers_that_others_changed_are_the_models(self) -> None:
        model = make("Llama")
        model.model.norm.register_forward_hook(lambda *_: None)
        model.model.layers[1].self_attn.v_proj.register_forward_pre_hook(lambda *_: None)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            served = moetune.transformers.use(model, budget=0)
        self.assertRegex(str(served.norms), "LlamaRMSNorm is not .* or hooked")
        self.assertRegex(str(served.rope), "its projections are not plain linear layers, or something hooks into them")
        self.assertFalse(any("forward" in vars(each) for each in model.modules()))

    def test_layers_that_changed_since_run_their_own_forward(self) -> None:
        ids = prompt(2, 9)
        for change in ("moved", "copied", "hooked", "replaced"):
            model, hooked = used("Llama"), []
            layer = model.model.layers[0].self_attn
            if change == "moved":
                layer.k_proj.weight.data = layer.k_proj.weight.data.clone()
            elif change == "copied":
                model = copy.deepcopy(model)
            elif change == "hooked":
                layer.q_proj.register_forward_hook(lambda *_: hooked.append(1))
            else:
                layer.v_proj = torch.nn.Sequential(layer.v_proj)
                layer.v_proj.out_features = layer.v_proj[0].out_features
            layer = model.model.layers[0].self_attn
            with torch.no_grad():
                layer.k_proj.weight.mul_(2)
            with self.subTest(change), torch.inference_mode():
                with mock.patch.object(operators, "qk_norm_rope", wraps=operators.qk_norm_rope) as rope:
                    made = model(ids).logits
                self.assertEqual(rope.call_count, 0 if change == "copied" else 1)
                self.assertEqual(len(hooked), int(change == "hooked"))
                moetune.transformers.stop(model)
                self.agree(made, model(ids).logits)

    def test_refused_calls(self) -> None:
        model, ids = used("Llama"), prompt(2, 6)
        mask = torch.ones(2, 6, dtype=torch.long, device=DEVICE)
        mask[0, 3:] = 0
        four = torch.zeros(2, 1, 6, 6, dtype=torch.bfloat16, device=DEVICE)
        packed = torch.tensor([[0, 1, 2, 0, 1, 2]] * 2, device=DEVICE)
        with torch.inference_mode():
            for sentence, options in (("left alone", {"attention_mask": mask}),
                                      ("it got another one", {"attention_mask": four}),
                                      ("packed sequences", {"position_ids": packed, "use_cache": False})):
                with self.assertRaisesRegex(moetune.Unsupported, sentence):
                    model(ids, **options)
        layer = model.model.layers[0].self_attn
        q = torch.zeros(1, 8, 1, 64, dtype=torch.bfloat16, device=DEVICE)
        with self.assertRaisesRegex(moetune.Unsupported, "softcap"):
            _attend.attention(layer, q, q[:, :2], q[:, :2], _attend.spans(1, 1, 1, device=DEVICE), softcap=30.5)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class WhatServesTest(unittest.TestCase):
    def reasons(self, *given: Any, **changed: Any) -> Any:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            served = moetune.transformers.use(make(*given, **changed), budget=0)
        self.assertEqual([str(each.message).rpartition(": ")[2] for each in said],
                         [reason.rpartition(": ")[2] for reason in served
                          if reason not in (None, _families.NO_EXPERTS, _small.OWN_ATTENTION)])
        return served

    def test_what_the_operators_lack_is_the_models(self) -> None:
        self.assertEqual(self.reasons("Llama"), (None, _families.NO_EXPERTS, None, None, None, _families.NO_EXPERTS))
        attention, experts, norms, rope, projections, routing = self.reasons("Mixtral", torch.float32)
        self.assertEqual((attention, experts, norms, projections, routing),
                         ("the model is in float32; bf16 and fp16 are served",) * 5)
        self.assertEqual(rope, _small.OWN_ATTENTION)
        attention, experts, norms, *_ = self.reasons("Qwen3Moe", head_dim=72)
        self.assertRegex(attention, "head_dim")
        self.assertIsNone(experts)
        self.assertRegex(str(norms), "nothing is tuned for add_rmsnorm hidden=72; run: moetune search add_rmsnorm")
        attention, experts, *_ = self.reasons("Mixtral", hidden_act="gelu")
        self.assertEqual((attention, experts), (None, "their activation is not SiLU (GELUActivation)"))
        self.assertRegex(str(self.reasons("Gemma2").attention), "nothing is tuned for decode_attention .*softcap=30")
        self.assertEqual(self.reasons("Gemma2").norms, "Gemma2RMSNorm is not x / sqrt(mean(x * x) + eps) * weight, or "
                         "hooked")
        self.assertEqual(self.reasons("DeepseekV3")[:2], ("attention over a latent is not served", None))
        layer = make("GptOss").model.layers[0].mlp.experts
        self.assertIsNone(_families._why_not(layer))
        layer.limit = 5.0
        self.assertRegex(str(_families._why_not(layer)), "gpt-oss' activation")
        with self.assertRaisesRegex(TypeError, "Linear"):
            moetune.transformers.use(torch.nn.Linear(2, 2))

    def test_what_is_not_tuned_names_the_command(self) -> None:
        attention, experts, *_ = self.reasons("Qwen3Moe", num_key_value_heads=4, num_experts=8)
        self.assertEqual(attention, "nothing is tuned for decode_attention group=2,head_dim=64,page=0,dtype=bf16; run: "
                         "moetune search decode_attention --problem q_heads=8,kv_heads=4,head_dim=64,page=0,dtype=bf16 "
                         "--over batch=1..128,context=512..32k")
        self.assertEqual(experts, "nothing is tuned for route_plan experts=8,top_k=2,ids=i64,align=1; run: moetune "
                         "search route_plan --problem experts=8,top_k=2,ids=i64,align=1 --over tokens=1..8k")

    def test_a_search_stores_the_defaults_of_what_is_not_tuned(self) -> None:
        model, ran, stored = make("Mixtral"), [], set()
        why_not = _serving.why_not

        def run(command: list[str], **_: Any) -> None:
            ran.append(command[1:])
            stored.add(command[2])

        def stored_or_not(device: int, kernel: str, facts: str) -> Any:
            return why_not(device, kernel, facts) if kernel in stored else moetune.NotTuned("nothing")

        with mock.patch("subprocess.run", run), warnings.catch_warnings(record=True) as said, \
                mock.patch.object(_serving, "why_not", stored_or_not):
            warnings.simplefilter("always")
            self.assertEqual(moetune.transformers.use(model), (None,) * 6)
        self.assertIn(["search", "moe_experts", "--problem", "tokens=64,hidden=256,experts=16,top_k=2,intermediate=128,"
                       "dtype=bf16", "--budget", "1", "--device", "cuda:0"], ran)
        self.assertEqual(len(said), 6)
        self.assertRegex(str(said[1].message), "their defaults; to tune them: moetune search route_plan .* --over")

    def test_supports(self) -> None:
        self.assertIsNone(operators.supports("decode_attention", group=8, head_dim=128, page=16))
        self.assertRegex(str(operators.supports("decode_attention", group=3, head_dim=128, page=16)), "moetune search")
        self.assertRegex(str(operators.supports("decode_attention", group=8, head_dim=72, page=16)), "head_dim")
        self.assertRegex(str(operators.supports("decode_attention", group=8, head_dim=192, page=16)), "moetune search")
        self.assertRegex(str(operators.supports("attention")), "attention")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MaskTest(unittest.TestCase):
    def test_spans(self) -> None:
        padded = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]], device=DEVICE).bool()
        length = torch.tensor(5, device=DEVICE)
        for offset in (5, length):
            self.assertEqual(_attend.spans(2, 1, 9, offset, device=DEVICE).flatten().tolist(), [6, 6])
            made = _attend.spans(2, 1, 9, offset, attention_mask=padded, device=DEVICE)
            self.assertEqual(made.flatten(1).tolist(), [[2, 6], [0, 6]])
            self.assertEqual(_attend.without_begins(made).flatten().tolist(), [6, 6])
        slid = _attend.spans(2, 1, 3, 5, 3, attention_mask=padded, device=DEVICE)
        self.assertEqual(slid.flatten(1).tolist(), [[0, 3], [0, 3]])
        self.assertEqual(_attend.spans(1, 4, 4, device=DEVICE).flatten().tolist(), [0, 4])

    def test_rows_that_are_not_apart_by_whole_rows_are_copied(self) -> None:
        torch.manual_seed(1)
        q = torch.randn(2, 8, 3, 64, device=DEVICE).bfloat16()
        whole = torch.randn(2, 2, 7, 64, device=DEVICE).bfloat16()
        memory = torch.zeros(2, 2 * 7 * 64 + 8, dtype=torch.bfloat16, device=DEVICE)
        memory[:, :-8] = whole.flatten(1)
        odd = memory[:, :-8].view(2, 2, 7, 64)
        self.assertIsNone(_attend._rows(odd))
        spans = _attend.spans(2, 3, 7, 4, device=DEVICE)
        made, right = (torch.ops.moetune.attend_spans(q, k, whole, spans, 0.125, 0, None) for k in (odd, whole))
        self.assertTrue(torch.equal(made, right))

    def test_softcap_reaches_attention(self) -> None:
        """What Gemma 2's layers call with: the fourth of 4 tokens sees all, the first itself."""
        torch.manual_seed(1)
        q = 2 * torch.randn(1, 8, 4, 64, device=DEVICE).bfloat16()
        k, v = (torch.randn(1, 2, 4, 64, device=DEVICE).bfloat16() for _ in range(2))
        made, _ = _attend.attention(None, q, k, v, _attend.spans(1, 4, 4, device=DEVICE), scaling=0.125, softcap=2.0)
        keys, values = (each.double().repeat_interleave(4, 1) for each in (k, v))
        scores = 2 * torch.tanh(q.double() @ keys.transpose(2, 3) * 0.125 / 2)
        scores = scores.masked_fill(torch.ones(4, 4, device=DEVICE).triu(1).bool(), float("-inf"))
        right = (scores.softmax(-1) @ values).transpose(1, 2)
        self.assertLess(float((made.double() - right).abs().max()), 0.02)


if __name__ == "__main__":
    unittest.main()
