#include "operator_table.h"

#include <algorithm>
#include <mutex>

namespace moetune::python {

OperatorTable& OperatorTable::instance() {
  static auto* const table = new OperatorTable;
  return *table;
}

OperatorTable::Look OperatorTable::look(const FamilyKey& key, void* stream) const {
  const std::shared_lock shared(mutex_);
  Look found{std::nullopt, workspace_of(key.device, stream)};
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
  return workspace_of(device, stream);
}

Memory OperatorTable::workspace_of(int64_t device, void* stream) const {
  for (const Workspace& workspace : workspaces_) {
    if (workspace.stream == stream && workspace.device == device) return workspace.memory;
  }
  return {};
}

void OperatorTable::add_workspace(int64_t device, void* stream, const ffi::Tensor& tensor) {
  const Memory memory = memory_of(tensor, std::nullopt);
  const std::unique_lock alone(mutex_);
  std::erase_if(workspaces_,
                [&](const Workspace& old) { return old.stream == stream && old.device == device; });
  workspaces_.push_back({device, stream, memory});
  kept_.push_back(tensor);
}

}  // namespace moetune::python
