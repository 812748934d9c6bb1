#include "operator_launch.h"

#include <tvm/ffi/container/array.h>

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

// Never destroyed: the process may end while other threads still launch.
ffi::Function& helper() {
  static auto* const kept = new ffi::Function;
  return *kept;
}

void* address_of(const DLTensor* tensor) {
  if (tensor == nullptr || tensor->data == nullptr) return nullptr;
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}

// All but the addresses is the same for calls of one plan.
moetune_arguments bound(CallPlan& plan, const Given& given, moetune_family* family) {
  if (!plan.is_bound) {
    size_t count = MOETUNE_MAX_TENSORS;
    while (count > 0 && given.tensors[count - 1] == nullptr) --count;
    plan.key.of->check(moetune_bind(family, given.tensors, count, plan.options, &plan.arguments,
                                    plan.most.values.data(), &plan.most.count));
    plan.is_bound = true;
  }
  moetune_arguments arguments = plan.arguments;
  for (size_t slot = 0; slot < MOETUNE_MAX_TENSORS; ++slot) arguments.tensors[slot] = address_of(given.tensors[slot]);
  return arguments;
}

Step attempt(CallPlan& plan, const Given& given) {
  const FamilyKey& key = plan.key;
  const OperatorTable::Look found = OperatorTable::instance().look(key, given.stream);
  if (!found.family) return kOpenFamily;
  const Use use(*(*found.family)->runtime.get(), std::nothrow);
  if (use.handle() == nullptr) return kOpenFamily;
  moetune_family* const family = (*found.family)->handle;
  moetune_arguments arguments = bound(plan, given, family);
  if (plan.most.values[0] == 0 && plan.most.count > 0) return kLaunched;  // decode_attention without sequences
  key.of->complete(given, arguments);
  const moetune_choice choice = key.of->choose(given, family, plan.most);
  const Memory workspace = found.workspace;
  if (workspace.address == nullptr) return kGrowWorkspace;
  const moetune_status status =
      moetune_launch(family, &choice, &arguments, workspace.address, workspace.bytes, given.stream);
  if (status == MOETUNE_OUT_OF_MEMORY) {
    const std::string sentence = moetune_last_error();
    size_t needed = 0;
    if (moetune_choice_workspace(family, &choice, &needed) == MOETUNE_OK && needed > workspace.bytes)
      return kGrowWorkspace;
    fail(status, sentence);
  }
  key.of->check(status);
  return kLaunched;
}

void ask_helper(Step step, const CallPlan& plan, const Given& given) {
  const FamilyKey& key = plan.key;
  const FreeExtents& extents = plan.extents;
  const ffi::Array<int64_t> values(extents.values.begin(), extents.values.begin() + extents.count);
  const ffi::Any answer =
      helper()(static_cast<int64_t>(step), key.device, ffi::String(key.of->name()), ffi::String(key.of->kernel()),
               ffi::String(key.of->specialization(key)), ffi::String(plan.problem), values,
               reinterpret_cast<int64_t>(given.stream), given.capturing);
  if (step != kOpenFamily) return;
  if (const auto family = answer.as<Family>()) OperatorTable::instance().add(key, *family);
}

}  // namespace

void set_operator_helper(ffi::Function given) { helper() = std::move(given); }

void launch_planned(CallPlan& plan, const Given& given) {
  if (plan.is_idle) return;
  for (int tries = 0; tries < 4; ++tries) {
    const Step step = attempt(plan, given);
    if (step == kLaunched) return;
    ask_helper(step, plan, given);
  }
  fail(MOETUNE_OUT_OF_MEMORY, std::string(plan.key.of->name()) + ": the workspace is too small for a stored choice");
}

}  // namespace moetune::python
