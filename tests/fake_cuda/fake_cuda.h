// The scripted machine behind the stand-in for libcuda: its script, virtual clock, faults and kernels. See
// README.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/dtype.h"

namespace fake_cuda {

// MOETUNE_FAKE_CUDA, split at commas into name or name=value.
class Script {
 public:
  Script();
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const;
  std::int64_t number(const std::string& name, std::int64_t default_value) const;

 private:
  std::map<std::string, std::string> values_;
};

struct Kernel {
  std::string base;                           // "double", "moetune_fill"
  std::vector<std::string> suffixes;          // "us50", "wrong"
  std::size_t parameters = 0;                 // of 8 bytes each; 0: no such kernel
  std::map<std::string, std::int64_t> facts;  // what the module's text says it was compiled for
  std::string specialization;                 // the same of a kernel that has_reference()
  unsigned dynamic_shared = 48 << 10;         // bytes that a launch may ask for; these two are set as attributes
  bool large_clusters = false;                // past 8 blocks

  static Kernel named(const std::string& entry);
  bool is(const std::string& suffix) const;
  std::int64_t number_of(const std::string& suffix, std::int64_t default_value) const;  // us50 -> 50
  int refusal() const;                                                                  // what launching it returns
};

using Parameters = std::vector<std::uint64_t>;
using Grid = std::array<std::uint32_t, 3>;

struct Machine {
  Script script;
  int sticky = 0;  // what every call returns from now on
  bool hanging = false;
  double clock_us = 0;
  double cycles = 1, ticked_us = 0;  // of every SM, until then
  double gap_us = 0;                 // until the next launch begins, because the host has not enqueued it yet
  std::int64_t impatient = 0;        // how many holds have given up
  std::int64_t canaries = 0;         // that have run
  std::set<std::uint64_t> produced;  // addresses that the launch before the next has written
  std::size_t used_bytes = 0;
  std::int64_t candidate_launches = 0;
  bool in_graph = false;                                        // while a graph's launches run
  std::map<std::vector<float>, std::vector<float>> remembered;  // by cheating kernels, until one is loaded again
  int ordinal = 0;                                              // of the device that the process has opened
  std::map<std::string, std::int64_t> launches;                 // by kernel
  int settled_launches = 0;                          // of decode_attention, whose callers say that KV is settled
  std::map<std::uint64_t, std::size_t> allocations;  // bytes by address
  std::set<std::uint64_t> pinned;                    // host memory that is registered

  std::size_t memory_bytes() const { return static_cast<std::size_t>(script.number("memory", 16 << 20)); }
  void run(const Kernel& kernel, const Parameters& parameters, const Grid& grid);
  bool is_gone() const;

 private:
  // Bytes from there to the end of the allocation that holds it.
  std::size_t room_at(std::uint64_t address) const;
  void run_affine(const Parameters& parameters);
  void run_candidate(const Kernel& kernel, const Parameters& parameters, const Grid& grid);
  bool cheats(const Kernel& kernel, const Parameters& parameters, std::int64_t runs);
  void misbehave(const Kernel& kernel);
  void double_elements(const Kernel& kernel, const Parameters& parameters, std::int64_t runs);
  void hold(const Parameters& parameters);
  void produce(const Parameters& parameters);
  void canary(const Parameters& parameters, std::uint32_t blocks);
  double clock_mhz() const;
  void tick(const Parameters& parameters);
  bool is_busy() const;
};

extern Machine machine;

// The kernels of templates/common/harness.cu. True where `name` is one of them and was run.
bool run_harness(const std::string& name, const Parameters& parameters, std::uint32_t blocks);

// decode_attention as its mma body with one split is launched, on bf16 tensors.
void attend(const Kernel& kernel, const Parameters& parameters, const Grid& grid);

// What lies at an address; nothing at a null one.
std::vector<double> load_elements(moetune::DType type, const void* from, std::int64_t elements);
// Rounded; where a value is NaN nothing is written.
void store_written(moetune::DType type, void* to, const std::vector<double>& values);

// prefill_attention as its mma body is launched.
std::size_t prefill_parameters(const std::string& specialization);
void attend_new_tokens(const Kernel& kernel, const Parameters& parameters);

// The first launch of mla_decode, by either entry; 0 for another one's. Behind the parameters of the one that has a
// tensor map are two of the map: elements from a token to the next, and from a page to the next.
std::size_t latent_parameters(const std::string& entry);
void attend_latent(const Kernel& kernel, const Parameters& parameters, const Grid& grid);

// kv_transfer's one launch.
std::size_t transfer_parameters();
void transfer_pages(const Kernel& kernel, const Parameters& parameters);

// router, route_plan, moe_dispatch and moe_combine: their CPU references. Other launches of theirs do nothing.
bool has_reference(const std::string& name);
std::size_t reference_parameters(const std::string& name);
void run_reference(const Kernel& kernel, const Parameters& parameters);
// moe_experts as its mma body is launched; 0 for names of no such launch.
std::size_t experts_parameters(const std::string& name);
void run_experts(const Kernel& kernel, const Parameters& parameters);
// Of the image of such kernels' modules, "moetune fake cubin of experts=8,top_k=2\n"; "" for others.
std::string specialization_of(const char* image);

// The candidates that copy integers, or add to a buffer that they also read: see README.md.
void copy_ids(const Kernel& kernel, const Parameters& parameters);
void accumulate(const Kernel& kernel, const Parameters& parameters);

}  // namespace fake_cuda
