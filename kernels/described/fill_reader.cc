// Fills of a description.
#include <algorithm>

#include "base/resources.h"
#include "kernels/described/description_reader.h"

namespace moetune {
namespace {

// A fill's key and its value; a word is a key without one. Beside an expression there may be "over".
struct FillWord {
  std::string kind;
  std::optional<JsonPlace> value;
};

FillWord word_of_fill(const JsonPlace& fill) {
  if (fill.value().is_string()) return {fill.text(), std::nullopt};
  const auto members = fill.value().is_object() ? fill.members(2) : decltype(fill.members(2))();
  for (const auto& [key, value] : members)
    if (members.size() == 1 || (key != "over" && key != "integers" && value.value().is_string() && fill.find("over")))
      return {key, value};
  return {};
}

void read_element_formula(const JsonPlace& value, Description& description, DescribedTensor& tensor) {
  for (const Dimension& dimension : description.schema)
    if (dimension.name == kElementIndex)
      value.fail("needs the name 'i' for an element's index: give that dimension another name");
  description.space.vocabulary.add_environment(kElementIndex);
  tensor.element = read_formula(value, description);
}

}  // namespace

std::vector<std::string> read_files(const JsonPlace& place) {
  std::vector<std::string> files;
  for (const JsonPlace& one : place.elements(2)) {
    files.push_back(one.text());
    const bool is_array = files.back().ends_with(".npy") || files.back().ends_with(".bin");
    if (leaves_folder(files.back()) || !is_array)
      one.fail("must be a .npy file in the kernel's folder, or a .bin of the bare elements" + one.shown());
  }
  if (files.empty()) place.fail("must name one file or two");
  return files;
}

void read_fill(const JsonPlace& place, Description& description, DescribedTensor& tensor) {
  const auto fill = place.find("fill");
  if (tensor.role == Role::output) {
    if (fill) fill->fail("is for what is read: an output begins poisoned");
    tensor.fill = Fill::Kind::zeros;
    return;
  }
  if (!fill) {
    if (is_integer(tensor.type.type)) place.fail("lacks the key 'fill', which integers need");
    return;
  }
  static const std::vector<std::pair<std::string, Fill::Kind>> kinds = {
      {"zeros", Fill::Kind::zeros},       {"normal", Fill::Kind::normal},    {"uniform", Fill::Kind::uniform},
      {"constant", Fill::Kind::constant}, {"integers", Fill::Kind::zipf},    {"permutation", Fill::Kind::permutation},
      {"steps", Fill::Kind::steps},       {"formula", Fill::Kind::integers}, {"offsets", Fill::Kind::integers},
      {"files", Fill::Kind::arrays}};
  const auto [kind, value] = word_of_fill(*fill);
  const auto found = std::ranges::find(kinds, kind, &std::pair<std::string, Fill::Kind>::first);
  const bool may_have = kind == "normal" || kind == "uniform", has_none = kind == "zeros" || kind == "permutation";
  if (found == kinds.end() || (!value && !may_have && !has_none) || (value && has_none))
    fill->fail(
        "must be zeros, permutation, normal, uniform, or an object with normal, uniform, constant, integers, "
        "steps, formula, offsets or files" +
        fill->shown());
  tensor.fill = found->second;
  if (const auto over = fill->value().is_object() ? fill->find("over") : std::nullopt) {
    if (is_integer(tensor.type.type)) over->fail("is for floating-point tensors");
    tensor.over = over->positive();
  }
  if (kind == "files") {
    tensor.files = read_files(*value);
  } else if (kind == "formula") {
    read_element_formula(*value, description, tensor);
  } else if (kind == "offsets") {
    if (!is_integer(tensor.type.type)) fill->fail("has offsets, which are for integers");
    tensor.total = read_formula(*value, description);
  } else if (kind == "integers") {
    tensor.scale = 0;  // all values are as likely
    tensor.values = read_formula(*value, description);
  } else if (value && value->value().is_string()) {
    tensor.scale_by = read_formula(*value, description);
  } else if (value) {
    if (!value->value().is_number()) value->fail("must be a number" + value->shown());
    tensor.scale = value->value().get<float>();
  }
}

}  // namespace moetune
