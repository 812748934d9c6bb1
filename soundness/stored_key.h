// The kernel, space and problem that the key of a stored record stands for in this moetune. Pure functions;
// thread-safe but for what a KnownKernel remembers.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernels/kernel.h"
#include "keys/key.h"
#include "search/space.h"

namespace moetune {

using ParsedConfigs = std::map<std::string, Config>;  // by their texts

// A record's kernel as this moetune has it.
struct KnownKernel {
  const Kernel* kernel = nullptr;  // null: not moetune's
  const Space* space = nullptr;    // null with it
  // The record is of today's sources: then its problems and configurations must be ones that moetune has, as it writes
  // them. Other sources may have had other names and values.
  bool is_current = false;
  // Remembers the configurations of the space that were read, since winners share them; null: none. For one thread.
  ParsedConfigs* configs = nullptr;
};

// A record's whole key as this moetune reads it, once for all that is asked of the record.
struct KnownWorkload : KnownKernel {
  std::optional<Problem> problem;      // nullopt: the kernel is not moetune's, or does not take it
  std::string wrong_problem;           // why it does not; "" otherwise
  std::string family;                  // the problem's specialization; "" without one
  std::optional<DeviceLimits> limits;  // nullopt: of an architecture that moetune does not know
};
KnownWorkload known_workload(const WorkloadKey& key, const KnownKernel& known);

// The specialization of the stored problem; "" for a kernel or a problem that moetune does not know.
std::string stored_family(const WorkloadKey& key);

// Rebuilds DeviceLimits from the key; fields it lacks come from the architecture. Throws BadInput for an unknown one.
DeviceLimits stored_limits(const HardwareKey& hardware);

// The stored problem. Throws BadInput where the kernel does not take it.
Problem stored_problem(const Kernel& kernel, const std::string& text);
Problem stored_problem(const Kernel& kernel, const WorkloadKey& key);

}  // namespace moetune
