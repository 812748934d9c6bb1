// What a careless server passes through include/moetune.h: a status and a sentence come back, never a crash, and what
// failed has changed nothing. Addresses of tensors are the one thing that is never made up: they are dereferenced on
// the device, not by the library (MOETUNE_FAKE_CUDA=idle launches without touching them).
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "include/moetune.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"

namespace moetune::fuzz {
namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

// Reads decisions from the input; zeros once it has ended.
class Decisions {
 public:
  explicit Decisions(const std::string& input) : input_(input) {}

  bool at_end() const { return at_ >= input_.size(); }
  std::uint8_t byte() { return at_end() ? 0 : static_cast<std::uint8_t>(input_[at_++]); }

  std::int64_t number() {
    static constexpr std::int64_t kOdd[] = {0,
                                            1,
                                            -1,
                                            2,
                                            3,
                                            16,
                                            63,
                                            64,
                                            65,
                                            1 << 20,
                                            INT32_MAX,
                                            INT64_MAX,
                                            INT64_MIN,
                                            std::int64_t{1} << 32,
                                            std::int64_t{1} << 62,
                                            -16};
    const std::uint8_t kind = byte();
    if (kind < 128) return kOdd[kind % std::size(kOdd)];
    std::int64_t value = 0;
    for (int i = 0; i < kind % 9; ++i)
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | byte());
    return value;
  }

  double real() {
    static constexpr double kOdd[] = {0, 1, -1, 1e308, -1e-308};
    const std::uint8_t kind = byte();
    return kind < 200 ? kOdd[kind % std::size(kOdd)] : kind % 2 == 0 ? __builtin_nan("") : __builtin_inf();
  }

  std::string text() {
    static const char* const kUsual[] = {"decode_attention",
                                         kFamily,
                                         "",
                                         "layout=tokens_first",
                                         "scale=0.5",
                                         "decode_kernel",
                                         "0123456789abcdef0123456789abcdef",
                                         "/nonexistent/file"};
    std::string text = kUsual[byte() % std::size(kUsual)];
    for (int i = byte() % 4; i > 0; --i) {
      const std::size_t at = byte() % (text.size() + 1);
      text.insert(at, 1 + byte() % 3, static_cast<char>(byte()));
    }
    return text;
  }

 private:
  const std::string& input_;
  std::size_t at_ = 0;
};

class InterfaceTarget : public Target {
 public:
  explicit InterfaceTarget(const Folder& folder) : folder_(folder), tensors_(kProblem) {
    ::setenv("MOETUNE_FAKE_CUDA", "idle", 1);
    testing::store(folder / "cache.db", {{kProblem}});
    open((folder / "cache.db").string());
    require_ok(moetune_family_open(runtime_, "decode_attention", kFamily, &family_));
    require_ok(moetune_bind(family_, tensors_.tensors().data(), tensors_.tensors().size(), nullptr, &bound_,
                            extents_, &count_));
    require_ok(moetune_pick(family_, extents_, count_, 0, &choice_));
    require_ok(moetune_launch(family_, &choice_, &bound_, nullptr, 0, nullptr));
  }
  ~InterfaceTarget() override { moetune_close(runtime_); }

  std::string make(Random& random) override {
    std::string input(8 + random.below(64), '\0');
    for (char& byte : input) byte = static_cast<char>(random.below(256));
    return input;
  }

  void run(const std::string& input) override {
    Decisions decisions(input);
    while (!decisions.at_end()) step(decisions);
    require_ok(
        moetune_launch(family_, &choice_, &bound_, nullptr, 0, nullptr));  // and the next good call works
  }

 private:
  void open(const std::string& path) {
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    require_ok(moetune_open(&options, &runtime_));
  }

  static void require_ok(moetune_status status) {
    if (status != MOETUNE_OK) throw Finding(std::string("a good call fails: ") + moetune_last_error());
  }

  // A status that may come back from a call with any values.
  static bool checked(moetune_status status) {
    const std::string why = moetune_last_error();
    if (status == MOETUNE_INTERNAL) throw Finding("a bug in the library: " + why);
    if (status < MOETUNE_OK || status > MOETUNE_INTERNAL) throw Finding("a status that there is not");
    if (status != MOETUNE_OK && why.empty()) throw Finding("a failure without a sentence");
    return status == MOETUNE_OK;
  }

  // A failing call leaves what it would have written.
  template <typename Type, typename Call>
  static void untouched(Type& out, const Call& call) {
    Type before;
    std::memcpy(&before, &out, sizeof out);
    if (!checked(call()) && std::memcmp(&before, &out, sizeof out) != 0)
      throw Finding("a call that failed has changed its result");
  }

