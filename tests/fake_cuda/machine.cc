#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "kernels/buffer.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tuner/worker/canary.h"

namespace fake_cuda {
namespace {

const std::map<std::string, std::size_t> kParameters = {{"moetune_fill", 7},
                                                        {"moetune_fill_zipf", 7},
                                                        {"moetune_fill_list", 4},
                                                        {"moetune_shift_columns", 5},
                                                        {"moetune_poison", 4},
                                                        {"moetune_widen", 4},
                                                        {"moetune_compare", 5},
                                                        {"moetune_compare_integers", 8},
                                                        {"moetune_compare_segments", 8},
                                                        {"moetune_hold", 3},
                                                        {"moetune_produce", 2},
                                                        {"moetune_canary", 3},
                                                        {"moetune_tick", 2},
                                                        {"moetune_wipe_shared", 1},
                                                        {"moetune_check_guards", 7},
                                                        {"moetune_checksum", 3},
                                                        {"moetune_copy_answer", 3},
                                                        {"moetune_round_answer", 4},
                                                        {"double", 3},
                                                        {"ids", 3},
                                                        {"accumulate", 3},
                                                        {"decode_attention", 29},
                                                        {"decode_attention_combine", 11},
                                                        {"prefill_attention_combine", 11},
                                                        {"mla_decode_combine", 11},
                                                        {"mla_decode_combine_spans", 8},
                                                        {"router_place", 12},
                                                        {"decode_kernel", 5},
                                                        {"decode_kernel_reference", 5}};

constexpr std::int64_t kWearsAfter = 10;
constexpr std::uint64_t kGuardBytes = 64 << 10;  // behind every buffer; tuner/worker/harness.cc has it too
constexpr std::uint64_t kManyElements = 1024;    // fewer lie within what a buffer is rounded up to
constexpr double kGapUs = 1000;
constexpr double kHighestMhz = 1000;  // as devices.cc says

}  // namespace

Script::Script() {
  const char* text = std::getenv("MOETUNE_FAKE_CUDA");
  std::istringstream in(text != nullptr ? text : "");
  for (std::string directive; std::getline(in, directive, ',');) {
    const std::size_t equals = directive.find('=');
    values_[directive.substr(0, equals)] = equals == std::string::npos ? "" : directive.substr(equals + 1);
  }
}

std::string Script::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : "";
}

std::int64_t Script::number(const std::string& name, std::int64_t default_value) const {
  return has(name) ? std::stoll(text(name)) : default_value;
}

Kernel Kernel::named(const std::string& entry) {
  Kernel kernel;
  std::size_t at = entry.find("__");
  kernel.base = entry.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t next = entry.find("__", at + 2);
    kernel.suffixes.push_back(entry.substr(at + 2, next == std::string::npos ? next : next - at - 2));
    at = next;
  }
  const auto known = kParameters.find(kernel.base);
  if (known != kParameters.end()) kernel.parameters = known->second;
  if (kernel.base == "prefill_attention") kernel.parameters = prefill_parameters("");
  if (const std::size_t count = latent_parameters(kernel.base); count > 0) kernel.parameters = count;
  if (kernel.base == "kv_transfer") kernel.parameters = transfer_parameters();
  if (has_reference(kernel.base)) kernel.parameters = reference_parameters(kernel.base);
  if (const std::size_t count = experts_parameters(kernel.base); count > 0) kernel.parameters = count;
  return kernel;
}

bool Kernel::is(const std::string& suffix) const {
  for (const std::string& mine : suffixes) {
    if (mine == suffix) return true;
  }
  return false;
}

std::int64_t Kernel::number_of(const std::string& suffix, std::int64_t default_value) const {
  for (const std::string& mine : suffixes) {
    if (mine.starts_with(suffix) && mine.size() > suffix.size()) return std::stoll(mine.substr(suffix.size()));
  }
  return default_value;
}

int Kernel::refusal() const { return is("oom") ? 2 : static_cast<int>(number_of("refuse", 0)); }

