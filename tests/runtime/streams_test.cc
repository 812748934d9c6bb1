// Whose stream a launch is given, and that of another context at an address that was this one's.
#include <doctest/doctest.h>

#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/driver_calls.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::streams_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";

void* make_stream_in(void* context) {
  void* before = nullptr;
  void* stream = nullptr;
  REQUIRE(call_driver("cuCtxGetCurrent", &before) == 0);
  REQUIRE(call_driver("cuCtxSetCurrent", context) == 0);
  REQUIRE(call_driver("cuStreamCreate", &stream, 1U) == 0);
  REQUIRE(call_driver("cuCtxSetCurrent", before) == 0);
  return stream;
}

}  // namespace

TEST_CASE("a stream of another context is refused, also at the address of one of this context") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family("group=4,head_dim=64,page=16");
  const DecodeTensors tensors(kProblem);
  moetune_arguments arguments;
  std::int64_t extents[MOETUNE_MAX_EXTENTS];
  std::size_t count = 0;
  REQUIRE_OK(
      moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments, extents, &count));
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, count, 0, &choice));
  const auto launch = [&](void* stream) { return moetune_launch(family, &choice, &arguments, nullptr, 0, stream); };
  REQUIRE_OK(launch(nullptr));  // makes the device's context current
  void* own_context = nullptr;
  REQUIRE(call_driver("cuCtxGetCurrent", &own_context) == 0);
  int other_context = 0;

  REQUIRE(call_driver("cuCtxSetCurrent", static_cast<void*>(&other_context)) == 0);
  CHECK(launch(nullptr) == MOETUNE_WRONG_DEVICE);
  CHECK(says("the thread's current context is not that of"));
  REQUIRE(call_driver("cuCtxSetCurrent", own_context) == 0);

  void* const foreign = make_stream_in(&other_context);
  void* const own = make_stream_in(own_context);
  CHECK(launch(foreign) == MOETUNE_WRONG_DEVICE);
  CHECK(launch(own) == MOETUNE_OK);
  REQUIRE(call_driver("cuStreamDestroy", own) == 0);
  CHECK(launch(own) == MOETUNE_WRONG_DEVICE);
  void* const again = make_stream_in(&other_context);
  REQUIRE(again == own);
  CHECK(launch(again) == MOETUNE_WRONG_DEVICE);
  CHECK(says("another context"));
  REQUIRE(call_driver("cuStreamDestroy", again) == 0);
  REQUIRE(make_stream_in(own_context) == own);
  CHECK_OK(launch(own));
  CHECK_OK(launch(own));
  REQUIRE(call_driver("cuStreamDestroy", own) == 0);
  REQUIRE(make_stream_in(&other_context) == own);
  CHECK(launch(own) == MOETUNE_WRONG_DEVICE);
  REQUIRE(call_driver("cuStreamDestroy", own) == 0);
  REQUIRE(call_driver("cuStreamDestroy", foreign) == 0);
}

}  // namespace moetune::streams_test
