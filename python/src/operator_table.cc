#include "operator_table.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace moetune::python {
namespace {

// As cuda.h has them.
const auto kLegacyStream = reinterpret_cast<void*>(1), kStreamPerThread = reinterpret_cast<void*>(2);

uint64_t thread_number() {
  static std::atomic<uint64_t> count{0};
  thread_local const uint64_t own = ++count;
  return own;
}

}  // namespace

OperatorTable::Stream::Stream(int64_t of, void* given)
    : device(of),
      handle(given == kLegacyStream ? nullptr : given),
      thread(given == kStreamPerThread ? thread_number() : 0) {}

OperatorTable& OperatorTable::instance() {
  static auto* const table = new OperatorTable;
  return *table;
}

OperatorTable::Look OperatorTable::look(const FamilyKey& key, void* stream) const {
  const std::shared_lock shared(mutex_);
  Look found{std::nullopt, workspace_of({key.device, stream})};
  for (const OpenedFamily& opened : families_) {
    if (opened.key == key) found.family = opened.family;
  }
  return found;
}

void OperatorTable::add(const FamilyKey& key, const Family& family) {
  const std::unique_lock alone(mutex_);
  std::erase_if(families_, [&](const OpenedFamily& opened) { return opened.key == key; });
  families_.push_back({key, family});
}

void OperatorTable::forget(int64_t device) {
  const std::unique_lock alone(mutex_);
  std::erase_if(families_, [&](const OpenedFamily& opened) { return opened.key.device == device; });
}

Memory OperatorTable::workspace(int64_t device, void* stream) const {
  const std::shared_lock shared(mutex_);
  return workspace_of({device, stream});
}

Memory OperatorTable::workspace_of(const Stream& stream) const {
  for (const Workspace& workspace : workspaces_) {
    if (workspace.stream == stream) return workspace.memory;
  }
  return {};
}

void OperatorTable::add_workspace(int64_t device, void* handle, const ffi::Tensor& tensor) {
  const Memory memory = memory_of(tensor, std::nullopt);
  const Stream stream(device, handle);
  const std::unique_lock alone(mutex_);
  std::erase_if(workspaces_, [&](const Workspace& old) { return old.stream == stream; });
  workspaces_.push_back({stream, memory});
  kept_.push_back(tensor);
}

}  // namespace moetune::python