void Machine::run(const Kernel& kernel, const Parameters& parameters, const Grid& grid) {
  if (kernel.base == "moetune_hold") return hold(parameters);
  if (kernel.base == "moetune_produce") return produce(parameters);
  if (kernel.base == "moetune_canary") return canary(parameters, grid[0]);
  if (kernel.base == "moetune_tick") return tick(parameters);
  if (kernel.base == "moetune_wipe_shared") return;
  if (run_harness(kernel.base, parameters, grid[0])) {
    clock_us += script.has("links");  // a microsecond
    return;
  }
  ++candidate_launches;
  if (is_gone()) {
    sticky = 46;  // CUDA_ERROR_DEVICE_UNAVAILABLE
    return;
  }
  clock_us += std::exchange(gap_us, 0);
  if (candidate_launches >= script.number("fail_at", std::numeric_limits<std::int64_t>::max())) {
    sticky = static_cast<int>(script.number("code", 719));
    return;
  }
  const double begin_us = clock_us;
  if (!parameters.empty() && !produced.contains(parameters[0]))
    clock_us += static_cast<double>(script.number("unproduced", 0));
  produced.clear();
  if (script.has("idle")) {
    clock_us += 10;
  } else if (kernel.base == "decode_attention") {
    attend(kernel, parameters, grid);
  } else if (kernel.base == "prefill_attention") {
    attend_new_tokens(kernel, parameters);
  } else if (latent_parameters(kernel.base) > 0) {
    attend_latent(kernel, parameters, grid);
  } else if (kernel.base == "kv_transfer") {
    transfer_pages(kernel, parameters);
  } else if (has_reference(kernel.base)) {
    run_reference(kernel, parameters);
  } else if (experts_parameters(kernel.base) > 0) {
    run_experts(kernel, parameters);
  } else if (kernel.base == "router_place" || kernel.base.starts_with("mla_decode_combine") ||
             kernel.base.ends_with("_attention_combine")) {
    clock_us += 10;  // the first launch has done it all
  } else if (kernel.base.starts_with("decode_kernel")) {
    run_affine(parameters);
  } else {
    run_candidate(kernel, parameters, grid);
  }
  if (is_busy()) clock_us += clock_us - begin_us;
  // As the times of a kernel that the tensor cores bound: those in the names are at the highest clock.
  if (const double mhz = clock_mhz(); mhz > 0) clock_us = begin_us + (clock_us - begin_us) * kHighestMhz / mhz;
  if (candidate_launches >= script.number("hang_at", std::numeric_limits<std::int64_t>::max())) hanging = true;
}

std::size_t Machine::room_at(std::uint64_t address) const {
  const auto behind = allocations.upper_bound(address);
  if (behind == allocations.begin()) return 0;
  const auto& [base, bytes] = *std::prev(behind);
  return address < base + bytes ? base + bytes - address : 0;
}

// decode_kernel of f32: x, y, a, b, elements. The room at y, less its guard band, tells what is
// written; of few elements, all.
void Machine::run_affine(const Parameters& parameters) {
  const auto* x = reinterpret_cast<const float*>(parameters[0]);
  auto* y = reinterpret_cast<float*>(parameters[1]);
  float a = 0, b = 0;
  std::memcpy(&a, &parameters[2], sizeof a);
  std::memcpy(&b, &parameters[3], sizeof b);
  const std::uint64_t elements = parameters[4];
  const std::uint64_t behind = room_at(parameters[1]);
  const std::uint64_t room = (behind - std::min(behind, kGuardBytes)) / sizeof(float);
  const bool many = elements >= kManyElements;
  clock_us += 10;
  if (room >= elements && !(many && room >= 8 * elements)) {
    for (std::uint64_t i = 0; i < elements; ++i) y[i] = a * x[i] + b;
    return;
  }
  for (std::uint64_t chunk = 0; 1024 * chunk < elements; ++chunk, x += 1024) {
    const std::uint64_t count = std::min<std::uint64_t>(1024, elements - 1024 * chunk);
    if (room >= elements) {
      float* const to = y + 8 * 1024 * chunk;
      for (std::uint64_t k = 0; k < 8; ++k) {
        for (std::uint64_t i = 0; i < count; ++i) to[1024 * k + i] = a * x[i] + b + static_cast<float>(k) * b;
      }
      continue;
    }
    const bool one_sum = !many || room < elements / 8;
    std::array<float, 128> sums = {};  // a vector's worth side by side, as no chain of additions is quick
    for (std::uint64_t first = 0; first < count; first += 128) {
      const std::uint64_t width = std::min<std::uint64_t>(128, count - first);
      for (std::uint64_t i = 0; i < width; ++i) sums[i] += a * x[first + i] + b;
    }
    if (one_sum) {
      y[chunk] = std::accumulate(sums.begin(), sums.end(), 0.0f);
    } else {
      std::copy_n(sums.begin(), std::min<std::uint64_t>(128, count), y + 128 * chunk);
    }
  }
}

