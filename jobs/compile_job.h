// The compile job: what NVRTC and ptxas say of one configuration, without a GPU.
#pragma once

#include <optional>
#include <string>

#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "tuner/compile/build.h"

namespace moetune {

struct CompileRequest {
  WorkloadSpec workload;
  std::optional<std::string> config;  // over the default
  std::string architecture = "sm_90a";
};

struct CompileResult {
  std::string kernel, problem, architecture, toolchain;
  Config config;
  Plan plan;
  Build build;
  std::string illegal;       // why the space forbids the configuration; "" if it does not
  std::string unlaunchable;  // why the architecture cannot launch it; "" if it can, or if it did not compile
};

// Throws BadField and BadInput for the request; BrokenEnvironment without NVRTC, or if it does not know the
// architecture. A configuration that does not compile is a result.
CompileResult compile(const CompileRequest& request, const std::stop_token& stop = {});

Document compile_document(const CompileResult& result);

}  // namespace moetune
