#include "kernels/described/npy_file.h"

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::size_t kNpyHeader = 64 << 10, kNpyRank = 32;
constexpr std::int64_t kNpyElements = std::int64_t{1} << 40;

// NumPy's names for elements of such a size, its own first; each has three letters.
std::string_view numpy_types(DType type) {
  static const std::map<DType, std::string_view> types = {
      {DType::f32, "<f4"},     {DType::f64, "<f8"},     {DType::f16, "<f2"},        {DType::bf16, "<u2"},
      {DType::e4m3, "|u1"},    {DType::i8, "|i1 |u1"},  {DType::u8, "|u1 |i1 |b1"}, {DType::i16, "<i2 <u2"},
      {DType::u16, "<u2 <i2"}, {DType::i32, "<i4 <u4"}, {DType::u32, "<u4 <i4"},    {DType::i64, "<i8 <u8"}};
  return types.at(type);
}

// The dictionary of the header, as NumPy prints it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::string_view type;
  std::int64_t elements = 1;

  void read() {
    expect("{'descr': '");
    const std::size_t end = std::min(text_.find('\''), text_.size());
    type = text_.substr(0, end);
    text_.remove_prefix(end);
    expect("', 'fortran_order': ");
    const bool is_fortran = accept("True");
    if (!is_fortran) expect("False");
    expect(", 'shape': (");
    std::size_t rank = 0;
    for (; !accept(")"); ++rank) {
      if (rank == kNpyRank) fail("it has more than 32 dimensions");
      read_size();
      if (!accept(", ")) accept(",");
    }
    if (is_fortran && rank > 1) fail("it is in Fortran's order; write numpy.ascontiguousarray of it");
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw BadInput(file_ + ": " + why); }

  bool accept(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  void expect(std::string_view word) {
    if (!accept(word)) fail("its header is not as NumPy writes it");
  }

  void read_size() {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
    if (error != std::errc() || size < 0) fail("its header is not as NumPy writes it");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kNpyElements)
      fail("it has more than 2^40 elements");
  }

  std::string_view text_;
  const std::string& file_;
};

}  // namespace

std::vector<std::uint8_t> read_npy(const std::filesystem::path& file, DType type, std::int64_t elements) {
  const std::string name = file.string();
  const auto fail = [&](const std::string& why) { throw BadInput(name + ": " + why); };
  const std::int64_t bytes = elements * dtype_bytes(type);
  if (elements < 0 || bytes > kMostArrayBytes) fail("it would have more than 1,000,000,000 bytes");
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(file, failed);
  if (!failed && size > static_cast<std::uintmax_t>(bytes) + kNpyHeader)
    fail("it is larger than the tensor, which has " + std::to_string(elements) + " elements");
  const std::string content = read_regular_file(file, static_cast<std::size_t>(bytes) + kNpyHeader);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(content[i]); };
  if (!content.starts_with("\x93NUMPY") || content.size() < 12) fail("it is no .npy file");
  const bool is_long = byte(6) > 1;
  if (byte(6) < 1 || byte(6) > 3) fail("it is of a .npy version that is not known here");
  const std::size_t begin = is_long ? 12 : 10;
  std::size_t length = byte(8) + (std::size_t{byte(9)} << 8);
  if (is_long) length += (std::size_t{byte(10)} << 16) + (std::size_t{byte(11)} << 24);
  if (length > kNpyHeader || begin + length > content.size()) fail("its header is longer than the file");
  NpyHeader header(std::string_view(content).substr(begin, length), name);
  header.read();
  const std::string_view types = numpy_types(type);
  if (header.type.size() != 3 || types.find(header.type) == std::string_view::npos)
    fail("its elements are '" + std::string(header.type.substr(0, 16)) + "'; " + std::string(dtype_name(type)) +
         " takes '" + std::string(types.substr(0, 3)) + "'");
  if (header.elements != elements)
    fail("it has " + std::to_string(header.elements) + " elements; the tensor has " + std::to_string(elements));
  if (content.size() - begin - length != static_cast<std::size_t>(bytes))
    fail("it holds " + std::to_string(content.size() - begin - length) + " bytes of elements, not " +
         std::to_string(bytes));
  return {content.begin() + static_cast<std::ptrdiff_t>(begin + length), content.end()};
}

std::vector<std::uint8_t> read_array(const std::filesystem::path& file, DType type, std::int64_t elements) {
  if (file.extension() == ".npy") return read_npy(file, type, elements);
  const std::int64_t bytes = elements * dtype_bytes(type);
  if (elements < 0 || bytes > kMostArrayBytes)
    throw BadInput(file.string() + ": it would have more than 1,000,000,000 bytes");
  const std::string content = read_regular_file(file, static_cast<std::size_t>(bytes) + 1);
  if (content.size() != static_cast<std::size_t>(bytes))
    throw BadInput(file.string() + ": it has " + std::to_string(content.size()) + " bytes; the tensor's " +
                   std::to_string(elements) + " elements have " + std::to_string(bytes));
  return {content.begin(), content.end()};
}

}  // namespace moetune