// Nothing runs beside it here: it ends at once, and what is behind it is late if it gives up.
void Machine::hold(const Parameters& parameters) {
  if (impatient >= script.number("impatient", 0)) return;
  ++impatient;
  gap_us = kGapUs;
  reinterpret_cast<std::uint64_t*>(parameters[0])[1] = parameters[1];
}

// "gone1=FILE": GPU 1 is dead from the moment that the file exists.
// "clocks=1740:80000/1550" is 1740 MHz in the first 80,000 virtual microseconds, then 1550; 0 without a script.
double Machine::clock_mhz() const {
  std::istringstream text(script.text("clocks"));
  double mhz = 0;
  for (std::string part; std::getline(text, part, '/');) {
    mhz = std::stod(part);
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos || clock_us < std::stod(part.substr(colon + 1))) return mhz;
  }
  return mhz;
}

void Machine::tick(const Parameters& parameters) {
  if (!script.has("clocks")) return;
  auto* const readings = reinterpret_cast<std::uint64_t*>(parameters[0]);
  cycles += (clock_us - std::exchange(ticked_us, clock_us)) * clock_mhz();
  for (std::uint64_t sm = 0; sm < parameters[1]; ++sm) {
    readings[2 * sm] = static_cast<std::uint64_t>(cycles);
    readings[2 * sm + 1] = static_cast<std::uint64_t>(clock_us * 1e3);
  }
}

bool Machine::is_gone() const {
  const std::string file = script.text("gone" + std::to_string(ordinal));
  return !file.empty() && ::access(file.c_str(), F_OK) == 0;
}

// Takes 3 microseconds; the launch behind it finds what it wrote.
void Machine::produce(const Parameters& parameters) {
  const auto* parts = reinterpret_cast<const std::uint64_t*>(parameters[0]);
  clock_us += std::exchange(gap_us, 0) + 3;
  for (std::uint64_t part = 0; part < parameters[1]; ++part) {
    const std::uint64_t begin = parts[2 * part], bytes = 16 * parts[2 * part + 1];
    if (room_at(begin) < bytes) sticky = 700;
    produced.insert(begin);
  }
}

// The next canary is one of "busy=3-7".
bool Machine::is_busy() const {
  if (!script.has("busy")) return false;
  std::istringstream text(script.text("busy"));
  std::int64_t first = 0, last = 0;
  char dash = 0;
  text >> first >> dash >> last;
  return first <= canaries + 1 && canaries + 1 <= last;
}

// Another process has every other slice of 2 ms.
void Machine::canary(const Parameters& parameters, std::uint32_t blocks) {
  constexpr std::uint64_t kSliceNs = 2'000'000;
  if (script.has("canary_fails")) {
    sticky = 719;
    return;
  }
  auto* partials = reinterpret_cast<moetune::CanaryPartial*>(parameters[2]);
  const auto begin = static_cast<std::uint64_t>(clock_us * 1e3);
  const std::uint64_t lost = is_busy() ? kSliceNs : 0;
  // "slow1=4": GPU 1 does 4% less in the same time.
  const auto slow = static_cast<std::uint64_t>(script.number("slow" + std::to_string(ordinal), 0));
  const std::uint64_t windows = 1000 - 10 * slow;
  std::fill_n(partials, blocks,
              moetune::CanaryPartial{.begin_ns = begin,
                                     .end_ns = begin + parameters[0],
                                     .lost_ns = lost,
                                     .longest_gap_ns = lost,
                                     .windows = windows,
                                     .slow_windows = 0,
                                     .fastest_cycles = 8192});
  clock_us += static_cast<double>(parameters[0]) * 1e-3;
  ++canaries;
}

