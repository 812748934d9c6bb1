#include "tuner/process/child_main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace moetune {
namespace {

void serve(int fd, const ChildHandler& handle) {
  Channel channel{FileDescriptor(fd)};
  Message request;
  while (channel.receive(request, std::nullopt) == Channel::Status::done) {
    if (channel.send(handle(request), std::nullopt) != Channel::Status::done) break;
  }
}

int child_main(std::string_view role, int fd, int parent, const std::function<ChildHandler()>& make_handler) {
  // The socket's end tells an idle child that its parent is gone; one stuck in a library needs the signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1;
  // The parent decides about Ctrl-C, which the terminal sends to the child as well.
  signal(SIGINT, SIG_IGN);
  try {
    serve(fd, make_handler());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(role).c_str(), error.what());
    return 1;
  }
}

}  // namespace

bool serve_as_child(int argc, char** argv, std::string_view role, const std::function<ChildHandler()>& make_handler,
                    int& status) {
  if (argc != 6 || std::string_view(argv[1]) != role || std::string_view(argv[2]) != "--fd" ||
      std::string_view(argv[4]) != "--parent") {
    return false;
  }
  status = child_main(role, std::atoi(argv[3]), std::atoi(argv[5]), make_handler);
  return true;
}

}  // namespace moetune
