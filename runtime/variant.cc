#include "runtime/variant.h"

#include <algorithm>
#include <stdexcept>

#include "base/integers.h"

namespace moetune {

Variant::Variant(std::string cubin_digest, CompileUnit compiled, std::span<const std::uint8_t> cubin)
    : digest_(std::move(cubin_digest)),
      unit_(std::move(compiled)),
      module_(cuda::load_module(cubin)),
      mangled_(cuda::mangled_in(cubin)) {}

void Variant::add_entries(const LaunchPlan& plan, const DeviceLimits& limits) {
  for (const Launch& launch : plan.launches) {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::any_of(entries_.begin(), end, [&](const Entry& known) { return known.name == launch.entry; })) continue;
    if (count == kMaxEntries) throw std::logic_error("a variant has more entries than fit");
    const std::string entry = launch.entry.text();
    const cuda::Function function = cuda::find_function(module_, entry, mangled_);
    cuda::permit_all(function, entry, limits);
    entries_[count] = {launch.entry, function};
    count_.store(count + 1, std::memory_order_release);
  }
}

cuda::Address Variant::symbol(const Memset& memset) const {
  return cuda::find_variable(module_, memset.symbol.text(), memset.bytes);
}

cuda::Function Variant::function(const EntryName& entry) const {
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (entries_[i].name == entry) return entries_[i].function;
  }
  throw std::logic_error("the variant has no entry '" + entry.text() + "'");
}

WorkspaceLayout::WorkspaceLayout(const LaunchPlan& plan) {
  std::int64_t counters = 0, rest = kWorkspaceCounters;
  for (const Scratch& scratch : plan.scratch) {
    std::int64_t& end = scratch.zeroed ? counters : rest;
    offsets.push_back(end);
    end += ceil_div(scratch.bytes, kWorkspaceAlignment) * kWorkspaceAlignment;
  }
  counter_bytes = counters;
  bytes = rest;
}

}  // namespace moetune
