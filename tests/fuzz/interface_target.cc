// What a careless server passes through include/moetune.h: a status and a sentence come back, never a crash, and what
// failed has changed nothing. Addresses of tensors are the one thing that is never made up: they are dereferenced on
// the device, not by the library (MOETUNE_FAKE_CUDA=idle launches without touching them).
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <span>

#include "include/moetune.h"
#include "tests/fuzz/interface_tensors.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/fake_cache.h"

namespace moetune::fuzz {
namespace {

constexpr const char* kFamily = "group=4,head_dim=64,page=16";

// A small problem of every kernel that a server launches.
struct Sample {
  const char* kernel;
  const char* problem;
  const char* config;  // "": the one that the scripted driver knows
  InterfaceTensors::LastDimensions last;
};

std::vector<Sample> samples() {
  return {{"decode_attention",
           "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16",
           "plain",
           {{"q", {4, 64}}, {"o", {4, 64}}, {"k", {1, 16, 64}}, {"v", {1, 16, 64}}, {"page_table", {6}}}},
          {"prefill_attention",
           "batch=3,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=50,layout=nhd,lse=natural",
           "",
           {{"q", {4, 64}}, {"o", {4, 64}}, {"k", {2, 64}}, {"v", {2, 64}}, {"lse", {4}}}},
          {"router", "tokens=8,experts=32,top_k=4", "", {{"logits", {32}}}},
          {"route_plan", "tokens=8,experts=32,top_k=4,map=local", "", {{"ids", {4}}}},
          {"moe_dispatch", "tokens=8,experts=32,top_k=4,hidden=256", "", {{"x", {256}}, {"rows", {256}}}},
          {"moe_combine", "tokens=8,experts=32,top_k=4,hidden=256", "", {{"rows", {256}}, {"out", {256}}}},
          {"moe_experts",
           "tokens=8,experts=8,top_k=2,hidden=64,intermediate=32",
           "",
           {{"x", {64}}, {"w_gate_up", {64, 64}}, {"w_down", {64, 32}}, {"out", {64}}}}};
}

// A family that was opened, and a call of it that succeeds.
struct Subject {
  explicit Subject(const Sample& sample)
      : kernel(find_kernel(sample.kernel)), problem(kernel.parse(sample.problem)), tensors(problem, sample.last) {}

