// Turns the shell's limits on a process ('ulimit') into a sentence and exit code 3, instead of a signal.
#pragma once

namespace moetune {

// For main(), before anything else. From then on writing past `ulimit -f` fails with an error, memory that runs out
// where nobody can catch that ends the process with a sentence, and the main thread has the stack that it needs.
void prepare_for_resource_limits();

}  // namespace moetune
