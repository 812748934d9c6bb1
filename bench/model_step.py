"""A decode step of a transformers model as it comes, and with moetune.transformers.use; each as one CUDA graph.

    python bench/model_step.py [--model qwen3-30b-a3b] [--layers 12] [--batch 1 32 128] [--context 2048] [--tp 1]
                               [--paths FILE...] [--budget 1] [--json FILE]

Some layers with random weights, over a static cache that holds `context` tokens a sequence. Rows are transformers with
each of --stock's implementations of attention and experts, then moetune. ms a step are medians of rounds in turn, of
the state that generate()'s compiled steps reach at best: no time of the host is in them. The first row is what
generate() takes, so `over stock` is the first row's time over moetune's, `over best` the fastest stock row's. Beside
each stands how far its logits are from those in fp32 (root mean square, as a share of theirs). What cannot be captured
is timed as it is, and marked. --tp N gives the model a GPU's share of N: heads, the experts' width and the vocabulary
are an N-th; what the GPUs say to each other is not timed.
"""

import argparse
import contextlib
import json
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

import torch
import transformers
from transformers.integrations import sdpa_attention

import moetune
import moetune.torch
import moetune.transformers

ROOM = 512  # tokens behind the context that a run may write
MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {  # a class, layers, and its configuration
    "qwen3-30b-a3b": ("Qwen3Moe", 12, {
        "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True, "vocab_size": 151936,
        "max_position_embeddings": 40960}),
    "mixtral-8x7b": ("Mixtral", 4, {"max_position_embeddings": 32768}),
    "gpt-oss-20b": ("GptOss", 8, {"num_local_experts": 32}),
    "llama-3-8b": ("Llama", 16, {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072}),
    "tiny": ("Qwen3Moe", 2, {  # to try this program
        "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 16,
        "num_experts_per_tok": 2, "moe_intermediate_size": 128, "norm_topk_prob": True, "vocab_size": 1000,
        "max_position_embeddings": 8192}),
}


def take_share(config: Any, tp: int) -> None:
    """Leaves the config what one of `tp` GPUs has; a KV head is the least."""
    config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "moe_intermediate_size",
                 "vocab_size"):
        whole = getattr(config, name, None)
        if whole is None:
            continue
        if name == "num_key_value_heads" and whole < tp:
            config.num_key_value_heads = 1
        elif whole % tp:
            sys.exit(f"model_step: --tp {tp} does not divide {name}, {whole}")
        else:
            setattr(config, name, whole // tp)


def made(name: str, layers: int, tp: int) -> Any:
    kind, usual, shape = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, kind + "Config")(num_hidden_layers=layers or usual, **shape)
    take_share(config, tp)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, kind + "ForCausalLM")(config)
    torch.set_default_dtype(torch.float32)
    return model.bfloat16().eval()


def filled_cache(model: Any, batch: int, context: int) -> Any:
    config = model.config
    cache = transformers.StaticCache(config=config, max_cache_len=context + ROOM)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache.early_initialization(batch, config.num_key_value_heads, head_dim, torch.bfloat16, "cuda")
    for layer in cache.layers:
        layer.keys.normal_()
        layer.values.normal_()
    rewind(cache, context)
    return cache


def rewind(cache: Any, context: int) -> None:
    for layer in cache.layers:
        layer.cumulative_length.fill_(min(context, layer.max_cache_len))
        if hasattr(layer, "cumulative_length_int"):
            layer.cumulative_length_int = context


@contextlib.contextmanager
def constants_once() -> Iterator[Any]:
    """torch.tensor of a list makes each tensor on the GPU once, as a compiled step does: a cache of a window makes one a
    step, and a copy from the host cannot be captured. Equal lists get one tensor, which nobody may change."""
    made: dict[Any, Any] = {}
    fresh = torch.tensor

    def tensor(data: Any, **options: Any) -> Any:
        if not isinstance(data, list) or "device" not in options:
            return fresh(data, **options)
        key = (repr(data), *((name, str(value)) for name, value in sorted(options.items())))
        if key not in made:
            made[key] = fresh(data, **options)
        return made[key]

    with mock.patch.object(torch, "tensor", tensor):
        yield made


class Step:
    """One new token of every sequence: a captured graph, or a call where that is not possible."""

    def __init__(self, model: Any, cache: Any, ids: Any, context: int) -> None:
        self._cache, self._context = cache, context

        def call() -> Any:
            return model(ids, past_key_values=cache).logits

        self.run: Callable[[], Any] = call
        self.mark = ""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with constants_once() as self._constants:
            with torch.cuda.stream(stream):
                for _ in range(3):
                    call()
                    rewind(cache, context)
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            self.logits = call()[:, -1].float()
            rewind(cache, context)
            try:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    call()
                self.run = graph.replay
            except RuntimeError as failure:
                self.mark = f" (no graph: {str(failure).splitlines()[0][:60]})"
                torch.cuda.synchronize()

    def milliseconds(self, steps: int) -> float:
        rewind(self._cache, self._context)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.run()
        begin.record()
        for _ in range(steps):
            self.run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / steps


