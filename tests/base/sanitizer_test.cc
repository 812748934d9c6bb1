// ASan's builds instrument the product and not its tests (CMakeLists.txt).
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/ed25519.h"

using namespace moetune;

TEST_CASE("a sanitizer sees the product write past the end of a block") {
  if (::dlsym(RTLD_DEFAULT, "__asan_init") == nullptr) return;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(STDERR_FILENO);
    std::vector<std::uint8_t> bytes(32);
    ::_exit(read_hex(std::string(66, '7'), bytes.data(), 33) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const bool went_on = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK_FALSE(went_on);
}
