#include "kernels/buffer_json.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "kernels/json_names.h"
#include "kernels/json_text.h"

namespace moetune {
namespace {

using Json = nlohmann::json;
using Blob = std::vector<std::uint8_t>;

const Names<Fill::Kind> kFills = {{Fill::Kind::zeros, "zeros"},
                                  {Fill::Kind::normal, "normal"},
                                  {Fill::Kind::uniform, "uniform"},
                                  {Fill::Kind::integers, "integers"},
                                  {Fill::Kind::constant, "constant"},
                                  {Fill::Kind::zipf, "zipf"},
                                  {Fill::Kind::permutation, "permutation"},
                                  {Fill::Kind::columns, "columns"},
                                  {Fill::Kind::arrays, "arrays"},
                                  {Fill::Kind::steps, "steps"}};
const Names<Role> kRoles = {{Role::input, "input"}, {Role::output, "output"}, {Role::in_out, "in_out"}};
const Names<OutputCheck::Kind> kChecks = {{OutputCheck::Kind::tolerance, "tolerance"},
                                          {OutputCheck::Kind::exact, "exact"},
                                          {OutputCheck::Kind::set_per_segment, "set_per_segment"}};

template <typename T>
std::size_t append_blob(std::vector<Blob>& blobs, const std::vector<T>& list) {
  Blob bytes(list.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), list.data(), bytes.size());
  blobs.push_back(std::move(bytes));
  return blobs.size() - 1;
}

template <typename T>
std::vector<T> list_of(const Json& position, std::span<const Blob> blobs) {
  const auto index = position.get<std::size_t>();
  if (index >= blobs.size())
    throw BadInput("a fill's list should be in blob " + std::to_string(index) + ", and there is none");
  const Blob& bytes = blobs[index];
  if (bytes.size() % sizeof(T) != 0) throw BadInput("a fill's list ends within an element");
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

class BufferWriter : public JsonText<BufferWriter> {
 public:
  explicit BufferWriter(std::vector<Blob>& blobs) : blobs_(blobs) {}

  using JsonText::write;
  void write(const Fill& fill) {
    const auto list = [&](const auto& one) {
      return one.empty() ? std::optional<std::size_t>() : append_blob(blobs_, one);
    };
    const auto integers = list(fill.integers), shifts = list(fill.shifts), poison = list(fill.poison);
    text_ += '{';
    if (!fill.contents.empty()) {
      std::vector<std::size_t> contents;
      for (const auto& content : fill.contents) contents.push_back(append_blob(blobs_, *content));
      fields("contents", contents), text_ += ',';
    }
    if (integers) fields("integers", *integers), text_ += ',';
    fields("kind", name_of(kFills, fill.kind));
    if (poison) more("poison", *poison);
    more("scale", double{fill.scale});
    if (shifts) more("shifts", *shifts);
    more("values", fill.values);
    text_ += '}';
  }
  void write(const OutputCheck& check) {
    object("baseline_factor", check.tolerance.baseline_factor, "dissimilarity", check.tolerance.dissimilarity, "kind",
           name_of(kChecks, check.kind), "segment_length", check.segment_length, "segments", check.segments, "terms",
           check.tolerance.terms);
  }
  void write(const Buffer& buffer) {
    object("check", buffer.check, "dtype", dtype_name(buffer.dtype), "elements", buffer.elements, "fill", buffer.fill,
           "fresh", buffer.fresh, "name", buffer.name, "offsets", buffer.offsets, "role", name_of(kRoles, buffer.role),
           "rotates", buffer.rotates, "sequences", buffer.sequences);
  }

 private:
  std::vector<Blob>& blobs_;
};

Fill fill_from_json(const Json& json, std::span<const Blob> blobs) {
  Fill fill;
  fill.kind = from_name(kFills, "fill", json.at("kind"));
  json.at("scale").get_to(fill.scale);
  json.at("values").get_to(fill.values);
  if (json.contains("integers")) fill.integers = list_of<std::int32_t>(json.at("integers"), blobs);
  if (json.contains("shifts")) fill.shifts = list_of<float>(json.at("shifts"), blobs);
  if (json.contains("contents")) {
    for (const Json& position : json.at("contents"))
      fill.contents.push_back(std::make_shared<const Blob>(list_of<std::uint8_t>(position, blobs)));
  }
  if (json.contains("poison")) fill.poison = list_of<Range>(json.at("poison"), blobs);
  return fill;
}

OutputCheck check_from_json(const Json& json) {
  OutputCheck check;
  check.kind = from_name(kChecks, "output check", json.at("kind"));
  json.at("dissimilarity").get_to(check.tolerance.dissimilarity);
  json.at("baseline_factor").get_to(check.tolerance.baseline_factor);
  json.at("terms").get_to(check.tolerance.terms);
  json.at("segments").get_to(check.segments);
  json.at("segment_length").get_to(check.segment_length);
  return check;
}

}  // namespace

std::string buffers_text(const std::vector<Buffer>& buffers, std::vector<Blob>& blobs) {
  BufferWriter writer(blobs);
  writer.write(buffers);
  return std::move(writer).finish();
}

Json write_buffers(const std::vector<Buffer>& buffers, std::vector<Blob>& blobs) {
  return parse_json(buffers_text(buffers, blobs), "a list of buffers");
}

std::vector<Buffer> read_buffers(const Json& json, std::span<const Blob> blobs) {
  std::vector<Buffer> buffers;
  read_as("list of buffers", [&] {
    for (const Json& item : json) {
      Buffer& buffer = buffers.emplace_back();
      item.at("name").get_to(buffer.name);
      buffer.dtype = dtype_from_name(item.at("dtype").get_ref<const std::string&>());
      item.at("elements").get_to(buffer.elements);
      buffer.role = from_name(kRoles, "role", item.at("role"));
      item.at("rotates").get_to(buffer.rotates);
      item.at("fresh").get_to(buffer.fresh);
      item.at("sequences").get_to(buffer.sequences);
      item.at("offsets").get_to(buffer.offsets);
      buffer.fill = fill_from_json(item.at("fill"), blobs);
      buffer.check = check_from_json(item.at("check"));
    }
  });
  return buffers;
}

}  // namespace moetune
