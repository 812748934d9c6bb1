#include "tuner/ceilings.h"

#include <algorithm>

namespace moetune {
namespace {

// A stream of `written_share` reads or writes nothing else.
constexpr double kMostlyReadShare = 1.0 / 9, kCopyShare = 1.0 / 2, kMostlyWriteShare = 8.0 / 9;
// Below this share, and above one less it, a stream is called one of reads, or of writes.
constexpr double kPureShare = 0.05;

// FLOPs a byte of device memory that every supported GPU can do: fewer do not bind. The least measured is near
// 76 on tensor cores (RTX 3090, fp32 accumulators) and 11 on CUDA cores (A100).
constexpr double kTensorFlopsPerByte = 64, kCudaFlopsPerByte = 8;

struct FlopsType {
  double Flops::*count;
  std::optional<double> Ceilings::*ceiling;  // null: never measured
  std::string_view name;
  double per_byte;
};
constexpr FlopsType kFlopsTypes[] = {
    {&Flops::bf16, &Ceilings::bf16_tflop_s, "tensor cores (bf16)", kTensorFlopsPerByte},
    {&Flops::fp16, &Ceilings::fp16_tflop_s, "tensor cores (fp16)", kTensorFlopsPerByte},
    {&Flops::e4m3, &Ceilings::e4m3_tflop_s, "tensor cores (e4m3)", kTensorFlopsPerByte},
    {&Flops::fp32, nullptr, "CUDA cores (fp32)", kCudaFlopsPerByte},
};

bool known(const std::optional<double>& ceiling) { return ceiling && *ceiling > 0; }

// Microseconds for so many bytes or FLOPs: amount / (T/s) = 1e-12 s.
double time_us(double amount, double tera_per_s) { return amount / tera_per_s * 1e-6; }

// Microseconds a byte takes in a stream that writes this share of its bytes.
double us_per_byte(const Ceilings& ceilings, double written_share) {
  const std::pair<double, const std::optional<double>&> streams[] = {{0, ceilings.read_tb_s},
                                                                     {kMostlyReadShare, ceilings.mostly_read_tb_s},
                                                                     {kCopyShare, ceilings.copy_tb_s},
                                                                     {kMostlyWriteShare, ceilings.mostly_write_tb_s}};
  double share = 0, us = time_us(1, *ceilings.read_tb_s);
  for (const auto& [next_share, rate] : streams) {
    if (!known(rate)) continue;
    const double next_us = time_us(1, *rate);
    if (written_share < next_share) return us + (next_us - us) * (written_share - share) / (next_share - share);
    share = next_share;
    us = next_us;
  }
  return us;
}

std::string_view memory_bound(double written_share) {
  if (written_share < kPureShare) return "read bandwidth";
  return written_share > 1 - kPureShare ? "write bandwidth" : "memory bandwidth";
}

Floor memory_floor(const Cost& cost, const Ceilings& ceilings) {
  if (!(cost.bytes() > 0)) return {};
  const double share = cost.written_bytes / cost.bytes();
  return {cost.bytes() * us_per_byte(ceilings, share), memory_bound(share), {cost.bytes(), Unit::tb_s}};
}

// The part of warm inputs that exceeds L2.
Cost beyond_l2(Cost cost, const Ceilings& ceilings) {
  if (!(cost.bytes() > 0)) return cost;
  const double excess = std::max(0.0, 1 - static_cast<double>(ceilings.l2_bytes) / cost.bytes());
  cost.read_bytes *= excess;
  cost.written_bytes *= excess;
  return cost;
}

// nullopt if a ceiling that it needs is unknown.
std::optional<Floor> bytes_floor(const Cost& cost, const Ceilings& ceilings) {
  if (!(cost.bytes() > 0)) return Floor{};
  if (!known(ceilings.read_tb_s)) return std::nullopt;
  if (cost.inputs == Inputs::cold) return memory_floor(cost, ceilings);
  if (!known(ceilings.l2_tb_s)) return std::nullopt;
  const Floor through_l2{time_us(cost.bytes(), *ceilings.l2_tb_s), "L2 bandwidth", {cost.bytes(), Unit::tb_s}};
  const Floor from_memory = memory_floor(beyond_l2(cost, ceilings), ceilings);
  return from_memory.us > through_l2.us ? from_memory : through_l2;
}

// The three types of the tensor cores take their turns on them; CUDA cores work beside. nullopt as above:
// `bytes_us` is what FLOPs without a ceiling must not exceed.
std::optional<Floor> flops_floor(const Cost& cost, const Ceilings& ceilings, double bytes_us) {
  Floor tensor{.work = {0, Unit::tflop_s}};
  double most_us = 0;
  for (const FlopsType& type : kFlopsTypes) {
    const double count = cost.flops.*type.count;
    if (!(count > 0)) continue;
    const std::optional<double> ceiling = type.ceiling ? ceilings.*type.ceiling : std::nullopt;
    if (!known(ceiling)) {
      if (!known(ceilings.read_tb_s)) return std::nullopt;
      if (time_us(count, type.per_byte * *ceilings.read_tb_s) > bytes_us) return std::nullopt;
      continue;
    }
    const double its_us = time_us(count, *ceiling);
    tensor.us += its_us;
    tensor.work.amount += count;
    if (its_us > most_us) tensor.bound = type.name;
    most_us = std::max(most_us, its_us);
  }
  return tensor;
}

}  // namespace

Launches launches_of(const Plan& plan) {
  const bool overlaps = !plan.launches.empty() && plan.launches.front().programmatic_dependent;
  return overlaps ? Launches::overlapping : Launches::separate;
}

std::optional<Floor> floor_of(const Cost& cost, const Ceilings& ceilings, Launches launches) {
  const std::optional<Floor> bytes = bytes_floor(cost, ceilings);
  if (!bytes) return std::nullopt;
  const std::optional<Floor> flops = flops_floor(cost, ceilings, bytes->us);
  if (!flops) return std::nullopt;
  Floor floor = flops->us > bytes->us ? *flops : *bytes;
  if (!(floor.us > 0)) return std::nullopt;
  if (launches == Launches::separate) floor.us += ceilings.launch_us.value_or(0);
  return floor;
}

std::vector<Floor> floors_of(const Cost& cost, const Ceilings& ceilings, Launches launches) {
  std::vector<Floor> floors;
  const bool warm = cost.inputs != Inputs::cold;
  Cost cold = cost;
  if (warm) {
    if (cost.bytes() > 0 && known(ceilings.l2_tb_s))
      floors.push_back({time_us(cost.bytes(), *ceilings.l2_tb_s), "L2 bandwidth", {cost.bytes(), Unit::tb_s}});
    cold = beyond_l2(cost, ceilings);
  }
  if (cold.bytes() > 0 && known(ceilings.read_tb_s)) floors.push_back(memory_floor(cold, ceilings));
  for (const FlopsType& type : kFlopsTypes) {
    const double count = cost.flops.*type.count;
    if (count > 0 && type.ceiling && known(ceilings.*type.ceiling))
      floors.push_back({time_us(count, *(ceilings.*type.ceiling)), type.name, {count, Unit::tflop_s}});
  }
  if (launches == Launches::separate && known(ceilings.launch_us))
    floors.push_back({*ceilings.launch_us, "least launch", {}});
  return floors;
}

Work work_of(const Cost& cost, const std::optional<Floor>& floor) {
  if (floor) return floor->work;
  for (const FlopsType& type : kFlopsTypes) {
    const double count = cost.flops.*type.count;
    if (count > type.per_byte * cost.bytes()) return {count, Unit::tflop_s};
  }
  return {cost.bytes(), Unit::tb_s};
}

Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware) {
  Ceilings stored;
  stored.l2_bytes = hardware.l2_bytes;
  if (cache == nullptr) return stored;
  const std::map<std::string, double> known = cache->trials.calibrations(hardware);
  for (const CeilingFigure& figure : kCeilingFigures)
    if (const auto found = known.find(figure.name); found != known.end()) stored.*figure.value = found->second;
  return stored;
}

void store_ceilings(Cache& cache, const HardwareKey& hardware, const Ceilings& ceilings) {
  for (const CeilingFigure& figure : kCeilingFigures) {
    if (const std::optional<double>& value = ceilings.*figure.value)
      cache.trials.put_calibration(hardware, figure.name, *value);
  }
}

}  // namespace moetune
