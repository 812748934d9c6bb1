"""route, moe_dispatch, moe_combine and moe_experts in plain PyTorch, and inputs for them."""

from typing import Any, Optional

import torch


def distinct_logits(tokens: int, experts: int, dtype: Any, seed: int) -> Any:
    """Logits that no rounding brings into another order: those of a token differ by 1/8 at least."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(experts, generator=generator) for _ in range(tokens)]
    return (torch.stack(rows) / 8 - experts / 16).to(dtype)


def _kept_groups(selection: Any, groups: int, kept: int) -> Any:
    """-inf for experts of groups other than the best."""
    grouped = selection.reshape(selection.shape[0], groups, -1)
    best = grouped.topk(2, -1).values.sum(-1).topk(kept, -1).indices
    dropped = torch.ones(selection.shape[0], groups, dtype=torch.bool).scatter_(1, best, False)
    return grouped.masked_fill(dropped[..., None], float("-inf")).reshape(selection.shape)


def weights_of(logits: Any, top_k: int, *, score: str = "softmax", bias: Optional[Any] = None, groups: int = 1,
               groups_kept: int = 1, renormalize: bool = True, scale: float = 1.0,
               token_count: Optional[Any] = None) -> tuple[Any, Any]:
    """ids and weights, on the CPU."""
    scores = logits.float().sigmoid() if score == "sigmoid" else logits.float().softmax(-1)
    selection = scores if bias is None else scores + bias
    if groups > 1:
        selection = _kept_groups(selection, groups, groups_kept)
    ids = selection.sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    weights = scores.gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if token_count is not None:
        ids[int(token_count):], weights[int(token_count):] = -1, 0
    return ids.int(), weights * scale


def plan_of(ids: Any, experts: int, *, align: int = 16, capacity: int = 0,
            expert_map: Optional[Any] = None) -> tuple[Any, ...]:
    """counts, offsets, sorted, inverse and block_experts, on the CPU."""
    slots = ids.flatten().tolist()
    if expert_map is not None:
        slots = [int(expert_map[each]) if 0 <= each < len(expert_map) else -1 for each in slots]
    room = -(-capacity * len(slots) // (100 * experts)) if capacity else len(slots)
    chosen = [[slot for slot, each in enumerate(slots) if each == expert][:room] for expert in range(experts)]
    places = -(-(len(slots) + min(experts, len(slots)) * (align - 1)) // align) * align
    order, inverse, offsets, blocks = [len(slots)] * places, [-1] * len(slots), [0], [-1] * (places // align)
    for expert, mine in enumerate(chosen):
        begin, end = offsets[-1], offsets[-1] - (-len(mine) // align) * align
        order[begin:begin + len(mine)] = mine
        for place, slot in enumerate(mine, begin):
            inverse[slot] = place
        blocks[begin // align:end // align] = [expert] * ((end - begin) // align)
        offsets.append(end)
    lists = [len(mine) for mine in chosen], offsets, order, inverse, blocks
    counts, begins, sorted_, inverses, block_experts = (torch.tensor(each, dtype=torch.int32) for each in lists)
    return counts, begins, sorted_, inverses.reshape(ids.shape), block_experts


def dispatched(x: Any, sorted_: Any, top_k: int) -> Any:
    """Rows in x's type; zeros for padding."""
    tokens = sorted_.long() // top_k
    rows = torch.cat([x, torch.zeros_like(x[:1])])
    return rows[tokens.clamp(max=x.shape[0])]


def combined(rows: Any, inverse: Any, weights: Any) -> Any:
    """In float64."""
    kept = torch.where(inverse >= 0, weights, torch.zeros_like(weights))
    return (rows[inverse.clamp(min=0).long()].double() * kept[..., None]).sum(1)


def experts_of(x: Any, sorted_: Any, offsets: Any, inverse: Any, weights: Any, gate_up: Any, down: Any,
               biases: Optional[tuple[Any, Any]] = None) -> Any:
    """What moe_experts returns, in float64; with biases, rows of gate and up take turns, as gpt-oss has them."""
    rows = dispatched(x, sorted_, inverse.shape[1]).double()
    products = torch.zeros_like(rows)
    for expert, (begin, end) in enumerate(zip(offsets.tolist(), offsets.tolist()[1:])):
        both = rows[begin:end] @ gate_up[expert].double().T
        if biases is None:
            gate, up = both.chunk(2, dim=-1)
            products[begin:end] = (torch.nn.functional.silu(gate) * up) @ down[expert].double().T
            continue
        both += biases[0][expert].double()
        gate, up = both[:, ::2].clamp(max=7), both[:, 1::2].clamp(-7, 7)
        made = (up + 1) * gate * torch.sigmoid(1.702 * gate)
        products[begin:end] = made @ down[expert].double().T + biases[1][expert].double()
    return combined(products, inverse, weights)


def row_experts_of(counts: Any, offsets: Any, places: int) -> Any:
    """The expert of each place; -1 for padding."""
    rows = torch.full((places,), -1, dtype=torch.int32)
    for expert, (count, begin) in enumerate(zip(counts.tolist(), offsets.tolist())):
        rows[begin:begin + count] = expert
    return rows


def masked_of(ids: Any, experts: int, segment: int) -> tuple[Any, ...]:
    """counts, sorted, inverse and the mask of dropped slots, with as many places for every expert."""
    slots = ids.flatten().tolist()
    taken, order, inverse = [0] * experts, [len(slots)] * (experts * segment), [-1] * len(slots)
    for slot, expert in enumerate(slots):
        if taken[expert] == segment:
            continue
        inverse[slot] = expert * segment + taken[expert]
        order[inverse[slot]] = slot
        taken[expert] += 1
    counts, sorted_, inverses = (torch.tensor(each, dtype=torch.int32) for each in (taken, order, inverse))
    inverses = inverses.reshape(ids.shape)
    return counts, sorted_, inverses, inverses < 0


def ranks_of(ids: Any, experts: int, ranks: int) -> tuple[Any, ...]:
    """counts, tokens_per_rank and in_rank."""
    in_rank = torch.zeros(ids.shape[0], ranks, dtype=torch.bool)
    in_rank.scatter_(1, ids.long() // (experts // ranks), True)
    return torch.bincount(ids.flatten(), minlength=experts).int(), in_rank.sum(0).int(), in_rank
