// Callers of other minor versions than the library's: what their structures hold, and where they end.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "include/moetune.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::testing {
namespace {

// Callers are built against these.
static_assert(sizeof(moetune_open_options) == 48 && offsetof(moetune_open_options, trusted_keys) == 32);
static_assert(sizeof(moetune_choice) == 40 && offsetof(moetune_choice, extents) == 8);
static_assert(sizeof(moetune_arguments) == 352 && offsetof(moetune_arguments, integers) == 128 &&
              offsetof(moetune_arguments, reals) == 320);
static_assert(sizeof(moetune_counts) == 56);

// Memory whose last byte is the last that can be read.
class Edge {
 public:
  Edge() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    memory_ =
        static_cast<std::byte*>(::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(::mprotect(memory_ + page_, page_, PROT_NONE) == 0);
  }
  ~Edge() { ::munmap(memory_, 2 * page_); }
  Edge(const Edge&) = delete;

  // A copy of the first `size` bytes, which end where the memory does.
  template <typename Structure>
  Structure* put(const Structure& whole, std::size_t size) {
    std::byte* const place = memory_ + page_ - size;
    std::memcpy(place, &whole, size);
    return reinterpret_cast<Structure*>(place);
  }

 private:
  std::size_t page_;
  std::byte* memory_ = nullptr;
};

struct LaterOptions {
  moetune_open_options known;
  std::uint64_t more = 0;
};

struct LaterCounts {
  moetune_counts known;
  std::uint64_t more = 7;
};

TEST_CASE("options of an older caller are read to their end, and no further") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = "batch=4,q_heads=8,kv_heads=1,context=512,page=16"}});
  const std::string path = (folder / "cache.db").string();
  const char* const paths[] = {path.c_str()};
  Edge edge;
  for (const std::size_t size : {offsetof(moetune_open_options, trusted_keys), sizeof(moetune_open_options)}) {
    const moetune_open_options options{size, paths, 1, 0, 0};
    moetune_runtime* runtime = nullptr;
    REQUIRE_OK(moetune_open(edge.put(options, size), &runtime));
    moetune_close(runtime);
  }
  moetune_runtime* runtime = nullptr;
  const moetune_open_options alone{sizeof(std::size_t), paths, 1, 0, 0};
  CHECK(moetune_open(edge.put(alone, sizeof(std::size_t)), &runtime) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("options.size is 8; set it to sizeof(moetune_open_options)"));
  CHECK(runtime == nullptr);
}

TEST_CASE("a newer caller may set nothing that this library would ignore") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = "batch=4,q_heads=8,kv_heads=1,context=512,page=16"}});
  const std::string path = (folder / "cache.db").string();
  const char* const paths[] = {path.c_str()};
  LaterOptions options{{sizeof(LaterOptions), paths, 1, 0, 0}};
  moetune_runtime* runtime = nullptr;
  REQUIRE_OK(moetune_open(&options.known, &runtime));

  LaterCounts counts{{sizeof(LaterCounts)}};
  REQUIRE_OK(moetune_count(runtime, &counts.known));
  CHECK(counts.known.size == sizeof(moetune_counts));
  CHECK(counts.more == 7);
  counts.known.size = sizeof(moetune_counts) - 1;
  CHECK(moetune_count(runtime, &counts.known) == MOETUNE_INVALID_ARGUMENT);
  moetune_close(runtime);

  runtime = nullptr;
  options.more = std::uint64_t{1} << 63;
  CHECK(moetune_open(&options.known, &runtime) == MOETUNE_UNSUPPORTED);
  CHECK(says("options hold fields of a later moetune"));
  options.known.size = 5000;
  CHECK(moetune_open(&options.known, &runtime) == MOETUNE_INVALID_ARGUMENT);
  CHECK(runtime == nullptr);
}

}  // namespace
}  // namespace moetune::testing
