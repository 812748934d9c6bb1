// The worker process: `moetune worker --fd N --parent PID`, which WorkerProcess starts. Not for users.
#pragma once

namespace moetune {

// Serves requests on the socket until it closes; returns the exit status. Ends at once where `parent` is not
// (or no longer) its parent process.
int worker_main(int fd, int parent);

// Where the arguments are `worker --fd N --parent PID`, serves and returns true with the status; else returns
// false.
bool is_worker_call(int argc, char** argv, int& status);

}  // namespace moetune
