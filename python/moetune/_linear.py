"""Products of transformers models by few_rows_linear, in calls of few rows."""

import functools
from typing import Any, Optional

import torch

import moetune
import moetune.torch as operators
from moetune import _routing
from moetune._families import Wanted, dtype_of, facts_of, is_changed

_MOST_ROWS = 16  # of few_rows_linear
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def _has_vectors(rows: torch.Tensor) -> bool:
    """Whether rows are read 16 bytes at a time, as far as strides say."""
    return bool(rows.stride(1) == 1 and rows.stride(0) % 8 == 0)


def multiply(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """torch.nn.functional.linear."""
    rows = x.numel() // x.shape[-1]
    if (not 0 < rows <= _MOST_ROWS or x.dtype != weight.dtype or not _has_vectors(weight) or x.shape[-1] % 8 != 0):
        return torch.nn.functional.linear(x, weight, bias)
    given = x.reshape(rows, x.shape[-1])
    made = operators.few_rows_linear(given if _has_vectors(given) else given.contiguous(), weight, bias)
    return made.view(*x.shape[:-1], weight.shape[0])


def project(layer: Any, x: torch.Tensor) -> torch.Tensor:
    return multiply(x, layer.weight, layer.bias)


def _is_served(layer: Any, dtype: Any) -> bool:
    """Whether few_rows_linear can be a module's product."""
    weight: Any = getattr(layer, "weight", None)
    known = type(layer) is torch.nn.Linear or _routing.is_known(layer)
    return (known and not is_changed(layer) and type(weight.data) is torch.Tensor and not weight.is_meta and
            weight.dtype == dtype and weight.shape[1] % 8 == 0 and weight.data_ptr() % 16 == 0)


def layers_of(model: Any, fused: list[Any]) -> list[Any]:
    """Modules whose products few_rows_linear can be, without q, k and v of layers that are `fused`."""
    inner = {id(getattr(layer, name)) for layer in fused for name in _PROJECTIONS[:3]}
    found = [each for layer in model.modules() if hasattr(layer, "num_key_value_groups")
             for name in _PROJECTIONS if (each := getattr(layer, name, None)) is not None]
    found += [*_routing.routers(model), model.get_output_embeddings()]
    return [each for each in found if id(each) not in inner and _is_served(each, model.dtype)]


def families_of(model: Any, fused: list[Any]) -> list[Wanted]:
    """The families of its products of few rows. Raises Unsupported if there are none."""
    of_type, layers = None if dtype_of(model) == "bf16" else "f16", layers_of(model, fused)
    shapes = {(*layer.weight.shape, getattr(layer, "bias", None) is not None) for layer in layers}
    shapes |= {(sum(each.out_features for each in parts), parts[0].in_features, parts[0].bias is not None)
               for layer in fused for parts in [[getattr(layer, name) for name in _PROJECTIONS[:3]]]}
    if not shapes:
        raise moetune.Unsupported("its projections are not plain linear layers, or something hooks into them")
    return [Wanted("few_rows_linear", facts_of(**{"in": depth, "out": rows}, dtype=of_type,
                                               bias="yes" if has_bias else None),
                   ("tokens=1", "tokens=8", "tokens=16"), "tokens=1..16", "")
            for rows, depth, has_bias in sorted(shapes)]


def serve(layers: list[Any]) -> None:
    """But for routers, whose forward is more than a product."""
    for layer in layers:
        if not _routing.is_known(layer):
            layer.forward = functools.partial(project, layer)
