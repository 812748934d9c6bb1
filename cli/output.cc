#include "cli/output.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace moetune {

std::ostream& Output::result() const { return json_ ? std::cerr : std::cout; }

std::ostream& Output::notes() const { return std::cerr; }

void Output::note(const std::string& sentence) const { std::cerr << sentence << std::endl; }

void Output::document(const nlohmann::ordered_json& document) {
  if (!json_ || written_) return;
  written_ = true;
  // Compiler messages may hold any bytes: a document with replacement characters beats none.
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void Output::finish() const {
  std::cout.flush();
  if (!std::cout) throw BrokenEnvironment("standard output could not be written: is the disk full?");
}

}  // namespace moetune
