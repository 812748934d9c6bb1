// The executable: the tool, and the processes that the tool starts to compile and to use a GPU.
#include <commit.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/command_line.h"
#include "cli/resource_limits.h"
#include "jobs/stored/served_families.h"
#include "tuner/child_roles.h"

namespace {

// Opens standard streams that are closed. Otherwise the next file opened would take such a number, and prints would
// end up in a database or in the worker's socket. Read-only, so that printing still fails.
void fill_standard_streams() {
  int file = 0;
  do {
    file = open("/dev/null", O_RDONLY);
  } while (file >= 0 && file <= STDERR_FILENO);
  if (file > STDERR_FILENO) close(file);
}

}  // namespace

int main(int argc, char** argv) {
  moetune::prepare_for_resource_limits();
  fill_standard_streams();
  int status = 0;
  if (moetune::is_child_call(argc, argv, status) || moetune::is_serving_call(argc, argv, status)) return status;
  moetune::set_commit(MOETUNE_COMMIT);
  return moetune::run_command_line({argv + (argc > 0 ? 1 : 0), argv + argc});
}