  const Kernel& kernel;
  const Problem problem;
  const InterfaceTensors tensors;
  moetune_family* family = nullptr;
  moetune_arguments bound{};
  std::int64_t extents[MOETUNE_MAX_EXTENTS]{};
  std::size_t count = 0;
  moetune_choice choice{};
};

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
    static const char* const kUsual[] = {
        "decode_attention",    "prefill_attention", "router",        "moe_dispatch",
        "moe_combine",         "moe_experts",       kFamily,         "",
        "layout=tokens_first", "scale=0.5",         "decode_kernel", "0123456789abcdef0123456789abcdef",
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
  explicit InterfaceTarget(const Folder& folder) : folder_(folder) {
    ::setenv("MOETUNE_FAKE_CUDA", "idle", 1);
    for (const Sample& sample : samples()) {
      const std::string config = *sample.config == '\0' ? "" : testing::plain_config();
      testing::store(folder / "cache.db", {{.problem = sample.problem, .config = config, .kernel = sample.kernel}});
      subjects_.emplace_back(sample);
    }
    open((folder / "cache.db").string());
    for (Subject& one : subjects_) {
      const std::string family = one.kernel.specialization(one.problem).text();
      require_ok(moetune_family_open(runtime_, one.kernel.name().c_str(), family.c_str(), &one.family));
      const std::vector<const DLTensor*>& tensors = one.tensors.tensors();
      require_ok(
          moetune_bind(one.family, tensors.data(), tensors.size(), nullptr, &one.bound, one.extents, &one.count));
      require_ok(moetune_pick(one.family, one.extents, one.count, 0, &one.choice));
      std::size_t bytes = 0;
      require_ok(moetune_choice_workspace(one.family, &one.choice, &bytes));
      if (bytes > sizeof workspace_) throw Finding("a small problem needs a workspace that is not small");
      require_good_launch(one);
    }
  }
  ~InterfaceTarget() override { moetune_close(runtime_); }

  std::string make(Random& random) override {
    std::string input(8 + random.below(64), '\0');
    for (char& byte : input) byte = static_cast<char>(random.below(256));
    return input;
  }

  void run(const std::string& input) override {
    Decisions decisions(input);
    subject_ = &subjects_[decisions.byte() % subjects_.size()];
    while (!decisions.at_end()) step(decisions);
    require_good_launch(*subject_);  // the next good call works
  }

 private:
  void open(const std::string& path) {
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    require_ok(moetune_open(&options, &runtime_));
  }

  void require_good_launch(const Subject& one) {
    require_ok(moetune_launch(one.family, &one.choice, &one.bound, workspace_, sizeof workspace_, nullptr));
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
    using Step = void (InterfaceTarget::*)(Decisions&);
    using Own = InterfaceTarget;
    static constexpr Step kSteps[] = {&Own::pick,  &Own::bind,   &Own::launch,  &Own::launch, &Own::workspaces,
                                      &Own::texts, &Own::names,  &Own::options, &Own::bind,   &Own::bind,
                                      &Own::bind,  &Own::launch, &Own::launch,  &Own::launch, &Own::launch};
    const std::size_t drawn = decisions.byte() % 24;
    (this->*kSteps[drawn < std::size(kSteps) ? drawn : 0])(decisions);
  }

  void pick(Decisions& decisions) {
    std::int64_t extents[MOETUNE_MAX_EXTENTS] = {};
    for (std::int64_t& extent : extents) extent = decisions.byte() % 2 == 0 ? decisions.number() : 1 + decisions.byte();
    const std::size_t count =
        decisions.byte() % 4 == 0 ? static_cast<std::size_t>(decisions.number()) : subject_->count;
    const std::int64_t* const given = decisions.byte() % 16 == 0 ? nullptr : extents;
    const std::int64_t last = decisions.number(), total = decisions.number();
    moetune_choice choice{};
    untouched(choice, [&] { return moetune_pick(subject_->family, given, count, last, &choice); });
    untouched(choice, [&] { return moetune_pick_range(subject_->family, given, count, last, total, &choice); });
    checked(moetune_pick(subject_->family, given, count, last, nullptr));
    std::size_t bytes = 0;
    untouched(bytes, [&] { return moetune_wanted_workspace(subject_->family, given, count, &bytes); });
    if (decisions.byte() % 2 == 0)
      checked(moetune_offer_workspace(subject_->family, given, count, static_cast<std::size_t>(total)));
    untouched(bytes, [&] { return moetune_family_workspace(subject_->family, given, count, &bytes); });
  }

  // Tensors as a caller may describe them: wrong shapes, strides, types and devices at right addresses.
  void bind(Decisions& decisions) {
    std::array<DLTensor, MOETUNE_MAX_TENSORS> tensors;
    std::array<std::array<std::int64_t, 8>, 2 * MOETUNE_MAX_TENSORS> numbers{};
    std::array<const DLTensor*, MOETUNE_MAX_TENSORS> pointers{};
    const auto& good = subject_->tensors.tensors();
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
    moetune_arguments arguments = subject_->bound;
    std::int64_t extents[MOETUNE_MAX_EXTENTS] = {};
    std::size_t found = 0;
    std::size_t* const out = decisions.byte() % 16 == 0 ? nullptr : &found;
    untouched(arguments, [&] {
      return moetune_bind(subject_->family, pointers.data(), std::min<std::size_t>(count, pointers.size()),
                          text.c_str(), &arguments, extents, out);
    });
    moetune_choice choice{};
    if (found > 0 && checked(moetune_pick(subject_->family, extents, found, 0, &choice)))
      checked(moetune_launch(subject_->family, &choice, &arguments, workspace_, sizeof workspace_, nullptr));
  }

  static void alter(DLTensor& tensor, std::array<std::int64_t, 8>& shape, std::array<std::int64_t, 8>& strides,
                    Decisions& decisions) {
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
    moetune_arguments arguments = subject_->bound;
    for (int changes = decisions.byte() % 4; changes > 0; --changes) {
      arguments.integers[decisions.byte() % MOETUNE_MAX_INTEGERS] = decisions.number();
      if (decisions.byte() % 8 == 0) arguments.tensors[decisions.byte() % MOETUNE_MAX_TENSORS] = nullptr;
      if (decisions.byte() % 8 == 0) arguments.reals[decisions.byte() % MOETUNE_MAX_REALS] = decisions.real();
    }
    moetune_choice choice = any_choice(decisions);
    const auto bytes = static_cast<std::size_t>(decisions.byte() % 2 == 0 ? 0 : decisions.number());
    void* const given = decisions.byte() % 2 == 0 ? nullptr : workspace_ + decisions.byte() % 3;
    checked(moetune_launch(subject_->family, &choice, &arguments, given, std::min(bytes, sizeof workspace_), nullptr));
  }

  moetune_choice any_choice(Decisions& decisions) const {
    moetune_choice choice = subject_->choice;
    if (decisions.byte() % 4 == 0) choice.entry = static_cast<std::uint32_t>(decisions.number());
    if (decisions.byte() % 4 == 0) choice.kind = static_cast<std::uint32_t>(decisions.number());
    if (decisions.byte() % 4 == 0) choice.extents[decisions.byte() % MOETUNE_MAX_EXTENTS] = decisions.number();
    return choice;
  }

  void workspaces(Decisions& decisions) {
    const moetune_choice choice = any_choice(decisions);
    std::size_t bytes = 0;
    untouched(bytes, [&] { return moetune_choice_workspace(subject_->family, &choice, &bytes); });
    const auto given = static_cast<std::size_t>(decisions.number());
    checked(moetune_workspace_init(runtime_, workspace_ + decisions.byte() % 2, std::min(given, sizeof workspace_ - 1),
                                   nullptr));
  }

  void texts(Decisions& decisions) {
    const moetune_choice choice = any_choice(decisions);
    char text[256];
    const std::size_t capacity = decisions.byte();
    std::size_t needed = 0;
    checked(moetune_explain(subject_->family, &choice, capacity == 7 ? nullptr : text, capacity, &needed));
    checked(moetune_warnings(runtime_, capacity == 9 ? nullptr : text, capacity, &needed));
    if (capacity > 0 && std::find(text, text + sizeof text, '\0') == text + sizeof text)
      std::fill(std::begin(text), std::end(text), '\0');
    moetune_status_name(static_cast<moetune_status>(decisions.byte()));
  }

  void names(Decisions& decisions) {
    const std::string kernel = decisions.text(), specialization = decisions.text();
    moetune_family* family = nullptr;
    untouched(family, [&] { return moetune_family_open(runtime_, kernel.c_str(), specialization.c_str(), &family); });
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
  moetune_runtime* runtime_ = nullptr;
  std::deque<Subject> subjects_;
  Subject* subject_ = nullptr;  // of the present input
  alignas(256) static inline char workspace_[8 << 20];
};

}  // namespace

std::unique_ptr<Target> interface_target(const Folder& folder) { return std::make_unique<InterfaceTarget>(folder); }

}  // namespace moetune::fuzz