  void step(Decisions& decisions) {
    switch (decisions.byte() % 24) {
      case 0:
        return pick(decisions);
      case 1:
      case 8:
      case 9:
      case 10:
        return bind(decisions);
      case 2:
      case 3:
      case 11:
      case 12:
      case 13:
      case 14:
        return launch(decisions);
      case 4:
        return workspaces(decisions);
      case 5:
        return texts(decisions);
      case 6:
        return names(decisions);
      case 7:
        return options(decisions);
      default:
        return pick(decisions);
    }
  }

  void pick(Decisions& decisions) {
    std::int64_t extents[MOETUNE_MAX_EXTENTS] = {};
    for (std::int64_t& extent : extents)
      extent = decisions.byte() % 2 == 0 ? decisions.number() : 1 + decisions.byte();
    const std::size_t count = decisions.byte() % 4 == 0 ? static_cast<std::size_t>(decisions.number()) : 3;
    const std::int64_t* const given = decisions.byte() % 16 == 0 ? nullptr : extents;
    const std::int64_t last = decisions.number(), total = decisions.number();
    moetune_choice choice{};
    untouched(choice, [&] { return moetune_pick(family_, given, count, last, &choice); });
    untouched(choice, [&] { return moetune_pick_range(family_, given, count, last, total, &choice); });
    checked(moetune_pick(family_, given, count, last, nullptr));
    std::size_t bytes = 0;
    untouched(bytes, [&] { return moetune_family_workspace(family_, given, count, &bytes); });
  }

  // Tensors as a caller may describe them: wrong shapes, strides, types and devices at right addresses.
  void bind(Decisions& decisions) {
    std::array<DLTensor, MOETUNE_MAX_TENSORS> tensors;
    std::array<std::array<std::int64_t, 8>, 2 * MOETUNE_MAX_TENSORS> numbers{};
    std::array<const DLTensor*, MOETUNE_MAX_TENSORS> pointers{};
    const auto& good = tensors_.tensors();
    for (std::size_t i = 0; i < good.size(); ++i) {
      if (good[i] == nullptr || decisions.byte() % 16 == 0) continue;
      DLTensor& tensor = tensors[i] = *good[i];
      pointers[i] = &tensor;
      std::copy_n(tensor.shape, tensor.ndim, numbers[2 * i].begin());
      tensor.shape = numbers[2 * i].data();
      if (decisions.byte() % 2 == 0) continue;
      alter(tensor, numbers[2 * i], numbers[2 * i + 1], decisions);
    }
    const std::size_t count = decisions.byte() % 8 == 0 ? decisions.byte() % 40 : good.size();
    const std::string text = decisions.byte() % 2 == 0 ? "" : decisions.text();
    moetune_arguments arguments = bound_;
    std::int64_t extents[MOETUNE_MAX_EXTENTS] = {};
    std::size_t found = 0;
    std::size_t* const out = decisions.byte() % 16 == 0 ? nullptr : &found;
    untouched(arguments, [&] {
      return moetune_bind(family_, pointers.data(), std::min<std::size_t>(count, pointers.size()),
                          text.c_str(), &arguments, extents, out);
    });
    moetune_choice choice{};
    if (found > 0 && checked(moetune_pick(family_, extents, found, 0, &choice)))
      checked(moetune_launch(family_, &choice, &arguments, nullptr, 0, nullptr));
  }

  static void alter(DLTensor& tensor, std::array<std::int64_t, 8>& shape,
                    std::array<std::int64_t, 8>& strides, Decisions& decisions) {
    switch (decisions.byte() % 8) {
      case 0:
        tensor.device_type = static_cast<std::int32_t>(decisions.number());
        break;
      case 1:
        tensor.ndim = static_cast<std::int32_t>(decisions.number() % 9);
        break;
      case 2:
        tensor.code = decisions.byte();
        tensor.bits = decisions.byte();
        break;
      case 3:
        tensor.byte_offset = static_cast<std::uint64_t>(decisions.number());
        break;
      case 4:
        tensor.data = nullptr;
        break;
      case 5:
        for (std::int64_t& stride : strides) stride = decisions.number();
        tensor.strides = strides.data();
        break;
      default:
        shape[decisions.byte() % 4] = decisions.number();
    }
  }

