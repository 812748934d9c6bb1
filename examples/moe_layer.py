"""An MoE layer in two operators: the router, and the experts' products with the sum over a token's experts.

    moetune search router      --problem tokens=64,experts=16,top_k=2
    moetune search moe_experts --problem tokens=64,hidden=256,intermediate=128,experts=16,top_k=2
    python moe_layer.py [FILE...]

Prints the largest difference from the same layer in plain PyTorch. Arguments name caches and packs.
"""

import sys
from typing import Any

import torch
import torch.nn.functional as F

import moetune
import moetune.torch

TOKENS, EXPERTS, TOP_K, HIDDEN, INNER = 64, 16, 2, 256, 128


def moe_layer(x: Any, logits: Any, gate_up: Any, down: Any) -> Any:
    """Reads nothing on the host, so that it may be captured in a graph."""
    routing = moetune.torch.route(logits, TOP_K, align=16)
    return moetune.torch.moe_experts(x, routing.sorted, routing.offsets, routing.inverse, routing.weights, gate_up, down)


def plain_layer(x: Any, logits: Any, gate_up: Any, down: Any) -> Any:
    """Every expert for every token, in float32."""
    weights, ids = logits.softmax(-1).topk(TOP_K)
    weights = torch.zeros_like(logits).scatter(1, ids, weights / weights.sum(-1, keepdim=True))
    gate, up = torch.einsum("th,eih->tei", x.float(), gate_up.float()).chunk(2, -1)
    made = torch.einsum("tei,ehi->teh", F.silu(gate) * up, down.float())
    return (made * weights[..., None]).sum(1)


def main(device: str = "cuda") -> int:
    torch.manual_seed(0)
    x = torch.randn(TOKENS, HIDDEN).bfloat16().to(device)
    gate_up = (torch.randn(EXPERTS, 2 * INNER, HIDDEN) * HIDDEN**-0.5).bfloat16().to(device)
    down = (torch.randn(EXPERTS, HIDDEN, INNER) * INNER**-0.5).bfloat16().to(device)
    logits = torch.randn(TOKENS, EXPERTS).to(device)

    made, right = moe_layer(x, logits, gate_up, down), plain_layer(x, logits, gate_up, down)
    error, largest = float((made - right).abs().max()), float(right.abs().max())
    print(f"{TOKENS} tokens, {EXPERTS} experts: largest error {error:.4f}, largest output {largest:.2f}")
    return int(not error < 0.02 * largest)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        moetune.torch.use(moetune.open(sys.argv[1:]))
    sys.exit(main())
