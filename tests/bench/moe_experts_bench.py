"""bench/moe_experts with a moetune and peers whose times are scripted: what it says of peers that are missing, fail,
have no kernel for a type or are wrong, its bars and its means.

    moe_experts_bench.py REPOSITORY
"""
import collections
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import types

BENCH = pathlib.Path(sys.argv[1]) / "bench"
Layer = collections.namedtuple("Layer", "experts top_k hidden intermediate w")


class Tensor:
    def __init__(self, difference=0.0):
        self.difference = difference

    def float(self):
        return self

    def norm(self):
        return Tensor(self.difference or 1.0)

    def __sub__(self, other):
        return self

    def __truediv__(self, other):
        return self

    def item(self):
        return self.difference


class Inputs:
    def __init__(self, weights, tokens, skew):
        self.layer, self.tokens = weights, tokens

    def reference(self):
        return Tensor()


def peer(times, types_of_weights=("same", "e4m3")):
    """times by tokens: microseconds, a difference below 1, or an error."""
    class Peer:
        WEIGHTS = types_of_weights

        def __init__(self, options):
            if isinstance(times, Exception):
                raise times

        def calls(self, inputs):
            value = times[inputs.tokens]
            if isinstance(value, Exception):
                raise value
            calls = [lambda: Tensor(value if value < 1 else 1e-3)]
            calls[0].us = value
            return calls, {"tried": 3}
    return Peer


def dead(*_):
    raise RuntimeError("an illegal memory access")


def run(*arguments, alive=lambda: None, **peers):
    """The exit code, what was printed, and the JSON."""
    sys.modules["torch"] = types.SimpleNamespace(
        cuda=types.SimpleNamespace(synchronize=lambda: alive(), empty_cache=lambda: None))
    sys.modules["moe_peers"] = types.SimpleNamespace(
        Layer=Layer, Weights=lambda layer: layer, Inputs=Inputs, WRONG={"same": 2e-2, "e4m3": 4e-2, "mxfp4": 2e-2},
        **peers)
    loader = importlib.machinery.SourceFileLoader("moe_experts_bench_of_moetune", str(BENCH / "moe_experts"))
    bench = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(bench)
    asked = []

    class Moetune:
        def __init__(self, options):
            pass

        def time_workload(self, *workload):
            asked.append(" ".join(workload))
            return {"time_us": 10.0, "default_us": 11.0, "alone_us": 12.0, "roofline": 0.5}

    bench.side_by_side.Moetune = Moetune
    bench.side_by_side.long_graph_time = lambda torch, calls: (calls[0].us, None)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
            contextlib.redirect_stderr(io.StringIO()) as said:
        sys.argv = ["moe_experts", "--json", f"{folder}/rows.json", *arguments]
        try:
            code = bench.main()
        except SystemExit as stopped:
            return stopped.code, said.getvalue(), None, asked
        return code, out.getvalue(), json.loads(pathlib.Path(f"{folder}/rows.json").read_text()), asked


def check(what, holds, *shown):
    if not holds:
        raise SystemExit("\n".join(["moe_experts_bench: " + what, *map(str, shown)]))


sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))
LAYERS = "--layers", "qwen3-30b-a3b,qwen3-30b-a3b-e4m3,gpt-oss-120b", "--tokens", "8,64"
PEERS = {"Torch": peer({8: 20.0, 64: 0.5}, ["same"]), "Vllm": peer({8: 12.0, 64: ValueError("no\nway")}),
         "TritonKernels": peer(ImportError("needs --vllm FOLDER")), "DeepGemm": peer({8: 11.0, 64: 13.0})}

code, out, rows, asked = run(*LAYERS, **PEERS)
lines = out.splitlines()
check("who is there is the first line", lines[0] == "peers found: torch, vllm, deep_gemm; triton_kernels not found: "
      "ImportError: needs --vllm FOLDER", out)
check("a row has each peer's time, the ratio and the bar", lines[4] ==
      "| qwen3-30b-a3b, 8 | 10.00 | 11.00 | 12.00 | 20.00 | 12.00 | - | 11.00 | 1.100 | 1.08 | met | 50.0% |", out)
check("one is wrong, and one failed", "| wrong | - | - | 13.00 | 1.300 | 1.04 | met |" in lines[5], out)
check("a bar is missed", "| - | 12.00 | - | 11.00 | 1.100 | 1.20 | missed |" in lines[6], out)
check("without peers there is no ratio", lines[8].endswith("| - | - | - | - | - | 1.40 | - | 50.0% |"), out)
for wanted in ("bf16: best peer / moetune 1.196 geometric mean of 2, to reach 1.10; 1.100 the least",
               "e4m3: best peer / moetune 1.196 geometric mean of 2, to reach 1.22; 1.100 the least",
               "torch: wrong by 5.00e-01 (qwen3-30b-a3b, 64)",
               "torch: has none in e4m3 (qwen3-30b-a3b-e4m3, 8; qwen3-30b-a3b-e4m3, 64)",
               "vllm: ValueError: no (qwen3-30b-a3b, 64; qwen3-30b-a3b-e4m3, 64)",
               "deep_gemm: has none in mxfp4 (gpt-oss-120b, 8; gpt-oss-120b, 64)"):
    check(f"'{wanted}' is said", wanted in lines, out)
check("no peer is dropped from the JSON", all(set(row["peers"]) == {"torch", "vllm", "triton_kernels", "deep_gemm"}
                                              for row in rows) and rows[0]["peers"]["vllm"]["us"] == 12, rows)
check("types are asked for", asked[2].endswith("--problem tokens=8,w=e4m3")
      and asked[4].endswith("--preset gpt-oss-120b --problem tokens=8"), asked)
check("all rows had a winner", code == 0)

code, out, rows, _ = run(*LAYERS, alive=dead, **PEERS)
check("a lost GPU is each peer's reason", all(peer["error"].startswith(("torch lost the GPU", "not found"))
                                             for row in rows for peer in row["peers"].values()), rows)

for arguments, sentence in ((["--peers", "cutlass"], "unknown peer 'cutlass'; known: torch, vllm"),
                            (["--layers", "llama"], "unknown layer 'llama'; known: qwen3-30b-a3b"),
                            (["--tokens", "many"], "--tokens: whole numbers")):
    code, said, _, _ = run(*arguments, **PEERS)
    check(f"{arguments} are refused", code == 2 and sentence in said, said)
