// Reads JSON files of many rows without keeping them: each row is handed on, then forgotten. NaN, Infinity and
// -Infinity are read as Python writes them.
//
// A file's rows are the members of the first of its top-level "cache", "results" and "Results". All else is its
// header. Stateless.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

inline constexpr char kPathMark = '\x1f';  // between the steps of a path

// One value that is no list and no object.
struct JsonField {
  enum class Kind { null, boolean, integer, real, text };

  std::string path;  // keys and positions from the row, or the file, on: "times", kPathMark, "2"
  Kind kind = Kind::null;
  std::string text;   // as Python prints it: "None", "True", "1e-05", "nan"; a text without quotes
  double number = 0;  // of an integer or a real, which may not be finite

  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
};

struct JsonRow {
  std::string key;  // of an object's member; "" in a list
  std::vector<JsonField> fields;
};

// Each may be empty. Without `row` no more is read than it takes to find out below what the rows stand.
struct JsonRowSink {
  std::function<void(JsonField&&)> header;
  std::function<void(JsonRow&)> row;
};

// Prepares text for read_json_rows(): Python's NaN and Infinity become JSON of the same length, and the zero bytes are
// cut off that a machine leaves behind which lost its power.
std::string json_of_python(std::string text);

// The top-level key that the rows stand below; "" if there is none. A "cache" that ends early gives its whole rows.
// Throws BadInput naming the file for what is not JSON, nested too deep, or has too many or too large values.
std::string read_json_rows(std::string_view prepared, std::string_view file, const JsonRowSink& sink);

}  // namespace moetune
