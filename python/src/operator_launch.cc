#include "operator_launch.h"

#include <tvm/ffi/container/array.h>

#include "bound_call.h"

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

// Never destroyed: the process may end while other threads still launch.
ffi::Function& helper() {
  static auto* const kept = new ffi::Function;
  return *kept;
}

Step attempt(const FamilyKey& key, const Given& given) {
  const OperatorTable::Look found = OperatorTable::instance().look(key, given.stream);
  if (!found.family) return kOpenFamily;
  const Use use(*(*found.family)->runtime.get(), std::nothrow);
  if (use.handle() == nullptr) return kOpenFamily;
  moetune_family* const family = (*found.family)->handle;
  BoundCall call = bind_call(key, given, family);
  if (call.most.values[0] == 0) return kLaunched;  // decode_attention without sequences
  key.of->complete(given, call.arguments);
  const moetune_choice choice = key.of->choose(given, family, call.most);
  const Memory workspace = found.workspace;
  if (workspace.address == nullptr) return kGrowWorkspace;
  const moetune_status status =
      moetune_launch(family, &choice, &call.arguments, workspace.address, workspace.bytes, given.stream);
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

void ask_helper(Step step, const FamilyKey& key, const Given& given) {
  const FreeExtents extents = key.of->extents(given);
  const ffi::Array<int64_t> values(extents.values.begin(), extents.values.begin() + extents.count);
  const ffi::Any answer = helper()(static_cast<int64_t>(step), key.device, ffi::String(key.of->name()),
                                   ffi::String(key.of->kernel()), ffi::String(key.of->specialization(key)),
                                   ffi::String(key.of->problem(given, key)), values,
                                   reinterpret_cast<int64_t>(given.stream), given.capturing);
  if (step != kOpenFamily) return;
  if (const auto family = answer.as<Family>()) OperatorTable::instance().add(key, *family);
}

}  // namespace

void set_operator_helper(ffi::Function given) { helper() = std::move(given); }

void launch_operator(const FamilyKey& key, const Given& given) {
  if (key.of->is_idle(given)) return;
  for (int tries = 0; tries < 4; ++tries) {
    const Step step = attempt(key, given);
    if (step == kLaunched) return;
    ask_helper(step, key, given);
  }
  fail(MOETUNE_OUT_OF_MEMORY,
       std::string(key.of->name()) + ": the workspace is too small for a stored choice");
}

}  // namespace moetune::python
