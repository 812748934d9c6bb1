// One compiler process: NVRTC behind the messages of tuner/process/protocol.h. The parent's half of the
// messages and the child's, which `moetune compile-unit --fd N --parent PID` runs. Not for users.
#pragma once

#include <cstdint>

#include "tuner/compile/nvrtc.h"
#include "tuner/process/protocol.h"

namespace moetune {

inline constexpr const char* kCompileVerb = "compile-unit";

// Serves compilations if the arguments ask for the compiler process (tuner/process/child_main.h).
bool is_compile_call(int argc, char** argv, int& status);

// The first request to a child: loads NVRTC, and from then on ends the child once more than
// `memory_limit` bytes are resident (0: no limit).
Message load_request(std::uint64_t memory_limit);
// Throws BrokenEnvironment if the child could not load NVRTC, with its reason.
NvrtcFacts load_reply(const Message& reply);

Message compile_request(const NvrtcJob& job);
NvrtcResult compile_reply(Message reply);

}  // namespace moetune
