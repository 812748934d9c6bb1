// Loading and unloading of cubins as the driver has it: failures of the device, captures beside them, contexts.
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "tests/runtime/driver_calls.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::loading_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";
constexpr int kOutOfMemory = 2, kNoBinary = 209, kCaptureUnsupported = 900;  // of CUresult

class FailingLoads {
 public:
  explicit FailingLoads(int code) { ::setenv("MOETUNE_FAKE_LOAD", std::to_string(code).c_str(), 1); }
  ~FailingLoads() { ::unsetenv("MOETUNE_FAKE_LOAD"); }
};

moetune_status open_family(const Opened& opened) {
  moetune_family* family = nullptr;
  return moetune_family_open(opened.runtime(), "decode_attention", kFamily, &family);
}

void store_another_winner(const Folder& folder) {
  store(folder / "cache.db", {{.problem = kProblem, .config = plain_config(32), .time_us = 5}});
}

}  // namespace

TEST_CASE("a device that cannot load is an error, and no missing result") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  {
    const FailingLoads failing(kOutOfMemory);
    CHECK(open_family(opened) == MOETUNE_OUT_OF_MEMORY);
    CHECK(says("cuModuleLoadData"));
  }
  {
    const FailingLoads failing(kCaptureUnsupported);
    CHECK(open_family(opened) == MOETUNE_CUDA_ERROR);
  }
  {
    const FailingLoads failing(kNoBinary);  // the cubin's own fault
    CHECK(open_family(opened) == MOETUNE_NOT_TUNED);
    CHECK(opened.warnings().find("cuModuleLoadData") != std::string::npos);
  }
  CHECK_OK(open_family(opened));
}

TEST_CASE("a refresh that the device fails leaves the state as it was") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  opened.family(kFamily);
  const std::string before = opened.generation();
  store_another_winner(folder);
  {
    const FailingLoads failing(kCaptureUnsupported);
    CHECK(moetune_refresh(opened.runtime(), nullptr) == MOETUNE_CUDA_ERROR);
    CHECK(opened.generation() == before);
  }
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(opened.generation() != before);
}

TEST_CASE("families load while another thread captures a graph") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  constexpr int kGlobal = 0;
  void *stream = nullptr, *graph = nullptr;
  REQUIRE(call_driver("cuStreamCreate", &stream, 1U) == 0);
  REQUIRE(call_driver("cuStreamBeginCapture", stream, kGlobal) == 0);
  std::thread([&] { CHECK_OK(open_family(opened)); }).join();
  store_another_winner(folder);
  CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(call_driver("cuStreamEndCapture", stream, &graph) == 0);
  CHECK(call_driver("cuGraphDestroy", graph) == 0);
  CHECK(call_driver("cuStreamDestroy", stream) == 0);
}

TEST_CASE("closing unloads, whatever context the thread has") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  fake_device();
  const int before = call_driver("fakeCountModules");
  std::thread([&] {
    const Opened opened({folder / "cache.db"});
    opened.family(kFamily);
    CHECK(call_driver("fakeCountModules") > before);
  }).join();
  CHECK(call_driver("fakeCountModules") == before);
}

TEST_CASE("a runtime says which device it is of") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const std::string path = (folder / "cache.db").string();
  const char* const paths[] = {path.c_str()};
  const moetune_open_options options{sizeof options, paths, 1, -1, 0};
  moetune_runtime* runtime = nullptr;
  REQUIRE_OK(moetune_open(&options, &runtime));
  std::int32_t ordinal = -1;
  CHECK_OK(moetune_device(runtime, &ordinal));
  CHECK(ordinal == 0);
  CHECK(moetune_device(runtime, nullptr) == MOETUNE_INVALID_ARGUMENT);
  moetune_close(runtime);
}

}  // namespace moetune::loading_test
