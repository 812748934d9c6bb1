// Lets a test program be the worker process of the CudaDevice under test.
#include "tests/other_role.h"
#include "tuner/worker/worker_main.h"

bool other_role(int argc, char** argv, int& status) { return moetune::is_worker_call(argc, argv, status); }
