// The GPU worker as a child process: `moetune worker --fd N --parent PID`. Not for users.
#pragma once

namespace moetune {

inline constexpr const char* kWorkerVerb = "worker";

// Serves a WorkerSession if the arguments ask for the worker (tuner/process/child_main.h).
bool is_worker_call(int argc, char** argv, int& status);

}  // namespace moetune
