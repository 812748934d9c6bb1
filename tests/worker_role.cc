// Lets a test program be its own child processes: the worker of a CudaDevice and the compiler.
#include "tests/other_role.h"
#include "tuner/child_roles.h"

bool other_role(int argc, char** argv, int& status) { return moetune::is_child_call(argc, argv, status); }
