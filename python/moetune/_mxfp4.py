"""Weights of experts in mxfp4, from a checkpoint's order to the one that moe_experts reads."""

from typing import Optional

import torch

_ROWS, _DEPTH = 16, 64  # of a block
# The bits of a word that hold the code of the lower k's value, highest first: of (row, k), (row + 8, k), (row, k + 8)
# and (row + 8, k + 8). Those of the other value lie 16 further, modulo 32.
_BITS = ((15, 8, 7, 6), (18, 11, 10, 9), (21, 14, 13, 12), (3, 1, 0, 4))
_MOST = 128  # the largest e8m0 whose weights, times 2^126, a bf16 holds


def _strips(rows: torch.Tensor, gate_up: Optional[str]) -> torch.Tensor:
    """Rows [N, ...] as [N / 16, half, 8, ...]: both halves of a strip side by side, of w_gate_up gate and up."""
    if gate_up == "in_turn":
        return rows.unflatten(0, (-1, 8, 2)).transpose(1, 2)
    if gate_up == "stacked":
        return rows.unflatten(0, (2, -1, 8)).transpose(0, 1)
    return rows.unflatten(0, (-1, 2, 8))


def pack_mxfp4(blocks: torch.Tensor, scales: torch.Tensor, *,
               gate_up: Optional[str] = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Values u8 [E, N / 16, K / 64, 512] and scales u8 [E, N / 16, K / 64, 32], as moe_experts takes them; once, at load.

    blocks u8 [E, N, K / 32, 16], two e2m1 in a byte, the first in its lower half, and scales u8 [E, N, K / 32], e8m0 of at
    most 128: a checkpoint's, as gpt-oss has them. gate_up says how the rows of w_gate_up lie: "in_turn", gate and up of a
    column side by side (gpt-oss), or "stacked", all of gate in front; of w_down it is None. K is filled up with zeros.
    """
    if gate_up not in (None, "in_turn", "stacked"):
        raise ValueError(f"gate_up is {gate_up!r}; it must be 'in_turn', 'stacked' or None")
    if blocks.dtype != torch.uint8 or scales.dtype != torch.uint8 or blocks.ndim != 4 or blocks.shape[3] != 16:
        raise ValueError("blocks must be uint8 [experts, rows, K / 32, 16], and scales uint8 [experts, rows, K / 32]")
    experts, rows, groups = blocks.shape[:3]
    if scales.shape != blocks.shape[:3]:
        raise ValueError(f"scales are {list(scales.shape)}; they must be {list(blocks.shape[:3])}")
    if rows % _ROWS != 0:
        raise ValueError(f"there are {rows} rows; they must be a multiple of {_ROWS}")
    if scales.numel() > 0 and int(scales.max()) > _MOST:
        raise ValueError(f"a scale is 2^{int(scales.max()) - 127}; the largest is 2^{_MOST - 127}")
    padded = -groups % (_DEPTH // 32)
    shape = experts, rows // _ROWS, (groups + padded) // 2
    values = torch.empty(*shape, 512, dtype=torch.uint8, device=blocks.device)
    powers = torch.empty(*shape, 32, dtype=torch.uint8, device=blocks.device)
    spread = torch.tensor([[sum((code >> 3 - i & 1) << bit for i, bit in enumerate(bits)) for code in range(16)]
                           for bits in _BITS], dtype=torch.int64, device=blocks.device)
    for expert in range(experts):  # one at a time: codes are four times as large as their blocks
        codes = torch.stack((blocks[expert] & 15, blocks[expert] >> 4), -1).flatten(1)
        codes = torch.nn.functional.pad(codes, (0, 32 * padded)).int()
        split = _strips(codes, gate_up).unflatten(3, (-1, 4, 2, 4, 2))  # block, step, k + 8, lane % 4, k % 2
        words = torch.zeros_like(split[:, 0, :, :, :, 0], dtype=torch.int64)
        for half in range(2):
            for later in range(2):
                words |= spread[half + 2 * later][split[:, half, :, :, :, later]]
        words = words[..., 0] | words[..., 1] << 16 & 0xffff0000 | words[..., 1] >> 16
        ordered = words.permute(0, 2, 1, 4, 3)  # strip, block, lane / 4, lane % 4, step
        in_bytes = torch.stack([ordered >> shift & 255 for shift in (0, 8, 16, 24)], -1)
        values[expert] = in_bytes.to(torch.uint8).reshape(values.shape[1:])
        of_rows = torch.nn.functional.pad(scales[expert], (0, padded)) + 126
        split = _strips(of_rows, gate_up).unflatten(3, (-1, 2))
        powers[expert] = split.permute(0, 3, 2, 4, 1).reshape(powers.shape[1:])
    return values, powers