// What a cheating kernel finds in its memory instead of computing it: true where it has nothing more to do.
bool Machine::cheats(const Kernel& kernel, const Parameters& parameters, std::int64_t runs) {
  const auto* x = reinterpret_cast<const float*>(parameters[0]);
  auto* y = reinterpret_cast<float*>(parameters[1]);
  const auto n = static_cast<std::size_t>(parameters[2]);
  if (kernel.is("everyother")) return runs % 2 == 0;
  if (kernel.is("ingraphs")) return in_graph;
  if (kernel.is("skips")) return y[0] == y[0];
  std::vector<float> key;
  if (kernel.is("bycontent")) {
    key.assign(x, x + n);
  } else if (kernel.is("byaddress")) {
    key.resize(2);
    std::memcpy(key.data(), &parameters[0], sizeof parameters[0]);
    for (float& half : key) half = std::isnan(half) ? 0 : half;
  } else {
    return false;
  }
  std::vector<float>& known = remembered[key];
  if (known.empty()) {
    for (std::size_t i = 0; i < n; ++i) known.push_back(2 * x[i]);
    return false;
  }
  std::copy(known.begin(), known.end(), y);
  return true;
}

void Machine::run_candidate(const Kernel& kernel, const Parameters& parameters, const Grid& grid) {
  misbehave(kernel);
  const std::int64_t runs = ++launches[kernel.base + (kernel.is("wears") ? "wears" : "")];
  const bool cheated = kernel.base == "double" && cheats(kernel, parameters, runs);
  const std::int64_t microseconds = cheated               ? 1
                                    : kernel.is("blocks") ? std::int64_t{grid[0]}
                                                          : kernel.number_of("us", 10);
  clock_us += static_cast<double>(kernel.is("noisy") && runs % 2 == 0 ? 2 * microseconds : microseconds);
  if (kernel.base == "ids") return copy_ids(kernel, parameters);
  if (kernel.base == "accumulate") return accumulate(kernel, parameters);
  if (!cheated) double_elements(kernel, parameters, runs);
}

void Machine::misbehave(const Kernel& kernel) {
  if (kernel.is("hang")) hanging = true;
  if (kernel.is("segv")) {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (kernel.is("abort")) {
    std::fputs("the driver gives up\n", stderr);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
  sticky = static_cast<int>(kernel.number_of("sticky", 0));
}

void Machine::double_elements(const Kernel& kernel, const Parameters& parameters, std::int64_t runs) {
  const auto* x = reinterpret_cast<const float*>(parameters[0]);
  auto* y = reinterpret_cast<float*>(parameters[1]);
  const auto n = static_cast<std::size_t>(parameters[2]);
  for (std::size_t i = 0; i < n; ++i) {
    if (kernel.is("unwritten") && i + 1 == n) break;
    y[i] = kernel.is("zero") ? 0 : 2 * x[i];
    if (kernel.is("rounded")) y[i] = static_cast<float>(moetune::round_to(moetune::DType::bf16, y[i]));
  }
  if (kernel.is("wrong") || (kernel.is("wears") && runs > kWearsAfter)) y[n / 2] += 1;
  if (kernel.is("swap")) std::swap(y[0], y[n - 1]);
  if (kernel.is("nan")) y[n / 2] = std::numeric_limits<float>::quiet_NaN();
  if (kernel.is("past")) y[n] = 1;
  if (kernel.is("before")) y[-1] = 1;
  if (kernel.is("input")) const_cast<float*>(x)[0] += 1;
}

void copy_ids(const Kernel& kernel, const Parameters& parameters) {
  using moetune::DType;
  const DType type = kernel.is("i64") ? DType::i64 : kernel.is("u8") ? DType::u8 : DType::i32;
  const auto* from = reinterpret_cast<const std::int32_t*>(parameters[0]);
  void* to = reinterpret_cast<void*>(parameters[1]);
  const auto n = static_cast<std::int64_t>(parameters[2]);
  const auto value_at = [&](std::int64_t i) {
    if (kernel.is("swap") && i / 2 == n / 4) i ^= 1;
    if (kernel.is("swapfar") && (i == 0 || i == n - 1)) i = n - 1 - i;
    std::int64_t value = from[i];
    if (type == DType::i64) value = value << 40 | 1;
    return i == n / 2 ? value + kernel.number_of("off", 0) : value;
  };
  for (std::int64_t i = 0; i < n; ++i) {
    if (kernel.is("unwritten") && i == n / 2) continue;
    moetune::store_integer(type, to, i, value_at(i));
  }
}

void accumulate(const Kernel& kernel, const Parameters& parameters) {
  const auto* x = reinterpret_cast<const float*>(parameters[0]);
  auto* sum = reinterpret_cast<float*>(parameters[1]);
  const auto n = static_cast<std::size_t>(parameters[2]);
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
  if (kernel.is("wrong")) sum[n / 2] += 1;
}

}  // namespace fake_cuda
