"""What the tests of the servers' plug-ins share: batches over pages, and what attention of them should be."""

import importlib
import inspect
from types import SimpleNamespace
from typing import Any, Optional, Sequence

from torch_support import DEVICE, REASON

if not REASON:
    import torch

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 64, 16


def why_not(module: str) -> str:
    """Why a server's module cannot be imported; empty if it can."""
    if REASON:
        return REASON
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"{module.partition('.')[0]} is not there, or lacks something: {type(error).__name__}: {error}"
    return ""


class Paged:
    """Sequences with `new` tokens at the end of `lengths`: q of the new ones, and all keys and values in pages, which
    lie in any order; what no sequence has is NaN."""

    def __init__(self, new: Sequence[int], lengths: Sequence[int], page: int = PAGE) -> None:
        torch.manual_seed(5)
        self.new, self.lengths, self.page = list(new), list(lengths), page
        tokens = [torch.randn(2, length, KV_HEADS, DIM).bfloat16() for length in lengths]
        self.k, self.v = ([each[part] for each in tokens] for part in (0, 1))
        self.q = torch.randn(sum(new), HEADS, DIM).bfloat16().to(DEVICE)
        columns = max(-(-length // page) for length in lengths) + 1
        order = torch.randperm(1 + len(lengths) * columns).tolist()
        self.pages = len(order) + 1
        self.table = torch.tensor(order[:len(lengths) * columns], dtype=torch.int32).view(len(lengths), columns)
        self.slots = [torch.tensor([int(self.table[sequence, token // page]) * page + token % page
                                    for token in range(length)]) for sequence, length in enumerate(lengths)]

    def new_slots(self) -> Any:
        return torch.cat([slots[len(slots) - new:] for slots, new in zip(self.slots, self.new)]).to(DEVICE)

    def new_tokens(self) -> tuple[Any, Any]:
        """Keys and values of the new tokens."""
        k, v = (torch.cat([each[len(each) - new:] for each, new in zip(part, self.new)]).to(DEVICE)
                for part in (self.k, self.v))
        return k, v

    def right(self, window: int = 0, sinks: Optional[Any] = None, scale: float = DIM ** -0.5) -> Any:
        """In float64: [new tokens, heads, dim]."""
        made, begin = [], 0
        for new, length, k, v in zip(self.new, self.lengths, self.k, self.v):
            q = self.q[begin:begin + new].cpu().double()
            begin += new
            k, v = (each.double().repeat_interleave(HEADS // KV_HEADS, 1) for each in (k, v))
            scores = torch.einsum("qhd,khd->hqk", q, k) * scale
            last, token = torch.arange(new)[:, None] + length - new, torch.arange(length)
            hidden = (token > last) | ((token <= last - window) if window else torch.zeros_like(token > last))
            scores = scores.masked_fill(hidden, float("-inf"))
            lse = scores.logsumexp(-1)
            if sinks is not None:
                lse = torch.logaddexp(lse, sinks.cpu().double()[:, None])
            made.append(torch.einsum("hqk,khd->qhd", (scores - lse[..., None]).exp(), v))
        return torch.cat(made)


def offsets(counts: Sequence[int]) -> Any:
    return torch.tensor([0, *torch.tensor(list(counts)).cumsum(0).tolist()], dtype=torch.int32)


def differences(own: Any, base: Any) -> list[str]:
    """What of a class does not take the calls that its base takes: names, order and defaults of parameters."""
    found = []
    for name, mine in vars(own).items():
        theirs = inspect.getattr_static(base, name, None)
        if theirs is None or name.startswith("_") and name != "__init__":
            continue
        mine, theirs = (getattr(each, "__func__", each) for each in (mine, theirs))
        if not inspect.isfunction(theirs):
            continue
        ours, expected = (list(inspect.signature(each).parameters.values()) for each in (mine, theirs))
        if any(each.kind == each.VAR_KEYWORD for each in ours):
            positional = [each.kind == each.VAR_POSITIONAL for each in ours]
            expected = expected[:len(ours) - 1] if not any(positional) else []
        for place, parameter in enumerate(expected):
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if place >= len(ours) or ours[place].name != parameter.name:
                found.append(f"{own.__name__}.{name}: {parameter.name}")
            elif parameter.default is not parameter.empty and ours[place].default is parameter.empty:
                found.append(f"{own.__name__}.{name}: {parameter.name} has a default")
    return found


def experts_of(count: int, hidden: int, intermediate: int) -> tuple[Any, Any]:
    torch.manual_seed(6)
    gate_up, down = (torch.randn(count, *shape) * 0.08
                     for shape in ((2 * intermediate, hidden), (hidden, intermediate)))
    return gate_up.bfloat16().to(DEVICE), down.bfloat16().to(DEVICE)


def right_experts(x: Any, ids: Any, weights: Any, w_gate_up: Any, w_down: Any) -> Any:
    """In float64, of the slots whose id is an expert's here."""
    made = torch.zeros(*x.shape, dtype=torch.float64)
    for token in range(x.shape[0]):
        for expert, weight in zip(ids[token].tolist(), weights[token].tolist()):
            if 0 <= expert < w_down.shape[0]:
                gate, up = (w_gate_up[expert].double() @ x[token].double()).chunk(2)
                made[token] += weight * (w_down[expert].double() @ (torch.nn.functional.silu(gate) * up)).cpu()
    return made


def namespace(**names: Any) -> Any:
    return SimpleNamespace(**names)
