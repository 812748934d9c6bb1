// What the runtime's tests share: a folder that goes away, and an opened runtime.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "include/moetune.h"
#include "tests/temporary_folder.h"

#define REQUIRE_OK(call) REQUIRE_MESSAGE((call) == MOETUNE_OK, moetune_last_error())
#define CHECK_OK(call) CHECK_MESSAGE((call) == MOETUNE_OK, moetune_last_error())

namespace moetune::testing {

using Folder = TemporaryFolder;

// Whether the last error's sentence has these words.
bool says(const std::string& words);

class Opened {
 public:
  explicit Opened(const std::vector<std::filesystem::path>& paths, bool allow_recorded = false);
  ~Opened() { moetune_close(runtime_); }
  Opened(const Opened&) = delete;

  moetune_runtime* runtime() const { return runtime_; }
  moetune_family* family(const char* specialization) const;
  std::string generation() const;
  std::string warnings() const;
  nlohmann::json explain(moetune_family* family, const moetune_choice& choice) const;

 private:
  moetune_runtime* runtime_ = nullptr;
};

}  // namespace moetune::testing
