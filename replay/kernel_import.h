// A kernel.json made of what others have written: a T1 description, as the auto-tuning community's benchmark hub and
// KTT's loader have them, a source that is annotated for Kernel Launcher, or the results of another tuner, of which the
// parameters are taken.
//
// Leaves out what cannot be said in a kernel.json, and names it. Stateless. Throws BadInput naming the file, the line
// and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct ImportedKernel {
  std::string name;
  nlohmann::ordered_json description;
  std::string source;                 // the file that it names, relative to its own; "" if it names none
  std::string wrapper;                // of an annotated source: what its own file says before it includes the source
  std::vector<std::string> left_out;  // a sentence each
  double cartesian = 0;
  std::uint64_t legal = 0;
  bool has_launch = false;  // else there are parameters and constraints alone
  std::string unfinished;   // why it cannot be tuned as it is; "" if it can
};

ImportedKernel import_kernel(std::string_view bytes, const std::string& file);

}  // namespace moetune
