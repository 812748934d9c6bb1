#include "tuner/worker/links.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tuner/worker/numa.h"

namespace moetune {
namespace {

constexpr int kCopySamples = 7;
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;  // a copy's fixed cost vanishes in it
constexpr std::size_t kMostOtherNodes = 4;                    // whose memory is tried, and the GPU's own
constexpr int kLaunches = 256;                                // in a queue that does not fill
constexpr int kFewNodes = 200, kManyNodes = 1200;             // of graphs

// The median of a few samples, after one that does not count.
double median_us(const std::function<double()>& sample_us) {
  sample_us();
  std::vector<double> samples;
  for (int i = 0; i < kCopySamples; ++i) samples.push_back(sample_us());
  std::ranges::nth_element(samples, samples.begin() + kCopySamples / 2);
  return samples[kCopySamples / 2];
}

class MachineBench {
 public:
  MachineBench(const cuda::Context& context, const DeviceInfo& info, Harness& harness, const cuda::Stream& stream)
      : context_(context),
        info_(info),
        harness_(harness),
        stream_(stream),
        bytes_(std::min(kMostBytes, info.key.memory_bytes / 16)),
        begin_(cuda::make_event()),
        end_(cuda::make_event()) {}

  MachineFigures measure() {
    measure_launches();
    attempt({"h2d_pinned_tb_s", "d2h_pinned_tb_s", "h2d_pageable_tb_s", "d2h_pageable_tb_s"}, [&] { measure_host(); });
    attempt({"peer_tb_s"}, [&] { measure_peers(); });
    std::erase_if(found_.failures, [&](const auto& failure) { return found_.values.contains(failure.first); });
    return std::move(found_);
  }

 private:
  // Keeps the reason why something cannot be measured, unless the device itself fails.
  void attempt(const std::vector<std::string>& figures, const std::function<void()>& measure) {
    try {
      measure();
    } catch (const cuda::CudaError& error) {
      if (error.kind == cuda::CudaError::Kind::device) throw;
      for (const std::string& figure : figures)
        if (!found_.values.contains(figure)) found_.failures[figure] = error.what();
    }
  }

  // Keeps the best of several.
  void keep(const std::string& figure, double value) {
    if (value > 0) found_.values[figure] = std::max(found_.values[figure], value);
  }

  double timed_us(const std::function<void()>& enqueue) {
    cuda::record(begin_, stream_);
    enqueue();
    cuda::record(end_, stream_);
    cuda::synchronize(stream_);
    return cuda::elapsed_us(begin_, end_);
  }

  double copy_tb_s(cuda::Address to, cuda::Address from) {
    const double us = median_us([&] { return timed_us([&] { cuda::copy(to, from, bytes_, stream_); }); });
    return us > 0 ? static_cast<double>(bytes_) / us * 1e-6 : 0;
  }

  void measure_launches() {
    attempt({"host_launch_us"}, [&] {
      keep("host_launch_us", median_us([&] {
             const auto begin = std::chrono::steady_clock::now();
             for (int i = 0; i < kLaunches; ++i) harness_.nothing();
             const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
             cuda::synchronize(stream_);
             return took.count() / kLaunches;
           }));
    });
    attempt({"graph_node_us"}, [&] {
      const auto graph_us = [&](int nodes) {
        const cuda::Graph graph = cuda::capture(stream_, [&] {
          for (int i = 0; i < nodes; ++i) harness_.nothing();
        });
        return median_us([&] { return timed_us([&] { cuda::launch(graph, stream_); }); });
      };
      keep("graph_node_us", (graph_us(kManyNodes) - graph_us(kFewNodes)) / (kManyNodes - kFewNodes));
    });
  }

  // Both ways, from pageable and from pinned pages; `where` is "" or "_remote". False if the pages are elsewhere.
  bool measure_slab(const std::string& where, std::optional<int> node) {
    HostSlab slab(static_cast<std::size_t>(bytes_));
    if (slab.data().empty() || (node && !slab.is_on(*node))) return false;
    const auto host = reinterpret_cast<cuda::Address>(slab.data().data());
    const cuda::Memory device = cuda::allocate(bytes_);
    keep("h2d_pageable" + where + "_tb_s", copy_tb_s(device.get(), host));
    keep("d2h_pageable" + where + "_tb_s", copy_tb_s(host, device.get()));
    const cuda::Pinned pinned = cuda::pin(slab.data());
    keep("h2d_pinned" + where + "_tb_s", copy_tb_s(device.get(), host));
    keep("d2h_pinned" + where + "_tb_s", copy_tb_s(host, device.get()));
    return true;
  }

  // Pages lie where their thread runs. Where it is not known what is near, any are measured, as a program gets them
  // that does not care.
  void measure_host() {
    const std::vector<NumaNode> nodes = numa_nodes();
    const std::optional<int> home = numa_node_of(info_.pci_bus_id);
    const bool is_divided =
        nodes.size() > 1 && std::ranges::any_of(nodes, [&](const NumaNode& node) { return node.number == home; });
    if (!is_divided) {
      measure_slab("", std::nullopt);
      return;
    }
    std::size_t others = 0;
    for (const NumaNode& node : nodes) {
      if (node.number != home && ++others >= kMostOtherNodes) continue;
      const OnNode here(node);
      const bool measured = here && measure_slab(node.number == home ? "" : "_remote", node.number);
      if (measured) continue;
      const std::string why = "no memory can be had on NUMA node " + std::to_string(node.number);
      for (const char* const kind : {"h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable"})
        found_.failures[std::string(kind) + (node.number == home ? "" : "_remote") + "_tb_s"] = why;
    }
  }

  void measure_peers() {
    for (int other = 0; other < cuda::device_count(); ++other) {
      const int own = context_.ordinal();
      if (other == own || !cuda::can_access(own, other) || !cuda::can_access(other, own)) continue;
      const cuda::Context peer(other, cuda::Context::Current::no);
      cuda::Memory there;
      {
        const cuda::CurrentContext current(peer);
        there = cuda::allocate(bytes_);
      }
      const cuda::Memory here = cuda::allocate(bytes_);
      cuda::open_access_to(peer);
      keep("peer_tb_s", copy_tb_s(there.get(), here.get()));
      const cuda::CurrentContext current(peer);
      there = cuda::Memory();
    }
  }

  const cuda::Context& context_;
  const DeviceInfo& info_;
  Harness& harness_;
  const cuda::Stream& stream_;
  const std::int64_t bytes_;
  cuda::Event begin_, end_;
  MachineFigures found_;
};

}  // namespace

MachineFigures measure_machine(const cuda::Context& context, const DeviceInfo& info, Harness& harness,
                               const cuda::Stream& stream) {
  return MachineBench(context, info, harness, stream).measure();
}

}  // namespace moetune
