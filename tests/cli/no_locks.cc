// Preloaded into a program, it makes every advisory lock fail, as on a network mount without a lock service.
// NO_LOCKS_ERRNO is the error, ENOLCK without it.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace {

int refuse() {
  const char* const number = std::getenv("NO_LOCKS_ERRNO");
  errno = number != nullptr ? std::atoi(number) : ENOLCK;
  return -1;
}

using Fcntl = int (*)(int, int, ...);

int control(const char* name, int file, int command, void* argument) {
  switch (command) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      return refuse();
    default:
      return reinterpret_cast<Fcntl>(::dlsym(RTLD_NEXT, name))(file, command, argument);
  }
}

void* argument_of(va_list arguments) { return va_arg(arguments, void*); }

}  // namespace

extern "C" {

int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = argument_of(arguments);
  va_end(arguments);
  return control("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = argument_of(arguments);
  va_end(arguments);
  return control("fcntl64", file, command, argument);
}

int flock(int, int) { return refuse(); }
}
