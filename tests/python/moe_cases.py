"""Calls of route, moe_dispatch, moe_combine and moe_experts, and what they should return."""

import functools
from typing import Any, Callable, TypeVar

import moetune
from torch_support import DEVICE, REASON

if not REASON:
    import torch

    import moe_reference as plain
    from moetune.torch import pack_mxfp4

Method = TypeVar("Method", bound=Callable[[Any], None])
HIDDEN = 256


def if_tuned(method: Method) -> Method:
    """Skips on a cache that lacks the test's families."""

    @functools.wraps(method)
    def run(self: Any) -> None:
        try:
            method(self)
        except (moetune.NotTuned, RuntimeError) as error:
            if "nothing is tuned" not in str(error):
                raise
            self.skipTest(str(error))

    return run  # type: ignore[return-value]


class Case:
    """Logits and options of one routing, on the CPU and on the device."""

    def __init__(self, tokens: int = 64, experts: int = 16, top_k: int = 2, dtype: str = "float32", seed: int = 3,
                 **options: Any) -> None:
        self.experts, self.top_k, self.options = experts, top_k, options
        self.host_logits = plain.distinct_logits(tokens, experts, getattr(torch, dtype), seed)
        self.logits = self.host_logits.to(DEVICE)

    @classmethod
    def with_everything(cls) -> "Case":
        bias = torch.randn(32, generator=torch.Generator().manual_seed(7)) / 10
        expert_map = torch.tensor([each // 2 if each % 2 == 0 else -1 for each in range(32)], dtype=torch.int32)
        return cls(50, 32, 4, score="sigmoid", bias=bias, groups=4, groups_kept=2, scale=2.5, align=8,
                   expert_map=expert_map, token_count=torch.tensor([41], dtype=torch.int32))

    def on_device(self) -> dict[str, Any]:
        return {name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
                for name, value in self.options.items()}

    def right(self) -> tuple[Any, ...]:
        plan_options = {name: self.options[name] for name in ("align", "capacity", "expert_map")
                        if name in self.options}
        others = {name: value for name, value in self.options.items() if name not in plan_options}
        ids, weights = plain.weights_of(self.host_logits, self.top_k, **others)
        return ids, weights, *plain.plan_of(ids, self.experts, **plan_options)


def poisoned(made: Any) -> Any:
    """Tensors like these, with values that no operator writes."""
    return [torch.full_like(each, -7) for each in made]


def plan_of_nothing() -> tuple[Any, ...]:
    """What route returns without tokens, for 16 experts and top 2."""
    ids, weights = torch.empty(0, 2, dtype=torch.int32), torch.empty(0, 2)
    return ids, weights, *plain.plan_of(ids, 16)


class Rows:
    """A routing of 64 tokens among 16 experts, two each, and rows to move."""

    def __init__(self, tokens: int = 64) -> None:
        generator = torch.Generator().manual_seed(5)
        _, weights, _, _, sorted_, inverse, _ = Case(tokens).right()
        inverse[3, 1] = -1  # as one beyond its capacity
        self.sorted, self.inverse, self.weights = sorted_.to(DEVICE), inverse.to(DEVICE), weights.to(DEVICE)

        def normal(rows: int) -> Any:
            return torch.randn(rows, HIDDEN, generator=generator).bfloat16().to(DEVICE)

        self.x, self.rows = normal(tokens), normal(len(sorted_))

    def dispatched(self) -> Any:
        return plain.dispatched(self.x, self.sorted, 2)

    def combined(self) -> Any:
        return plain.combined(self.rows, self.inverse, self.weights)


class Experts(Rows):
    """The same routing, and weights of the experts."""

    def __init__(self, tokens: int = 64, intermediate: int = 40) -> None:
        super().__init__(tokens)
        generator = torch.Generator().manual_seed(6)
        self.offsets = Case(tokens).right()[3].to(DEVICE)

        def normal(*shape: int) -> Any:
            return (torch.randn(*shape, generator=generator) / shape[-1] ** 0.5).bfloat16().to(DEVICE)

        self.gate_up, self.down = normal(16, 2 * intermediate, HIDDEN), normal(16, HIDDEN, intermediate)

    def arguments(self) -> tuple[Any, ...]:
        return self.x, self.sorted, self.offsets, self.inverse, self.weights, self.gate_up, self.down

    def up_alone(self) -> tuple[Any, ...]:
        return self.x, self.sorted, self.offsets, None, None, self.gate_up, None

    def down_alone(self) -> tuple[Any, ...]:
        rows = torch.ones(len(self.sorted), self.down.shape[2], dtype=torch.bfloat16, device=DEVICE)
        return rows, None, self.offsets, self.inverse, self.weights, None, self.down

    def right(self) -> Any:
        return plain.experts_of(*self.arguments())

    def transpose_in_memory(self) -> "Experts":
        """Makes the weights views of others [experts, in, out]."""
        self.gate_up, self.down = (each.transpose(1, 2).contiguous().transpose(1, 2)
                                   for each in (self.gate_up, self.down))
        return self

    def narrowed(self) -> dict[str, Any]:
        """The scales, once x and the weights are e4m3 times scales that differ from group to group."""
        generator = torch.Generator().manual_seed(8)

        def scales(*shape: int) -> Any:
            return (0.5 + torch.rand(*shape, generator=generator)).to(DEVICE) / 16

        tokens, experts, inner = len(self.x), len(self.down), self.down.shape[2] // 128
        groups = HIDDEN // 128
        made = {"x_scale": scales(tokens, groups), "gate_up_scale": scales(experts, 2 * inner, groups),
                "down_scale": scales(experts, groups, inner)}
        rows = made["x_scale"].repeat_interleave(128, 1)
        blocks = [made[name].repeat_interleave(128, 1).repeat_interleave(128, 2)
                  for name in ("gate_up_scale", "down_scale")]
        self.x = (self.x.float() / rows).to(torch.float8_e4m3fn)
        self.gate_up = (self.gate_up.float() / blocks[0]).to(torch.float8_e4m3fn)
        self.down = (self.down.float() / blocks[1]).to(torch.float8_e4m3fn)
        self.wide: tuple[Any, ...] = self.x.float() * rows, self.gate_up.float() * blocks[0], self.down.float() * blocks[1]
        return made

    def right_of_narrow(self) -> Any:
        x, gate_up, down = self.wide
        return plain.experts_of(x, self.sorted, self.offsets, self.inverse, self.weights, gate_up, down)

    def packed(self) -> dict[str, Any]:
        """The other arguments of gpt-oss' experts, once weights are mxfp4; `right_of_packed` has the same weights."""
        generator = torch.Generator().manual_seed(9)
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        values = torch.cat((values, -values))

        def drawn(*shape: int) -> tuple[Any, Any, Any]:
            blocks = torch.randint(0, 256, (*shape[:2], shape[2] // 32, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(119, 123, (*shape[:2], shape[2] // 32), generator=generator, dtype=torch.uint8)
            codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(3).long()
            return blocks, scales, (values[codes] * 2.0 ** (scales[..., None].float() - 127)).flatten(2)

        experts, inner = len(self.down), self.down.shape[2]
        up, down = drawn(experts, 2 * inner, HIDDEN), drawn(experts, HIDDEN, inner)
        self.wide = up[2], down[2]
        self.biases = tuple(torch.randn(experts, width, generator=generator).bfloat16().to(DEVICE)
                            for width in (2 * inner, HIDDEN))
        self.gate_up, up_scale = pack_mxfp4(up[0].to(DEVICE), up[1].to(DEVICE), gate_up="in_turn")
        self.down, down_scale = pack_mxfp4(down[0].to(DEVICE), down[1].to(DEVICE))
        return {"gate_up_scale": up_scale, "down_scale": down_scale, "gate_up_bias": self.biases[0],
                "down_bias": self.biases[1], "activation": "swigluoai"}

    def right_of_packed(self) -> Any:
        gate_up, down = (each.to(DEVICE) for each in self.wide)
        return plain.experts_of(self.x, self.sorted, self.offsets, self.inverse, self.weights, gate_up, down,
                                self.biases)
