"""An MoE layer: moetune routes, dispatches and combines, PyTorch multiplies.

    moetune search router       --problem tokens=64,experts=16,top_k=2
    moetune search moe_dispatch --problem tokens=64,hidden=256,top_k=2,experts=16
    moetune search moe_combine  --problem tokens=64,hidden=256,top_k=2,experts=16
    python moe_layer.py [FILE...]

Prints the largest difference from the same layer in plain PyTorch. Arguments name caches and packs.
"""

import sys
from typing import Any

import torch
import torch.nn.functional as F

import moetune
import moetune.torch

TOKENS, EXPERTS, TOP_K, HIDDEN, INNER, ALIGN = 64, 16, 2, 256, 128, 16


def experts(rows: Any, block_experts: Any, up: Any, down: Any) -> Any:
    """silu(row @ up) @ down with each row's expert. All rows of a block of ALIGN have the same one.

    A server calls its grouped GEMM here. A batched one needs no kernel of its own, but copies weights for each block.
    """
    owner = block_experts.clamp(min=0).long()  # -1 behind the last block, whose rows are zeros
    blocks = rows.view(-1, ALIGN, HIDDEN)
    return torch.bmm(F.silu(torch.bmm(blocks, up[owner])), down[owner]).view(-1, HIDDEN)


def moe_layer(x: Any, logits: Any, up: Any, down: Any) -> Any:
    """Reads nothing on the host, so that it may be captured in a graph."""
    routing = moetune.torch.route(logits, TOP_K, align=ALIGN)
    rows = moetune.torch.moe_dispatch(x, routing.sorted, routing.inverse)
    return moetune.torch.moe_combine(experts(rows, routing.block_experts, up, down), routing.inverse, routing.weights)


def plain_layer(x: Any, logits: Any, up: Any, down: Any) -> Any:
    """Every expert for every token, in float32."""
    weights, ids = logits.softmax(-1).topk(TOP_K)
    weights = torch.zeros_like(logits).scatter(1, ids, weights / weights.sum(-1, keepdim=True))
    made = torch.einsum("tei,eih->teh", F.silu(torch.einsum("th,ehi->tei", x.float(), up.float())), down.float())
    return (made * weights[..., None]).sum(1)


def main(device: str = "cuda") -> int:
    torch.manual_seed(0)
    x = torch.randn(TOKENS, HIDDEN).bfloat16().to(device)
    up = (torch.randn(EXPERTS, HIDDEN, INNER) * HIDDEN**-0.5).bfloat16().to(device)
    down = (torch.randn(EXPERTS, INNER, HIDDEN) * INNER**-0.5).bfloat16().to(device)
    logits = torch.randn(TOKENS, EXPERTS).to(device)

    made, right = moe_layer(x, logits, up, down), plain_layer(x, logits, up, down)
    error, largest = float((made - right).abs().max()), float(right.abs().max())
    print(f"{TOKENS} tokens, {EXPERTS} experts: largest error {error:.4f}, largest output {largest:.2f}")
    return int(not error < 0.02 * largest)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        moetune.torch.use(moetune.open(sys.argv[1:]))
    sys.exit(main())
