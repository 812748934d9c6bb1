// moetune_bind for operators, whose calls repeat (call_signature.h). Thread-safe. Errors: as of moetune_bind, which are
// not remembered.
#pragma once

#include "operator.h"

namespace moetune::python {

struct BoundCall {
  moetune_arguments arguments;
  FreeExtents most;
};

// `family` is the key's.
BoundCall bind_call(const FamilyKey& key, const Given& given, moetune_family* family);

}  // namespace moetune::python
