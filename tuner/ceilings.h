// The ceilings of a GPU, measured once (`moetune devices --calibrate`) and kept in the cache, and the floor that they
// set for a problem: the one place where bytes and FLOPs become a least time.
//
// A ceiling is a rate, a floor is a time, a roofline fraction is floor over measured time. Plain data and pure
// functions; only the last two touch a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.h"
#include "kernels/cost.h"
#include "kernels/plan.h"

namespace moetune {

// Terabytes and teraFLOPs a second, and microseconds; what was never measured is unknown. Rates of mixed streams
// count the bytes read and the bytes written.
struct Ceilings {
  std::optional<double> read_tb_s;                                 // device memory, reads alone
  std::optional<double> mostly_read_tb_s;                          // 8 bytes read for 1 written
  std::optional<double> copy_tb_s;                                 // 1 for 1
  std::optional<double> mostly_write_tb_s;                         // 1 for 8
  std::optional<double> l2_tb_s;                                   // reads of what L2 holds
  std::optional<double> bf16_tflop_s, fp16_tflop_s, e4m3_tflop_s;  // tensor cores: dense, fp32 accumulators
  std::optional<double> launch_us;  // a kernel that reads one element, launches one after the other
  std::int64_t l2_bytes = 0;        // what L2 holds; not measured
  // Around the GPU. Host memory is on the GPU's own NUMA node, or on another one, the best of these.
  std::optional<double> h2d_pinned_tb_s, d2h_pinned_tb_s, h2d_pageable_tb_s, d2h_pageable_tb_s;
  std::optional<double> h2d_pinned_remote_tb_s, d2h_pinned_remote_tb_s, h2d_pageable_remote_tb_s,
      d2h_pageable_remote_tb_s;
  std::optional<double> peer_tb_s;       // to another GPU, by its copy engine
  std::optional<double> host_launch_us;  // of the host's time, for a kernel that does nothing
  std::optional<double> graph_node_us;   // of the GPU's, for such a kernel in a graph
};

// Every measured figure, in the order in which people read them.
enum class Unit { tb_s, tflop_s, us };
struct CeilingFigure {
  const char* name;   // in the cache and in JSON: "read_tb_s"
  const char* title;  // "read bandwidth"
  std::optional<double> Ceilings::*value;
  Unit unit;
  bool of_machine = false;  // around the GPU: no bound of what a kernel does
};
inline constexpr CeilingFigure kCeilingFigures[] = {
    {"read_tb_s", "read bandwidth", &Ceilings::read_tb_s, Unit::tb_s},
    {"mostly_read_tb_s", "8 bytes read for 1 written", &Ceilings::mostly_read_tb_s, Unit::tb_s},
    {"copy_tb_s", "copy bandwidth", &Ceilings::copy_tb_s, Unit::tb_s},
    {"mostly_write_tb_s", "1 byte read for 8 written", &Ceilings::mostly_write_tb_s, Unit::tb_s},
    {"l2_tb_s", "L2 bandwidth", &Ceilings::l2_tb_s, Unit::tb_s},
    {"bf16_tflop_s", "tensor cores (bf16)", &Ceilings::bf16_tflop_s, Unit::tflop_s},
    {"fp16_tflop_s", "tensor cores (fp16)", &Ceilings::fp16_tflop_s, Unit::tflop_s},
    {"e4m3_tflop_s", "tensor cores (e4m3)", &Ceilings::e4m3_tflop_s, Unit::tflop_s},
    {"launch_us", "least launch", &Ceilings::launch_us, Unit::us},
    {"h2d_pinned_tb_s", "host to device, pinned", &Ceilings::h2d_pinned_tb_s, Unit::tb_s, true},
    {"d2h_pinned_tb_s", "device to host, pinned", &Ceilings::d2h_pinned_tb_s, Unit::tb_s, true},
    {"h2d_pageable_tb_s", "host to device, pageable", &Ceilings::h2d_pageable_tb_s, Unit::tb_s, true},
    {"d2h_pageable_tb_s", "device to host, pageable", &Ceilings::d2h_pageable_tb_s, Unit::tb_s, true},
    {"h2d_pinned_remote_tb_s", "other node to device, pinned", &Ceilings::h2d_pinned_remote_tb_s, Unit::tb_s, true},
    {"d2h_pinned_remote_tb_s", "device to other node, pinned", &Ceilings::d2h_pinned_remote_tb_s, Unit::tb_s, true},
    {"h2d_pageable_remote_tb_s", "other node to device, pageable", &Ceilings::h2d_pageable_remote_tb_s, Unit::tb_s,
     true},
    {"d2h_pageable_remote_tb_s", "device to other node, pageable", &Ceilings::d2h_pageable_remote_tb_s, Unit::tb_s,
     true},
    {"peer_tb_s", "copy to another GPU", &Ceilings::peer_tb_s, Unit::tb_s, true},
    {"host_launch_us", "launch, on the host", &Ceilings::host_launch_us, Unit::us, true},
    {"graph_node_us", "node of a graph", &Ceilings::graph_node_us, Unit::us, true},
};

struct Rate {
  double value = 0;
  Unit unit = Unit::tb_s;
};

// The bytes or the FLOPs of a launch, whichever bind.
struct Work {
  double amount = 0;
  Unit unit = Unit::tb_s;  // of its rate

  Rate rate(double time_us) const { return {time_us > 0 ? amount / time_us * 1e-6 : 0, unit}; }
};

// The least time of a problem on a device.
struct Floor {
  double us = 0;
  std::string_view bound;  // the ceiling that binds: "read bandwidth", "tensor cores (bf16)"
  Work work;               // under that ceiling

  double roofline_fraction(double time_us) const { return us / time_us; }
};

// Whether a launch may begin while the one before it ends. If it may, the least launch is hidden.
enum class Launches { separate, overlapping };
Launches launches_of(const Plan& plan);

// max(bytes / ceiling, FLOPs / ceiling), and for separate launches the least launch (0 if unknown).
//
// Bytes of cold inputs: the microseconds a byte takes are interpolated linearly in the share that is written,
// between the measured streams on either side; past the last measured one its own hold. Bytes of warm inputs
// pass at the L2 ceiling, and what exceeds L2 comes from memory.
//
// nullopt if the floor is unknown: nothing is moved or computed, the read ceiling (for warm inputs: the L2
// ceiling) was not measured, or there are so many FLOPs of a type without a ceiling that they might bind. A
// type whose FLOPs are too few to bind on any GPU needs none.
std::optional<Floor> floor_of(const Cost& cost, const Ceilings& ceilings, Launches launches);

// Every ceiling's own bound, the least time by it alone, in the order above; those that are unknown are left out. The
// binding one is the floor, to which separate launches add their least launch.
std::vector<Floor> floors_of(const Cost& cost, const Ceilings& ceilings, Launches launches);

// The work by which the speed of `cost` is told: the floor's; without a floor its bytes, unless its FLOPs are so
// many that they might bind.
Work work_of(const Cost& cost, const std::optional<Floor>& floor);

// Those that the cache holds for `hardware`; none if `cache` is null.
Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware);

// Keeps those that are known; the others stay as they are.
void store_ceilings(Cache& cache, const HardwareKey& hardware, const Ceilings& ceilings);

}  // namespace moetune
