#include "bound_call.h"

#include "call_signature.h"

namespace moetune::python {
namespace {

CallSignature signature_of(const FamilyKey& key, const Given& given, const char* options) {
  CallSignature signature;
  signature.add(key.of);
  signature.add(key.device);
  for (const int64_t fact : key.facts) signature.add(fact);
  signature.add(options);
  for (size_t slot = 0; slot < key.of->tensor_count(); ++slot) signature.add_tensor(given.tensors[slot]);
  return signature;
}

void* address_of(const DLTensor* tensor) {
  if (tensor == nullptr || tensor->data == nullptr) return nullptr;
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}

}  // namespace

BoundCall bind_call(const FamilyKey& key, const Given& given, moetune_family* family) {
  static thread_local RecentCalls<BoundCall> recent;
  const char* const options = key.of->bind_options(given);
  const size_t tensors = key.of->tensor_count();
  const CallSignature signature = signature_of(key, given, options);
  if (const BoundCall* const known = recent.find(signature)) {
    BoundCall call = *known;
    for (size_t slot = 0; slot < tensors; ++slot)
      call.arguments.tensors[slot] = address_of(given.tensors[slot]);
    return call;
  }
  BoundCall call;
  key.of->check(moetune_bind(family, given.tensors, tensors, options, &call.arguments,
                             call.most.values.data(), &call.most.count));
  recent.add(signature, call);
  return call;
}

}  // namespace moetune::python
