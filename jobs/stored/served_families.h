// Tells what a server on a GPU would launch of a family: opened as a server opens it, by the runtime itself, in a
// process of its own, because the driver may hang or crash. One thread. Errors: BrokenEnvironment.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "launch/device_info.h"

namespace moetune {

struct AskedFamily {
  std::string kernel;
  std::string problem;              // any of the family
  std::vector<std::string> shapes;  // problems of the family
};

struct ServedFamily {
  std::string family;    // its specialization
  std::string why_none;  // nothing serves; empty if something does
  // Shapes that a winner serves which was measured near by, or that lie between the cells of the family's table. The
  // space's default serves the others unmeasured.
  std::size_t tuned = 0, shapes = 0;
  std::string hardware;    // on which what serves was measured
  bool inherited = false;  // another GPU than this

  // Whether measurements say what serves nine shapes of ten.
  bool is_tuned() const { return why_none.empty() && 10 * tuned >= 9 * shapes; }
};

struct ServedFamilies {
  std::vector<ServedFamily> families;  // in the order in which they were asked for
  std::vector<std::string> warnings;   // files and records that a server would leave out, a sentence each
};

// Caches and packs that an installed library finds, and those of the project that this was built in.
std::vector<std::filesystem::path> installed_packs();

// `files`: caches, packs and folders of them, which exist, in a server's order; without any nothing serves. nullopt if
// `stop` is requested before the answer.
std::optional<ServedFamilies> find_served(const std::vector<std::filesystem::path>& files, const DeviceInfo& gpu,
                                          const std::vector<AskedFamily>& asked, std::stop_token stop = {});

// The child's side: serves if the arguments are its call, and returns true with the exit status.
bool is_serving_call(int argc, char** argv, int& status);

}  // namespace moetune
