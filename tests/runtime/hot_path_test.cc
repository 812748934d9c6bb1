// pick and launch, from the first on, ask neither the allocator nor the driver nor the kernel for anything.
#include <doctest/doctest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <vector>

#include "tests/paths.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/driver_calls.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"
#include "tests/texts.h"

using namespace moetune;
using namespace moetune::testing;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which allocate and call on their own
namespace {
thread_local std::uint64_t allocations = 0;
}

// Of all C++ code in this program, the runtime's included. The compiler takes malloc for another's memory.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";

// One launch without scratch, and two that wait for their workspace's turn.
const std::string kConfigs[] = {
    plain_config(32),
    "body=mma,math=mma16,schedule=grid,residents=0,tile=32,warps=2,stages=2,producers=0,row_tiles=1,query=shared,"
    "l2=evict_first,splits=4,combine=kernel,ahead=0"};

class Server {
 public:
  explicit Server(const std::string& config) : tensors_(kProblem), workspace_(std::size_t{2} << 20) {
    store(folder_ / "cache.db", {{.problem = kProblem, .config = config}});
    opened_ = std::make_unique<Opened>(std::vector{folder_ / "cache.db"});
    family_ = opened_->family("group=4,head_dim=64,page=16");
    std::fill_n(static_cast<std::int32_t*>(tensors_.tensor(MOETUNE_DECODE_LENGTHS).data), 2, 0);
    std::int64_t extents[MOETUNE_MAX_EXTENTS];
    std::size_t count = 0;
    REQUIRE_OK(moetune_bind(family_, tensors_.tensors().data(), tensors_.tensors().size(), nullptr, &arguments_,
                            extents, &count));
  }

  bool has_scratch() const {
    const std::int64_t wanted[] = {2, 1, 64};
    moetune_choice choice;
    std::size_t bytes = 0;
    REQUIRE_OK(moetune_pick(family_, wanted, 3, 0, &choice));
    REQUIRE_OK(moetune_choice_workspace(family_, &choice, &bytes));
    return bytes > MOETUNE_WORKSPACE_COUNTERS;
  }

  // A step at a context that was never seen: a pick, and a launch that binds anew at every 100th.
  bool step(std::int64_t number) {
    const std::int64_t wanted[] = {2, 1, 1 + number % 64};
    moetune_choice choice;
    if (moetune_pick(family_, wanted, 3, 0, &choice) != MOETUNE_OK) return false;
    arguments_.reals[MOETUNE_DECODE_SCALE] = 0.1 + static_cast<double>(number / 100);
    void* workspace = workspace_.data();
    std::size_t bytes = workspace_.size();
    return std::align(256, bytes - 256, workspace, bytes) != nullptr &&
           moetune_launch(family_, &choice, &arguments_, workspace, bytes, nullptr) == MOETUNE_OK;
  }

 private:
  const Folder folder_;
  DecodeTensors tensors_;
  std::vector<std::uint8_t> workspace_;
  std::unique_ptr<Opened> opened_;
  moetune_family* family_ = nullptr;
  moetune_arguments arguments_{};
};

}  // namespace

TEST_CASE("from the first on, picks and launches load and synchronize nothing") {
  for (const std::string& config : kConfigs) {
    Server server(config);
    CHECK(server.has_scratch() == (config != kConfigs[0]));
    const int before = call_driver("fakeCountSlowCalls"), modules = call_driver("fakeCountModules");
    bool right = true;
    for (int i = 0; i < 10; ++i) right = server.step(i) && right;
    CHECK(right);
    CHECK(call_driver("fakeCountSlowCalls") == before);
    CHECK(call_driver("fakeCountModules") == modules);
    CHECK(before > modules);  // they are counted
  }
}

TEST_CASE("from the first on, picks and launches allocate nothing") {
  for (const std::string& config : kConfigs) {
    Server server(config);
    const std::uint64_t before = allocations;
    bool right = true;
    for (int i = 0; i < 1000; ++i) right = server.step(i) && right;
    const std::uint64_t made = allocations - before;
    CHECK(right);
    CHECK(made == 0);
    CHECK(before > 0);  // they are counted
  }
}

// In a process of its own: a profiler is looked for once.
TEST_CASE("a profiler hears each launch by its kernel's name") {
  if (std::getenv("MOETUNE_FAKE_NVTX") != nullptr) {
    Server server(kConfigs[0]);
    CHECK(server.step(1));
    CHECK(server.step(2));
    return;
  }
  const Folder folder;
  const std::string heard = (folder / "heard").string();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string("NVTX_INJECTION64_PATH='") + paths::fake_nvtx() + "' MOETUNE_FAKE_NVTX='" +
                              heard + "' '" + self + "' -tc='a profiler hears each launch*' >/dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(read_text(heard) == "push decode_attention\npop\npush decode_attention\npop\n");
}

TEST_CASE("picking and launching make no system call, of files or others") {
  std::vector<std::unique_ptr<Server>> servers;
  for (const std::string& config : kConfigs) servers.push_back(std::make_unique<Server>(config));
  const auto run_strictly = [&](bool open_a_file) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) ::_exit(77);
      bool right = true;  // from here any call but read, write and exit is death
      for (int i = 0; i < 2000; ++i) right = servers[i % 2]->step(i / 2) && right;
      if (open_a_file) ::syscall(SYS_openat, -100, "/dev/null", 0);
      ::syscall(SYS_exit, right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  };
  const int status = run_strictly(false);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("SKIPPED: this machine has no seccomp");
    return;
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(WIFSIGNALED(run_strictly(true)));  // the guard works
}
#endif
