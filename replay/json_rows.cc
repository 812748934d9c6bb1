#include "replay/json_rows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRowBytes = std::size_t{16} << 20, kMostHeaderBytes = std::size_t{128} << 20;
constexpr std::size_t kLongestMessage = 300;
constexpr char kNotFinite = '\x7f';  // begins the texts that stand for NaN and the infinities

// The longest first: "-Infinity" ends as "Infinity" does.
struct PythonNumber {
  std::string_view name, json;
  const char* text;
  double number;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<PythonNumber, 3> kPythonNumbers = {{
    {"-Infinity", "\"\x7f-     \"", "-inf", -kInfinity},
    {"Infinity", "\"\x7f     \"", "inf", kInfinity},
    {"NaN", "\"\x7f\"", "nan", std::numeric_limits<double>::quiet_NaN()},
}};

class Walker : public json::json_sax_t {
 public:
  Walker(std::size_t size, const JsonRowSink& sink) : size_(size), sink_(sink) {}

  std::string section, error;

  bool null() override { return scalar(JsonField::Kind::null, "None", 0); }
  bool boolean(bool yes) override { return scalar(JsonField::Kind::boolean, yes ? "True" : "False", 0); }
  bool number_integer(std::int64_t number) override {
    return scalar(JsonField::Kind::integer, std::to_string(number), static_cast<double>(number));
  }
  bool number_unsigned(std::uint64_t number) override {
    return scalar(JsonField::Kind::integer, std::to_string(number), static_cast<double>(number));
  }
  bool number_float(double number, const std::string& text) override {
    return scalar(JsonField::Kind::real, text, number);
  }
  bool string(std::string& text) override {
    for (const PythonNumber& one : kPythonNumbers) {
      if (text.starts_with(kNotFinite) && one.json.substr(1, one.json.size() - 2) == text)
        return scalar(JsonField::Kind::real, one.text, one.number);
    }
    return scalar(JsonField::Kind::text, std::move(text), 0);
  }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }

  bool key(std::string& name) override {
    path_.resize(levels_.back().path_size);
    if (levels_.size() == 1) top_ = name;
    step(name);
    return true;
  }

  // The end of an open file is no error once it is inside the cache.
  bool parse_error(std::size_t position, const std::string&, const json::exception& failure) override {
    const bool is_open = section == "cache" && top_ == section && !levels_.empty();
    if (position < size_ || !is_open) error = shortened(json_error_text(failure), kLongestMessage);
    return false;
  }

 private:
  struct Level {
    bool is_array = false;
    std::size_t index = 0;
    std::size_t path_size = 0;
  };

  void step(std::string_view name) {
    if (!path_.empty()) path_ += kPathMark;
    path_ += name;
  }

  // A list's value has a position where an object's has a key.
  void begin_value() {
    if (levels_.empty() || !levels_.back().is_array) return;
    path_.resize(levels_.back().path_size);
    step(std::to_string(levels_.back().index++));
  }

  bool in_section() const { return !section.empty() && !levels_.empty() && top_ == section; }

  bool open(bool is_array) {
    begin_value();
    const bool names_rows = top_ == "cache" ? !is_array : is_array && (top_ == "results" || top_ == "Results");
    if (levels_.size() == 1 && section.empty() && names_rows) section = top_;
    if (!section.empty() && !sink_.row) return false;  // only the first row is wanted
    if (levels_.size() == 2 && in_section()) {
      row_ = {levels_.back().is_array ? "" : path_.substr(levels_.back().path_size + 1), {}};
      row_path_ = path_.size() + 1;
      row_bytes_ = row_.key.size();
    }
    levels_.push_back({is_array, 0, path_.size()});
    return true;
  }

  bool close() {
    levels_.pop_back();
    if (levels_.size() == 2 && in_section()) sink_.row(row_);
    return true;
  }

  bool scalar(JsonField::Kind kind, std::string text, double number) {
    begin_value();
    const bool of_row = in_section();
    if (of_row ? levels_.size() < 3 : !sink_.header) return true;
    JsonField field{of_row ? path_.substr(std::min(row_path_, path_.size())) : path_, kind, std::move(text), number};
    std::size_t& bytes = of_row ? row_bytes_ : header_bytes_;
    bytes += field.path.size() + field.text.size() + sizeof field;
    if (bytes > (of_row ? kMostRowBytes : kMostHeaderBytes)) {
      error = of_row ? "one of its rows is larger than 16 MiB" : "what it holds beside its rows is larger than 128 MiB";
      return false;
    }
    if (of_row) {
      row_.fields.push_back(std::move(field));
    } else {
      sink_.header(std::move(field));
    }
    return true;
  }

  const std::size_t size_;
  const JsonRowSink& sink_;
  std::vector<Level> levels_;
  std::string path_, top_;
  JsonRow row_;
  std::size_t row_path_ = 0, row_bytes_ = 0, header_bytes_ = 0;
};

}  // namespace

std::string json_of_python(std::string text) {
  text.resize(text.find_last_not_of('\0') + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
      continue;
    }
    if (text[i] != 'N' && text[i] != 'I' && text[i] != '-') continue;
    for (const PythonNumber& one : kPythonNumbers) {
      if (text.compare(i, one.name.size(), one.name) != 0) continue;
      text.replace(i, one.name.size(), one.json);
      i += one.json.size() - 1;
      break;
    }
  }
  return text;
}

std::string read_json_rows(std::string_view prepared, std::string_view file, const JsonRowSink& sink) {
  check_json_bounds(prepared, file);
  Walker walker(prepared.size(), sink);
  json::sax_parse(prepared, &walker);
  if (!walker.error.empty()) throw BadInput(std::string(file) + ": " + walker.error);
  return walker.section;
}

}  // namespace moetune
