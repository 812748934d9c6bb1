// Results in a list, each with its configuration. The file is read twice: the Format sees every result, then judges
// each by the objective that was chosen.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "replay/configured_rows.h"
#include "replay/result_readers.h"

namespace moetune {

// A Format has `found`, the file, and functions: take_header() of its header's fields; result_of() a row; see() and
// judged(), each of a result and its name in errors; and stated() objectives, once all are seen.
template <typename Format>
ResultFile read_listed(std::string_view text, std::string_view file, const std::string& wanted) {
  Format format;
  ConfiguredRows shape;
  std::size_t number = 0;
  const auto each = [&](auto take) {
    number = 0;
    return [&number, file, take](const JsonRow& row) {
      const std::string name = std::string(file) + ": result " + std::to_string(++number);
      if (number > kMostRows)
        throw BadInput(std::string(file) + ": more than " + std::to_string(kMostRows) + " results");
      take(Format::result_of(row), name);
    };
  };
  read_json_rows(text, file,
                 {[&](const JsonField& field) { format.take_header(field); },
                  each([&](const auto& result, const std::string& name) {
                    format.see(result, name);
                    shape.see(result.configuration, name);
                  })});
  if (number == 0) throw BadInput(std::string(file) + ": it holds no result");
  format.found.objective = choose_objective(wanted, format.stated(), file);
  shape.seal();
  read_json_rows(text, file, {{}, each([&](const auto& result, const std::string& name) {
                                FigureRow taken = format.judged(result, name);
                                taken.row.point = shape.point(result.configuration, name);
                                format.found.rows.push_back(std::move(taken));
                              })});
  format.found.parameters = shape.parameters(file);
  return std::move(format.found);
}

}  // namespace moetune
