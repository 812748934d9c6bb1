// Finds the GPU that a device text means. Pure functions over a list of GPUs.
#pragma once

#include <string>
#include <vector>

#include "launch/device_info.h"

namespace moetune {

// Whether the text has the form of a GPU's name: "cuda:N", a UUID "GPU-..." or "MIG-..." (a slice of a divided GPU) or
// the beginning of one, or a PCI
// id "0000:1b:00.0" with or without its domain, in any case. Throws BadField for "cuda:" without an ordinal.
bool is_gpu_name(const std::string& text);

// The text if it is a slice's UUID; "" for others. The driver shows a process one slice alone.
std::string named_slice(const std::string& text);

// The position in `gpus` of the one that `text` names. Throws BrokenEnvironment if none is, with a list of
// those that are there, and BadField if several are.
std::size_t named_gpu(const std::vector<DeviceInfo>& gpus, const std::string& text);

// The position of the one that is most likely undisturbed: no foreign process before any, then most free
// memory, then the lowest ordinal. `gpus` must not be empty. A GPU of unknown load counts as idle without
// free memory.
std::size_t idlest_gpu(const std::vector<DeviceInfo>& gpus);

}  // namespace moetune
