#include "decode_table.h"

#include <algorithm>
#include <mutex>
#include <tuple>

namespace moetune::python {
namespace {

bool same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

[[noreturn]] void refuse(const std::string& sentence) {
  fail(MOETUNE_INVALID_ARGUMENT, "decode_attention: " + sentence);
}

const DLTensor& required(const DecodeTensors& tensors, int slot, const char* name) {
  if (tensors[slot] != nullptr) return *tensors[slot];
  refuse(std::string("tensor '") + name + "' is missing");
}

std::string type_name(DLDataType type, const char* what) {
  if (type.lanes == 1 && type.bits == 16 && type.code == kDLBfloat) return "bf16";
  if (type.lanes == 1 && type.bits == 16 && type.code == kDLFloat) return "fp16";
  if (type.lanes == 1 && type.bits == 8 && type.code == kDLFloat8_e4m3fn) return "e4m3";
  refuse(std::string(what) + " must be bf16 or fp16, or e4m3 for the cache");
}

}  // namespace

bool DecodeKey::operator==(const DecodeKey& other) const {
  const auto numbers = [](const DecodeKey& key) {
    return std::tie(key.device, key.group, key.head_dim, key.page, key.window, key.q_len, key.heads_first,
                    key.lse, key.sinks, key.head_scales);
  };
  return numbers(*this) == numbers(other) && same_type(dtype, other.dtype) &&
         same_type(kv_dtype, other.kv_dtype);
}

std::string DecodeKey::specialization() const {
  std::string text = "group=" + std::to_string(group) + ",head_dim=" + std::to_string(head_dim) +
                     ",page=" + std::to_string(page) + ",dtype=" + type_name(dtype, "q");
  const auto add = [&](const char* pair) { text += std::string(",") + pair; };
  if (!same_type(dtype, kv_dtype)) text += ",kv_dtype=" + type_name(kv_dtype, "the cache");
  if (window != 0) text += ",window=" + std::to_string(window);
  if (q_len != 1) text += ",q_len=" + std::to_string(q_len);
  if (lse) add("lse=natural");
  if (sinks) add("sinks=learned");
  if (head_scales) add("kv_scale=head");
  return text;
}

DecodeKey decode_key(const DecodeTensors& tensors, bool heads_first, int64_t window) {
  const DLTensor& q = required(tensors, MOETUNE_DECODE_Q, "q");
  const DLTensor& k = required(tensors, MOETUNE_DECODE_K, "k_cache");
  if (q.ndim != 3 && q.ndim != 4)
    refuse("q has " + std::to_string(q.ndim) +
           " dimensions; it must be [batch, heads, head_dim] or [batch, q_len, "
           "heads, head_dim]");
  if (k.ndim != 4)
    refuse("k_cache has " + std::to_string(k.ndim) +
           " dimensions; it must be [pages, page, kv_heads, head_dim] "
           "(NHD) or [pages, kv_heads, page, head_dim] (HND)");
  const int64_t heads = q.shape[q.ndim - 2], kv_heads = k.shape[heads_first ? 1 : 2];
  if (kv_heads < 1 || heads % kv_heads != 0)
    refuse("q has " + std::to_string(heads) + " heads, no multiple of the cache's " +
           std::to_string(kv_heads) + " (layout=" + (heads_first ? "HND" : "NHD") + ")");
  DecodeKey key{};
  key.device = q.device.device_id;
  key.group = heads / kv_heads;
  key.head_dim = q.shape[q.ndim - 1];
  key.page = tensors[MOETUNE_DECODE_PAGE_TABLE] != nullptr ? k.shape[heads_first ? 2 : 1] : 0;
  key.window = window;
  key.q_len = q.ndim == 4 ? q.shape[1] : 1;
  key.dtype = q.dtype;
  key.kv_dtype = k.dtype;
  key.heads_first = heads_first;
  key.lse = tensors[MOETUNE_DECODE_LSE] != nullptr;
  key.sinks = tensors[MOETUNE_DECODE_SINKS] != nullptr;
  const DLTensor* scale = tensors[MOETUNE_DECODE_K_SCALE];
  key.head_scales = scale != nullptr && scale->ndim == 1 && scale->shape[0] > 1;
  return key;
}

DecodeTable& DecodeTable::instance() {
  static auto* const table = new DecodeTable;
  return *table;
}

std::optional<Family> DecodeTable::family(const DecodeKey& key) const {
  const std::shared_lock shared(mutex_);
  for (const OpenedFamily& opened : families_) {
    if (opened.key == key) return opened.family;
  }
  return std::nullopt;
}

void DecodeTable::add(const DecodeKey& key, const Family& family) {
  const std::unique_lock alone(mutex_);
  std::erase_if(families_, [&](const OpenedFamily& opened) { return opened.key == key; });
  families_.push_back({key, family});
}

void DecodeTable::forget(int64_t device) {
  const std::unique_lock alone(mutex_);
  std::erase_if(families_, [&](const OpenedFamily& opened) { return opened.key.device == device; });
}

Memory DecodeTable::workspace(int64_t device, void* stream) const {
  const std::shared_lock shared(mutex_);
  for (const Workspace& workspace : workspaces_) {
    if (workspace.stream == stream && workspace.device == device) return workspace.memory;
  }
  return {};
}

void DecodeTable::add_workspace(int64_t device, void* stream, const ffi::Tensor& tensor) {
  const Memory memory = memory_of(tensor);
  const std::unique_lock alone(mutex_);
  std::erase_if(workspaces_,
                [&](const Workspace& old) { return old.stream == stream && old.device == device; });
  workspaces_.push_back({device, stream, memory});
  kept_.push_back(tensor);
}

}  // namespace moetune::python
