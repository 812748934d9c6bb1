"""The published defaults of every class of transformers that has experts, through `moetune workloads from-config`: the
layers that it counts are those that the classes build, and so is the width of the experts that moe_experts serves.

Run by ctest with MOETUNE_BINARY and MOETUNE_TRANSFORMERS, the folder where scripts/test puts transformers. The classes
of configurations need no torch, those of models do: what the latter build stands in transformers_layers.json, beside
the version of transformers. Where TORCH_PYTHON names an interpreter that has torch, the models are built again, on the
meta device, and compared with that file; `--record` writes it anew. Exit code 77: skipped, with a reason.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

LAYERS = pathlib.Path(__file__).with_name("transformers_layers.json")
# What a class needs beside its defaults, to be built or to have experts at all.
NEEDED = {
    "dbrx": {"attn_config": {"kv_n_heads": 8, "rope_theta": 10000.0}},
    "deepseek_ocr2_text": {"num_experts_per_tok": 6, "mlp_layer_types": ["dense"] + ["sparse"] * 31},
    "deepseek_v2": {"num_experts_per_tok": 6},
    "diffusion_gemma_text": {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704},
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1},
    "gemma4_text": {"enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 64, "moe_topk": 8},
    "lfm2_moe": {"layer_types": (["conv", "conv", "full_attention", "conv"] * 8)},
    "nemotron_h": {"layers_block_type": ["mamba", "moe", "mamba", "moe", "attention", "moe", "mlp"] * 4},
    "qwen4_exp_text": {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128,
                       "indexer_compress_ratio": 8, "indexer_budget": 1024, "ple_layer_ids": []},
}
# Parts of a model that are no language model, and those that only guess further tokens ahead.
OTHER_PARTS = re.compile(r"vision|vitpose|visual|audio|image|speaker|talker|code2wav|projector|qformer|mtp|codec|video|diari")
ATTENDS = re.compile(r"(?<!TextLinear)(?<!Delta)(?<!Lightning)(?<!Residual)Attention$|MLA$")
EXPERTS = re.compile(r"Experts$|JetMoeMoE$|SparseMLP$")


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(77)


def types_with_experts():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    for name in sorted(CONFIG_MAPPING_NAMES):
        try:
            inner = {"text_config": NEEDED[name + "_text"]} if name + "_text" in NEEDED else {}
            config = CONFIG_MAPPING[name](**NEEDED.get(name, inner))
        except Exception:  # no defaults of its own
            continue
        if re.search("expert|moe", config.to_json_string(use_diff=False)) and not OTHER_PARTS.search(name):
            yield name, config


def build(config):
    """The model on the meta device, by whichever class takes this configuration."""
    import importlib
    import inspect

    import torch
    import transformers

    with torch.device("meta"):
        try:
            return transformers.AutoModel.from_config(config)
        except Exception:
            module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
        # A class that is part of another has no entry there.
        classes = [each for name, each in vars(module).items()
                   if inspect.isclass(each) and issubclass(each, transformers.PreTrainedModel) and
                   "PreTrained" not in name and each.config_class is type(config)]
        return min(classes, key=lambda each: not each.__name__.endswith("Model"))(config)


def slides(attention):
    kind = getattr(attention, "layer_type", None) or getattr(attention, "attention_type", None)
    if isinstance(kind, str):
        return "sliding" in kind
    return getattr(attention, "is_sliding", bool(getattr(attention, "sliding_window", None)))


def built_layers(model):
    """Layers that attend, with a window or without, and layers with experts; those of an encoder as well."""
    layers = collections.defaultdict(set)
    modules = dict(model.named_modules())
    if any("language_model." in path for path in modules):
        modules = {path: module for path, module in modules.items() if "language_model." in path}
    for path, module in modules.items():
        found = re.match(r"(?:.*?\.)?(?:layers|h|blocks|block)\.\d+(?=\.)", path)
        if found is None or OTHER_PARTS.search(path):
            continue
        name = type(module).__name__
        if EXPERTS.search(name) and "shared" not in path:
            layers["experts"].add(found.group())
        if ATTENDS.search(name):
            layers["window" if slides(module) else "all"].add(found.group())
    return {kind: len(layers[kind]) for kind in ("all", "window", "experts")}


def built_width(model):
    """Of experts that compute down(silu(gate(x)) * up(x)), with weights as nn.Linear has them; None of others."""
    import inspect

    for path, module in model.named_modules():
        if not EXPERTS.search(type(module).__name__) or "shared" in path or OTHER_PARTS.search(path):
            continue
        shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
        activation = type(getattr(module, "act_fn", None)).__name__
        if shapes.keys() != {"gate_up_proj", "down_proj"} or activation != "SiLUActivation":
            return None
        (_, both, hidden), (_, moved, width) = shapes["gate_up_proj"], shapes["down_proj"]
        source = inspect.getsource(type(module))
        is_usual = re.search(r"act_fn\(gate(\.float\(\))?\) \* up", source) and "clamp" not in source
        return width if is_usual and both == 2 * width and hidden == moved else None


def record():
    import transformers

    made, widths = {}, {}
    for name, config in types_with_experts():
        try:
            model = build(config)
            made[name], widths[name] = built_layers(model), built_width(model)
        except Exception as error:
            print(f"{name}: {error!r}"[:200], file=sys.stderr)
            made[name] = None
    return {"transformers": transformers.__version__, "layers": made, "widths": widths}


def read_layers(tool, folder, name, config):
    """What from-config makes of a configuration: layers by kind and the width of experts, and its notes."""
    directory = pathlib.Path(folder) / name
    directory.mkdir()
    (directory / "config.json").write_text(config.to_json_string(use_diff=False))
    ended = subprocess.run([tool, "workloads", "from-config", directory], capture_output=True, text=True)
    layers, notes = collections.Counter(), ended.stderr
    if ended.returncode not in (0, 1):
        return layers, f"exit code {ended.returncode}: {notes}"
    for entry in json.loads(ended.stdout)["workloads"]:
        if entry["kernel"] == "moe_experts" and "activation=swigluoai" not in entry["problem"]:
            layers["width"] = int(re.search(r"intermediate=(\d+)", entry["problem"]).group(1))
        if entry["kernel"] == "decode_attention":
            layers["window" if "window=" in entry["problem"] else "all"] += entry.get("weight", 1)
        if entry["kernel"] == "mla_decode":
            layers["latent"] += entry.get("weight", 1)
        if entry["kernel"] == "moe_combine":
            layers["experts"] += entry.get("weight", 1)
    for count, kind in re.findall(r"(\d+) layers of (\S+) have no kernel", notes):
        layers[kind] += int(count)
    for count in re.findall(r"decode and prefill of (\d+) layers: .*MLA", notes):
        layers["latent"] += int(count)
    for count in re.findall(r"decode and prefill of (\d+) layers: (?!.*MLA)", notes):
        layers["named"] += int(count)
    for window, count in re.findall(r" decode( window)?(?: chunk)? of (\d+) layers cannot be served", notes):
        layers["window" if window else "all"] += int(count)
    for count in re.findall(r"moe_combine of (\d+) layers cannot be served", notes):
        layers["experts"] += int(count)
    return layers, notes


# Kinds of layers that attend, though no kernel serves them.
ATTENDING = ("all", "window", "latent", "named", "indexed_attention", "sparse_attention", "minimax_m3_sparse", "hybrid",
             "hybrid_sliding", "compressed_sparse_attention", "heavily_compressed_attention",
             "reference_sliding_attention", "cross_attention")


def differences(name, config, built, width, layers, notes):
    found = [notes] if notes.startswith("exit code") else []
    is_left_out = re.search(r"moe_experts: (their activation is not said|some of them give a token back|.*not the same)"
                            r"|moe_experts of \d+ layers cannot be served", notes)
    if layers["width"] != (width or 0) and not (layers["width"] == 0 and (is_left_out or not layers["experts"])):
        found.append(f"experts of width {layers['width']}, and the class builds {width}")
    if layers["experts"] != built["experts"] and not re.search(r"no experts|experts a token gets is not said", notes):
        found.append(f"{layers['experts']:g} layers with experts, and the class builds {built['experts']}")
    attending = sum(layers[kind] for kind in ATTENDING)
    if attending != built["all"] + built["window"] and not layers["named"]:
        found.append(f"{attending:g} layers attend, and the class builds {built['all'] + built['window']}")
    windows = getattr(config.get_text_config(), "sliding_window", None)
    longest = getattr(config.get_text_config(), "max_position_embeddings", 0)
    if built["window"] and isinstance(windows, int) and windows < longest and not layers["named"] and \
            not layers["latent"] and layers["window"] != built["window"] and not layers["hybrid_sliding"]:
        found.append(f"{layers['window']:g} layers have a window, and the class builds {built['window']}")
    return [f"{name}: {each}" for each in found]


def main():
    packages = os.environ.get("MOETUNE_TRANSFORMERS", "")
    sys.path.insert(0, packages)
    warnings.filterwarnings("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    try:
        import transformers
    except ImportError as error:
        skip(f"transformers is not here ({error}); scripts/test brings it by pip")
    if "--record" in sys.argv:
        LAYERS.write_text(json.dumps(record(), indent=1, sort_keys=True) + "\n")
        return
    if "--build" in sys.argv:
        json.dump(record(), sys.stdout)
        return
    known = json.loads(LAYERS.read_text())
    if transformers.__version__ != known["transformers"]:
        skip(f"transformers {transformers.__version__} is here; the layers are those of {known['transformers']}")
    wrong = []
    if python := os.environ.get("TORCH_PYTHON"):
        again = json.loads(subprocess.run([python, "-B", __file__, "--build"], check=True, capture_output=True).stdout)
        wrong += [f"{name}: the class builds {again[what].get(name)}, and the file says {built}"
                  for what in ("layers", "widths") for name, built in known[what].items()
                  if again[what].get(name) != built]
    checked = 0
    with tempfile.TemporaryDirectory(prefix="moetune-transformers-") as folder, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        configs = dict(types_with_experts())
        wrong += [f"{name} is not in the file of layers" for name in configs if name not in known["layers"]]
        read = {name: pool.submit(read_layers, os.environ["MOETUNE_BINARY"], folder, name, config)
                for name, config in configs.items()}
        for name, config in configs.items():
            layers, notes = read[name].result()
            if (built := known["layers"].get(name)) is None:
                continue
            wrong += differences(name, config, built, known["widths"].get(name), layers, notes)
            checked += 1
    print("\n".join(wrong))
    print(f"{checked} classes with experts, {len(wrong)} differ")
    if wrong or checked < 70:
        sys.exit(1)


main()
