// Whose stream a launch is given, and that of another context at an address that was this one's.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::streams_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";

// The scripted driver as another library of the server would call it.
template <typename... Arguments>
void call_driver(const char* name, Arguments... arguments) {
  void* const library = ::dlopen(MOETUNE_FAKE_LIBCUDA, RTLD_NOW);
  REQUIRE(library != nullptr);
  using Find = int (*)(const char*, void**, int, unsigned long, void*);
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  REQUIRE((find != nullptr));
  void* symbol = nullptr;
  REQUIRE(find(name, &symbol, 13000, 0, nullptr) == 0);
  REQUIRE(reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...) == 0);
}

void* make_stream_in(void* context) {
  void* before = nullptr;
  void* stream = nullptr;
  call_driver("cuCtxGetCurrent", &before);
  call_driver("cuCtxSetCurrent", context);
  call_driver("cuStreamCreate", &stream, 1U);
  call_driver("cuCtxSetCurrent", before);
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
  REQUIRE_OK(moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments,
                          extents, &count));
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, count, 0, &choice));
  const auto launch = [&](void* stream) {
    return moetune_launch(family, &choice, &arguments, nullptr, 0, stream);
  };
  REQUIRE_OK(launch(nullptr));  // makes the device's context current
  void* own_context = nullptr;
  call_driver("cuCtxGetCurrent", &own_context);
  int other_context = 0;

  void* const foreign = make_stream_in(&other_context);
  void* const own = make_stream_in(own_context);
  CHECK(launch(foreign) == MOETUNE_WRONG_DEVICE);
  CHECK(launch(own) == MOETUNE_OK);
  call_driver("cuStreamDestroy", own);
  CHECK(launch(own) == MOETUNE_WRONG_DEVICE);
  void* const again = make_stream_in(&other_context);
  REQUIRE(again == own);
  CHECK(launch(again) == MOETUNE_WRONG_DEVICE);
  CHECK(says("another context"));
  call_driver("cuStreamDestroy", again);
  REQUIRE(make_stream_in(own_context) == own);
  CHECK_OK(launch(own));
  CHECK_OK(launch(own));
  call_driver("cuStreamDestroy", own);
  REQUIRE(make_stream_in(&other_context) == own);
  CHECK(launch(own) == MOETUNE_WRONG_DEVICE);
  call_driver("cuStreamDestroy", own);
  call_driver("cuStreamDestroy", foreign);
}

}  // namespace moetune::streams_test
