// moetune.h for C++20: handles that close themselves, spans, and exceptions instead of statuses.
//
// Everything is inline over the C functions, so that a program and the library need not share a compiler or a
// C++ library. The contracts (units, ownership, threads) are those of moetune.h; this file says only what
// differs. A function that the C interface lets fail throws moetune::Error, except for try_pick.
//
//   moetune::Runtime runtime({.paths = {"tuned.db"}});
//   moetune::Family decode = runtime.family("decode_attention", "group=8,head_dim=128,dtype=bf16,page=16");
//   moetune_choice choice = decode.pick({batch, kv_heads, context});
//   decode.launch(choice, arguments, workspace, stream);
#ifndef MOETUNE_HPP_
#define MOETUNE_HPP_

#include <moetune.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace moetune {
inline namespace abi1 {

// A failed call: its sentence, and its status for programs.
class Error : public std::runtime_error {
 public:
  explicit Error(moetune_status status) : std::runtime_error(moetune_last_error()), status_(status) {}
  moetune_status status() const noexcept { return status_; }

 private:
  moetune_status status_;
};

inline void check(moetune_status status) {
  if (status != MOETUNE_OK) throw Error(status);
}

// Free dimensions in the kernel's order, written as {batch, kv_heads, context}.
class Extents {
 public:
  Extents(std::initializer_list<std::int64_t> values) : Extents(std::span(values.begin(), values.size())) {}
  explicit Extents(std::span<const std::int64_t> values) : count_(values.size()) {
    if (count_ > values_.size()) throw std::length_error("more extents than MOETUNE_MAX_EXTENTS");
    for (std::size_t i = 0; i < count_; ++i) values_[i] = values[i];
  }
  const std::int64_t* data() const noexcept { return values_.data(); }
  std::size_t size() const noexcept { return count_; }

 private:
  std::array<std::int64_t, MOETUNE_MAX_EXTENTS> values_{};
  std::size_t count_;
};

// Device memory of the caller's, aligned to 256 bytes; one a stream (moetune.h says what may share one).
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// The arguments that moetune_bind read off the caller's tensors.
struct Bound {
  moetune_arguments arguments{};
  std::array<std::int64_t, MOETUNE_MAX_EXTENTS> extents{};
  std::size_t extent_count = 0;

  Extents capacity() const { return Extents(std::span(extents.data(), extent_count)); }
};

namespace internal {

// A text of unknown length, asked for until the buffer holds it all.
template <typename Read>
std::string read_text(const Read& read) {
  std::string text(1024, '\0');
  for (;;) {
    std::size_t needed = 0;
    check(read(text.data(), text.size(), &needed));
    const bool fits = needed <= text.size();
    text.resize(needed);
    if (!fits) continue;
    if (!text.empty()) text.pop_back();  // the null
    return text;
  }
}

}  // namespace internal

// A family of a Runtime, which owns it. A plain handle, to be copied; valid while its Runtime lives.
class Family {
 public:
  explicit Family(moetune_family* handle) noexcept : handle_(handle) {}

  // Throws Error(MOETUNE_NOT_TUNED) on a miss.
  moetune_choice pick(const Extents& extents, std::int64_t total = 0) const {
    moetune_choice choice;
    check(moetune_pick(handle_, extents.data(), extents.size(), total, &choice));
    return choice;
  }
  // nullopt on a miss; throws for other failures.
  std::optional<moetune_choice> try_pick(const Extents& extents, std::int64_t total = 0) const {
    moetune_choice choice;
    const moetune_status status = moetune_pick(handle_, extents.data(), extents.size(), total, &choice);
    if (status == MOETUNE_NOT_TUNED) return std::nullopt;
    check(status);
    return choice;
  }
  moetune_choice pick_range(const Extents& first, std::int64_t last, std::int64_t total = 0) const {
    moetune_choice choice;
    check(moetune_pick_range(handle_, first.data(), first.size(), last, total, &choice));
    return choice;
  }

  // One JSON object.
  std::string explain(const moetune_choice& choice) const {
    return internal::read_text([&](char* text, std::size_t capacity, std::size_t* needed) {
      return moetune_explain(handle_, &choice, text, capacity, needed);
    });
  }

  std::size_t choice_workspace(const moetune_choice& choice) const {
    std::size_t bytes = 0;
    check(moetune_choice_workspace(handle_, &choice, &bytes));
    return bytes;
  }
  std::size_t family_workspace(const Extents& largest) const {
    std::size_t bytes = 0;
    check(moetune_family_workspace(handle_, largest.data(), largest.size(), &bytes));
    return bytes;
  }

  // Raises what family_workspace promises for these extents; the next refresh picks what needs up to that.
  void offer_workspace(const Extents& largest, std::size_t bytes) const {
    check(moetune_offer_workspace(handle_, largest.data(), largest.size(), bytes));
  }
  // The bytes to offer so that no winner is left out.
  std::size_t wanted_workspace(const Extents& largest) const {
    std::size_t bytes = 0;
    check(moetune_wanted_workspace(handle_, largest.data(), largest.size(), &bytes));
    return bytes;
  }

  Bound bind(std::span<const DLTensor* const> tensors, const char* options = nullptr) const {
    Bound bound;
    check(moetune_bind(handle_, tensors.data(), tensors.size(), options, &bound.arguments, bound.extents.data(),
                       &bound.extent_count));
    return bound;
  }

  void launch(const moetune_choice& choice, const moetune_arguments& arguments, Workspace workspace,
              void* stream) const {
    check(moetune_launch(handle_, &choice, &arguments, workspace.data, workspace.bytes, stream));
  }

  moetune_family* handle() const noexcept { return handle_; }

 private:
  moetune_family* handle_;
};

// The family, the extents and the outputs of a call, by its tensors (moetune_show_call).
inline moetune_shown_call show_call(const std::string& kernel, std::span<const DLTensor* const> tensors,
                                    const std::string& facts = "") {
  moetune_shown_call call{};
  call.size = sizeof call;
  check(moetune_show_call(kernel.c_str(), tensors.data(), tensors.size(), facts.c_str(), &call));
  return call;
}

struct Options {
  std::vector<std::string> paths;  // none: the user's cache, and the packs beside the library
  int device = -1;                 // -1: the calling thread's current context's
  bool allow_recorded = false;
  std::vector<std::string> trusted_keys = {};  // if there is any, packs must be signed by one (moetune_open_options)
};

// Opened results for one device. Moves, does not copy; closes in its destructor (see moetune_close).
class Runtime {
 public:
  explicit Runtime(const Options& options = {}) {
    std::vector<const char*> paths, keys;
    for (const std::string& path : options.paths) paths.push_back(path.c_str());
    for (const std::string& key : options.trusted_keys) keys.push_back(key.c_str());
    const moetune_open_options given{sizeof(moetune_open_options),   paths.data(), paths.size(), options.device,
                                     options.allow_recorded ? 1 : 0, keys.data(),  keys.size()};
    check(moetune_open(&given, &handle_));
  }
  Runtime(Runtime&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Runtime& operator=(Runtime&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Runtime() { moetune_close(handle_); }

  Family family(const std::string& kernel, const std::string& specialization) const {
    moetune_family* family = nullptr;
    check(moetune_family_open(handle_, kernel.c_str(), specialization.c_str(), &family));
    return Family(family);
  }

  void refresh(const std::string& generation = "") const { check(moetune_refresh(handle_, generation.c_str())); }
  // Reads the files and loads what is new, but serves on as before; the name is for refresh().
  std::string prepare() const {
    char text[33];
    check(moetune_prepare(handle_, text));
    return text;
  }
  int device() const {
    std::int32_t ordinal = 0;
    check(moetune_device(handle_, &ordinal));
    return ordinal;
  }
  std::string generation() const {
    char text[33];
    check(moetune_generation(handle_, text));
    return text;
  }
  // A line each; "" if there is nothing to warn of.
  std::string warnings() const {
    return internal::read_text([&](char* text, std::size_t capacity, std::size_t* needed) {
      return moetune_warnings(handle_, text, capacity, needed);
    });
  }

  void init_workspace(Workspace workspace, void* stream) const {
    check(moetune_workspace_init(handle_, workspace.data, workspace.bytes, stream));
  }

  moetune_counts counts() const {
    moetune_counts counts{};
    counts.size = sizeof(counts);
    check(moetune_count(handle_, &counts));
    return counts;
  }
  void write_misses(const std::string& path) const { check(moetune_write_misses(handle_, path.c_str())); }

  moetune_runtime* handle() const noexcept { return handle_; }

 private:
  moetune_runtime* handle_ = nullptr;
};

}  // namespace abi1
}  // namespace moetune

#endif  // MOETUNE_HPP_
