"""The attention backend moetune of SGLang: steps by decode_attention, prompts and chunks by prefill_attention."""

from typing import Any, Optional

import torch
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType, RadixAttention
from sglang.srt.mem_cache.layout.paged_view import paged_kv_view
from sglang.srt.mem_cache.memory_pool import KVWriteLoc, MHATokenToKVPool

import moetune.torch as operators
from moetune import Unsupported, _families, _servers


def create(runner: Any) -> Any:
    """The backend of a model runner: this one if it serves all layers, else SGLang's own, with a warning why."""
    layers = [each for each in runner.model.modules() if isinstance(each, RadixAttention)]
    reason = _why_not(runner, layers)
    if reason is None:
        return Backend(runner, layers)
    from sglang.srt.arg_groups.model_override_base import get_default_attn_backend

    own = get_default_attn_backend(runner.server_args, runner.use_mla_backend, runner.model_config)
    _servers.LOG.warning("moetune: SGLang's own attention (%s) serves: %s", own, reason)
    return ATTENTION_BACKENDS[own](runner)


def _heads(runner: Any, layers: list[Any]) -> set[_servers.Heads]:
    sinks = bool(runner.model_config.has_attention_sinks)
    return {_servers.Heads(layer.tp_q_head_num, layer.tp_k_head_num, layer.head_dim, runner.dtype,
                           _window(layer), sinks, softcap=_families.softcap_of(layer.logit_cap)) for layer in layers}


def _window(layer: Any) -> int:
    """Tokens that a query sees, itself included, which SGLang does not count; 0 for all."""
    size = layer.sliding_window_size
    return int(size) + 1 if size is not None and size > -1 else 0


def _why_not(runner: Any, layers: list[Any]) -> Optional[str]:
    if runner.use_mla_backend or not layers:
        return "attention over a latent is not served"
    if not runner.spec_algorithm.is_none():
        return "speculative decoding is not served"
    if type(runner.token_to_kv_pool) is not MHATokenToKVPool or runner.kv_index_translator.is_translating:
        return ("a pool of pages of another form than one for all layers; for sliding windows, choose "
                "--disable-hybrid-swa-memory")
    if runner.kv_cache_dtype != runner.dtype:
        return f"keys and values in {runner.kv_cache_dtype} for a model in {runner.dtype} are not served"
    if runner.page_size not in _servers.PAGES:
        return f"pages of {runner.page_size} tokens; choose --page-size 64, or 16, 32, 128 or 256"
    for layer in layers:
        if (layer.is_cross_attention or layer.attn_type != AttentionType.DECODER or
                layer.v_head_dim != layer.qk_head_dim or layer.xai_temperature_len > 0):
            return "attention that is not causal, and values of another size than keys are not served"
    try:
        reasons = [_servers.page_for(heads, (runner.page_size,))[1] for heads in _heads(runner, layers)]
    except Unsupported as unsupported:
        return str(unsupported)
    return next(filter(None, reasons), None)


class Backend(AttentionBackend):  # type: ignore[misc]
    """Graphs of steps build their page tables themselves, from buffers of SGLang's that stay where they are."""

    def __init__(self, runner: Any, layers: list[Any]) -> None:
        super().__init__()
        self.forward_metadata: Optional[_servers.Batch] = None
        self._pool, self._page = runner.token_to_kv_pool, runner.page_size
        self._slots = runner.req_to_token_pool.req_to_token  # i32 [requests, tokens]
        self._context = int(runner.model_config.context_len)
        operators.prepare(max_batch=runner.req_to_token_pool.size, max_context=self._context)
        for heads in _heads(runner, layers):
            _servers.warm(heads, self._page, "NHD")

    def _batch(self, forward_batch: Any, max_kv: int, q_offsets: Optional[torch.Tensor] = None, max_q: int = 1,
               tokens: int = 0) -> _servers.Batch:
        first = self._slots[:, :max_kv:self._page].index_select(0, forward_batch.req_pool_indices)
        pages = torch.div(first, self._page, rounding_mode="floor").to(torch.int32)
        steps = 0 if q_offsets is not None else pages.shape[0]
        return _servers.Batch(steps, tokens or steps, q_offsets, pages, forward_batch.seq_lens.to(torch.int32), max_q,
                              max_kv)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        if forward_batch.forward_mode.is_idle():
            return
        longest = min(self._context, int(forward_batch.seq_lens_cpu.max()))
        if forward_batch.forward_mode.is_decode():
            self.forward_metadata = self._batch(forward_batch, longest)
            return
        counts = forward_batch.extend_seq_lens
        q_offsets = torch.zeros(counts.shape[0] + 1, dtype=torch.int32, device=counts.device)
        torch.cumsum(counts, 0, dtype=torch.int32, out=q_offsets[1:])
        new = [int(count) for count in forward_batch.extend_seq_lens_cpu]
        self.forward_metadata = self._batch(forward_batch, longest, q_offsets, max(new), sum(new))

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        self.forward_metadata = self._batch(forward_batch, self._context)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Nothing: what a graph needs is made in it."""

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    def forward_decode(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Any, forward_batch: Any,
                       save_kv_cache: bool = True, **kwargs: Any) -> torch.Tensor:
        if save_kv_cache and k is not None:
            self._pool.set_kv_buffer(layer, KVWriteLoc.for_batch(forward_batch), k, v)
        heads, dim = layer.tp_q_head_num, layer.head_dim
        query = q.reshape(-1, heads, dim)
        keys, values = (paged_kv_view(each, self._page, layer.tp_k_head_num, dim)
                        for each in (self._pool.get_key_buffer(layer.layer_id),
                                     self._pool.get_value_buffer(layer.layer_id)))
        options: dict[str, Any] = {"window": _window(layer), "softcap": _families.softcap_of(layer.logit_cap)}
        if kwargs.get("sinks") is not None:
            options["sinks"] = kwargs["sinks"].float()
        out = torch.empty_like(query)
        assert self.forward_metadata is not None
        _servers.attend(self.forward_metadata, query, keys, values, out, layer.scaling, "NHD", **options)
        return out.view(-1, heads * dim)

    forward_extend = forward_decode
