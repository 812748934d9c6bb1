"""What the operators of moetune.torch that route return: tensors by name."""

from typing import NamedTuple

import torch


class Routing(NamedTuple):
    """What route returns. T tokens, k experts each, E experts; a slot is one choice of one token, t * k + j."""

    ids: torch.Tensor
    """i32 [T, k], or i64 with ids_type="i64": the experts, best first."""
    weights: torch.Tensor
    """f32 [T, k]."""
    counts: torch.Tensor
    """i32 [E]: slots of each expert."""
    offsets: torch.Tensor
    """i32 [E + 1]: where the experts' segments begin, multiples of `align`."""
    sorted: torch.Tensor
    """i32 [places]: the slot at each place; T * k for none."""
    inverse: torch.Tensor
    """i32 [T, k]: the place of each slot; -1 for one that was dropped."""
    block_experts: torch.Tensor
    """i32 [places / align]: the expert of each block; -1 behind the last."""


class RowRouting(NamedTuple):
    """What route_rows returns: a Routing whose last tensor is what DeepGEMM calls m_indices."""

    ids: torch.Tensor
    weights: torch.Tensor
    counts: torch.Tensor
    offsets: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
    row_experts: torch.Tensor
    """i32 [places]: the expert of each place; -1 for padding."""


class EndRouting(NamedTuple):
    """What route_ends returns: a Routing whose last tensor is the `offs` of torch._grouped_mm."""

    ids: torch.Tensor
    weights: torch.Tensor
    counts: torch.Tensor
    offsets: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
    ends: torch.Tensor
    """i32 [E]: where the experts' segments end, padding included."""


class MaskedRouting(NamedTuple):
    """What route_masked returns, as DeepGEMM's masked layout: place p is of expert p // segment."""

    ids: torch.Tensor
    weights: torch.Tensor
    counts: torch.Tensor
    """i32 [E]: slots of each expert, at most `segment` (DeepGEMM's masked_m)."""
    sorted: torch.Tensor
    """i32 [E * segment]: the slot at each place; T * k for none."""
    inverse: torch.Tensor
    """i32 [T, k]: the place of each slot; -1 for one that was dropped."""


class RankRouting(NamedTuple):
    """What route_ranks returns, as DeepEP takes it. Rank r has the r-th of `ranks` equal ranges of experts."""

    ids: torch.Tensor
    """i64 [T, k], or i32 with ids_type="i32"."""
    weights: torch.Tensor
    counts: torch.Tensor
    """i32 [E]: slots of each expert."""
    tokens_per_rank: torch.Tensor
    """i32 [ranks]: tokens with an expert there."""
    in_rank: torch.Tensor
    """bool [T, ranks]: whether the token has an expert there."""


class Plan(NamedTuple):
    """What route_plan returns: a Routing's tensors but for ids and weights. E experts have a segment."""

    counts: torch.Tensor
    offsets: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
    """i32 [T, k]: the place of each slot; -1 for one of an expert elsewhere."""
    block_experts: torch.Tensor


class RowPlan(NamedTuple):
    """What route_plan_rows returns: a RowRouting's tensors but for ids and weights."""

    counts: torch.Tensor
    offsets: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
    row_experts: torch.Tensor


class EndPlan(NamedTuple):
    """What route_plan_ends returns: an EndRouting's tensors but for ids and weights."""

    counts: torch.Tensor
    offsets: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
    ends: torch.Tensor


class MaskedPlan(NamedTuple):
    """What route_plan_masked returns: a MaskedRouting's tensors but for ids and weights."""

    counts: torch.Tensor
    sorted: torch.Tensor
    inverse: torch.Tensor