  void launch(Decisions& decisions) {
    moetune_arguments arguments = bound_;
    for (int changes = decisions.byte() % 4; changes > 0; --changes) {
      arguments.integers[decisions.byte() % MOETUNE_MAX_INTEGERS] = decisions.number();
      if (decisions.byte() % 8 == 0) arguments.tensors[decisions.byte() % MOETUNE_MAX_TENSORS] = nullptr;
      if (decisions.byte() % 8 == 0) arguments.reals[decisions.byte() % MOETUNE_MAX_REALS] = decisions.real();
    }
    moetune_choice choice = any_choice(decisions);
    alignas(256) static char workspace[2 << 20];
    const auto bytes = static_cast<std::size_t>(decisions.byte() % 2 == 0 ? 0 : decisions.number());
    void* const given = decisions.byte() % 2 == 0 ? nullptr : workspace + decisions.byte() % 3;
    checked(moetune_launch(family_, &choice, &arguments, given, std::min(bytes, sizeof workspace), nullptr));
  }

  moetune_choice any_choice(Decisions& decisions) const {
    moetune_choice choice = choice_;
    if (decisions.byte() % 4 == 0) choice.entry = static_cast<std::uint32_t>(decisions.number());
    if (decisions.byte() % 4 == 0) choice.kind = static_cast<std::uint32_t>(decisions.number());
    if (decisions.byte() % 4 == 0)
      choice.extents[decisions.byte() % MOETUNE_MAX_EXTENTS] = decisions.number();
    return choice;
  }

  void workspaces(Decisions& decisions) {
    const moetune_choice choice = any_choice(decisions);
    std::size_t bytes = 0;
    untouched(bytes, [&] { return moetune_choice_workspace(family_, &choice, &bytes); });
    alignas(256) static char workspace[MOETUNE_WORKSPACE_COUNTERS + 256];
    const auto given = static_cast<std::size_t>(decisions.number());
    checked(moetune_workspace_init(runtime_, workspace + decisions.byte() % 2,
                                   std::min(given, sizeof workspace - 1), nullptr));
  }

  void texts(Decisions& decisions) {
    const moetune_choice choice = any_choice(decisions);
    char text[256];
    const std::size_t capacity = decisions.byte();
    std::size_t needed = 0;
    checked(moetune_explain(family_, &choice, capacity == 7 ? nullptr : text, capacity, &needed));
    checked(moetune_warnings(runtime_, capacity == 9 ? nullptr : text, capacity, &needed));
    if (capacity > 0 && std::find(text, text + sizeof text, '\0') == text + sizeof text)
      std::fill(std::begin(text), std::end(text), '\0');
    moetune_status_name(static_cast<moetune_status>(decisions.byte()));
  }

  void names(Decisions& decisions) {
    const std::string kernel = decisions.text(), specialization = decisions.text();
    moetune_family* family = nullptr;
    untouched(family,
              [&] { return moetune_family_open(runtime_, kernel.c_str(), specialization.c_str(), &family); });
    checked(moetune_refresh(runtime_, decisions.text().c_str()));
    if (decisions.byte() % 64 == 0)  // all picks so far, and they are many
      checked(moetune_write_misses(runtime_, (folder_ / "misses.json").c_str()));
  }

  void options(Decisions& decisions) {
    // As much memory as any size that is not refused unread states: fields of later versions.
    struct {
      moetune_open_options options;
      std::uint8_t more[4096];
    } given{};
    moetune_open_options& options = given.options;
    options = {sizeof options, nullptr, 1, static_cast<std::int32_t>(decisions.number()), 0};
    const std::string path = decisions.byte() % 2 == 0 ? (folder_ / "cache.db").string() : decisions.text();
    const char* const paths[] = {decisions.byte() % 8 == 0 ? nullptr : path.c_str()};
    if (decisions.byte() % 8 > 0) options.paths = paths;
    if (decisions.byte() % 8 == 0) options.size = static_cast<std::size_t>(decisions.number());
    if (decisions.byte() % 8 == 0) given.more[decisions.byte()] = decisions.byte();
    moetune_runtime* runtime = nullptr;
    untouched(runtime, [&] { return moetune_open(&options, &runtime); });
    moetune_close(runtime);
    moetune_counts counts{};
    counts.size = decisions.byte() % 2 == 0 ? sizeof counts : static_cast<std::size_t>(decisions.number());
    untouched(counts, [&] { return moetune_count(runtime_, &counts); });
  }

  const Folder folder_;
  testing::DecodeTensors tensors_;
  moetune_runtime* runtime_ = nullptr;
  moetune_family* family_ = nullptr;
  moetune_arguments bound_{};
  std::int64_t extents_[MOETUNE_MAX_EXTENTS]{};
  std::size_t count_ = 0;
  moetune_choice choice_{};
};

}  // namespace

std::unique_ptr<Target> interface_target(const Folder& folder) {
  return std::make_unique<InterfaceTarget>(folder);
}

}  // namespace moetune::fuzz
