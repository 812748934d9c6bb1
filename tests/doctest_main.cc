// A test program's main. Programs that are also started as something else (a worker process) link a file that
// defines other_role; the rest have none.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/other_role.h"

int main(int argc, char** argv) {
  int status = 0;
  if (other_role != nullptr && other_role(argc, argv, status)) return status;
  doctest::Context context(argc, argv);
  return context.run();
}
