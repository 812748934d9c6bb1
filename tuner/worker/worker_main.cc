#include "tuner/worker/worker_main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tuner/worker/protocol.h"
#include "tuner/worker/worker_session.h"

namespace moetune {
namespace {

int serve(int fd) {
  Channel channel{FileDescriptor(fd)};
  WorkerSession session;
  Message request;
  while (channel.receive(request, std::nullopt) == Channel::Status::done) {
    if (channel.send(session.handle(request), std::nullopt) != Channel::Status::done) break;
  }
  return 0;
}

}  // namespace

int worker_main(int fd, int parent) {
  // The socket's end tells an idle worker that its parent is gone; one stuck in a kernel needs the signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1;
  try {
    return serve(fd);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
  }
}

bool is_worker_call(int argc, char** argv, int& status) {
  if (argc != 6 || std::string_view(argv[1]) != "worker" || std::string_view(argv[2]) != "--fd" ||
      std::string_view(argv[4]) != "--parent") {
    return false;
  }
  status = worker_main(std::atoi(argv[3]), std::atoi(argv[5]));
  return true;
}

}  // namespace moetune
