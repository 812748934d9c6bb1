#include "tuner/worker/worker_main.h"

#include <memory>

#include "tuner/process/child_main.h"
#include "tuner/worker/worker_session.h"

namespace moetune {

bool is_worker_call(int argc, char** argv, int& status) {
  const auto make_handler = [] {
    return [session = std::make_shared<WorkerSession>()](const Message& request) { return session->handle(request); };
  };
  return serve_as_child(argc, argv, kWorkerVerb, make_handler, status);
}

}  // namespace moetune