def stock_step(model: Any, how: str, cache: Any, ids: Any, context: int) -> Step:
    moetune.transformers.stop(model)
    attention, _, experts = how.partition("+")
    model.set_attn_implementation(attention.removesuffix("-gqa"))
    if experts:
        model.set_experts_implementation(experts)
    with mock.patch.object(sdpa_attention, "use_gqa_in_sdpa",
                           (lambda *_: True) if attention.endswith("-gqa") else sdpa_attention.use_gqa_in_sdpa):
        return Step(model, cache, ids, context)


def logits_in_fp32(model: Any, attention: str, cache: Any, ids: Any, context: int) -> Any:
    """The right ones. Of random weights, two right models in bf16 soon choose other experts, so that their top ones
    differ; how far each is from fp32 tells whether both are right."""
    moetune.transformers.stop(model)
    model.float().set_attn_implementation(attention)
    model.set_experts_implementation("grouped_mm")
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys.float(), layer.values.float()
    rewind(cache, context)
    logits = model(ids, past_key_values=cache).logits[:, -1]
    model.bfloat16()
    return logits


def distance(logits: Any, right: Any) -> float:
    return float((logits - right).square().mean().sqrt() / right.square().mean().sqrt())


def measure(model: Any, stocks: list[str], batch: int, options: argparse.Namespace) -> dict[str, Any]:
    cache = filled_cache(model, batch, options.context)
    ids = torch.randint(0, model.config.vocab_size, (batch, 1), device="cuda")
    steps: dict[str, Step] = {}
    for how in stocks:
        try:
            steps[how] = stock_step(model, how, cache, ids, options.context)
        except (RuntimeError, ValueError, ImportError) as failure:
            print(f"  {how}: cannot run: {str(failure).splitlines()[0][:100]}", flush=True)
            torch.cuda.empty_cache()
    kept = [each.data for each in model.parameters()]  # use() moves some, which the graphs above read
    served = moetune.transformers.use(model, budget=options.budget)
    steps["moetune"] = Step(model, cache, ids, options.context)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.rounds):
        for name, step in steps.items():
            times[name].append(step.milliseconds(options.steps))
    row = {name: statistics.median(each) for name, each in times.items()}
    ours, others = row["moetune"], [row[how] for how in stocks if how in row]
    marks, made = {name: step.mark for name, step in steps.items()}, {n: step.logits for n, step in steps.items()}
    steps.clear()  # their graphs hold memory
    del kept
    right = logits_in_fp32(model, stocks[0].partition("+")[0], cache, ids, options.context)
    off = {name: distance(logits, right) for name, logits in made.items()}
    for name in row:
        print(f"  batch {batch:4} {name:24} {row[name]:8.3f} ms, logits {off[name]:.3f} from fp32's{marks[name]}",
              flush=True)
    print(f"  batch {batch:4} over stock {others[0] / ours:.2f}, over best {min(others) / ours:.2f}", flush=True)
    return {"batch": batch, "context": options.context, "ms": row, "over_stock": others[0] / ours, "from_fp32": off,
            "over_best": min(others) / ours, "attention": served.attention, "experts": served.experts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen3-30b-a3b", choices=MODELS)
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the model is usually measured with")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--tp", type=int, default=1, help="GPUs that share the model, of which one's part is timed")
    parser.add_argument("--steps", type=int, default=30, help="of a round, at most 500")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stock", nargs="+", help="attention+experts, of transformers; the first is what generate() "
                        "takes for its steps. sdpa-gqa: never repeats keys for the heads that share them")
    parser.add_argument("--budget", type=int, default=1, help="of use(): trials where nothing is tuned")
    parser.add_argument("--paths", nargs="*", default=[], help="caches and packs, instead of the user's and the wheel's")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("model_step: needs a GPU")
    if options.paths:
        moetune.torch.use(moetune.open(options.paths))
    warnings.simplefilter("always")
    model = made(options.model, options.layers, options.tp)
    own = model.config._attn_implementation
    stocks = options.stock or [f"{own}+batched_mm", f"{own}+grouped_mm",
                               *(["sdpa-gqa+grouped_mm"] if own == "sdpa" else [])]
    print(f"{options.model}, {model.config.num_hidden_layers} layers, context {options.context}, "
          f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"moetune {moetune.__version__}", flush=True)
    rows = []
    with torch.inference_mode():
        for batch in options.batch:
            rows.append(measure(model, stocks, batch, options))
            torch.cuda.empty_cache()
    if options.json is not None:
        options.json.write_text(json.dumps({"model": options.model, "device": torch.cuda.get_device_name(),
                                            "layers": model.config.num_hidden_layers, "tp": options.tp,
                                            "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
