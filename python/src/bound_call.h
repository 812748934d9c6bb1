// moetune_bind for operators, whose calls repeat: a server's layers pass tensors of equal shapes at every step, and
// reading those anew takes longer than launching. Each thread remembers the last few calls by all that binding depends
// on but the tensors' addresses. Thread-safe. Errors: as of moetune_bind; nothing of them is remembered.
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
