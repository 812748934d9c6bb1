#include "tuner/child_roles.h"

#include "tuner/compile/compile_child.h"
#include "tuner/process/guard.h"
#include "tuner/worker/worker_main.h"

namespace moetune {

bool is_child_call(int argc, char** argv, int& status) {
  return is_worker_call(argc, argv, status) || is_compile_call(argc, argv, status) || is_guard_call(argc, argv, status);
}

}  // namespace moetune
