#include "kernels/described/npy_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/kernels/described/examples.h"
#include "tests/refusal.h"

using namespace moetune;
namespace fs = std::filesystem;

namespace {

// As NumPy writes it, at the version's width of the header's length.
std::string npy(const std::string& header, const std::string& elements, int version = 1) {
  std::string text = header + std::string(64 - header.size() % 64, ' ') + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), 0, static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + text + elements;
}

std::string header(const std::string& type, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': (" + shape + "), }";
}

class NpyFile {
 public:
  NpyFile() : path_(fs::temp_directory_path() / ("moetune_" + std::to_string(::getpid()) + ".npy")) {}
  ~NpyFile() { fs::remove(path_); }

  std::vector<std::uint8_t> read(const std::string& bytes, DType type, std::int64_t elements) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_npy(path_, type, elements);
  }

  std::string error(const std::string& bytes, DType type = DType::f32, std::int64_t elements = 6) {
    return refusal_of([&] { read(bytes, type, elements); });
  }

 private:
  fs::path path_;
};

bool says(const std::string& error, const std::string& what) {
  CAPTURE(error);
  return error.find(what) != std::string::npos && error.find(".npy: ") != std::string::npos;
}

}  // namespace

TEST_CASE("an array that NumPy wrote is read in any shape and version") {
  NpyFile file;
  const std::string elements = "abcdefghijklmnopqrstuvwx";
  const std::vector<std::uint8_t> bytes(elements.begin(), elements.end());
  CHECK(file.read(npy(header("<f4", "2, 3"), elements), DType::f32, 6) == bytes);
  CHECK(file.read(npy(header("<f4", "6,"), elements, 2), DType::f32, 6) == bytes);
  CHECK(file.read(npy(header("<u4", "6,", "True"), elements, 3), DType::i32, 6) == bytes);
  CHECK(file.read(npy(header("<u2", "3, 2, 2"), elements), DType::bf16, 12) == bytes);
  CHECK(file.read(npy(header("<i8", "3, 1"), elements), DType::i64, 3) == bytes);
  CHECK(file.read(npy(header("|b1", "24,"), elements), DType::u8, 24) == bytes);
  CHECK(file.read(npy(header("<f4", ""), "abcd"), DType::f32, 1).size() == 4);
}

TEST_CASE("a file that is no such array is refused") {
  NpyFile file;
  const std::string elements(24, 'x');
  CHECK(says(file.error("PK"), "it is no .npy file"));
  CHECK(says(file.error(npy(header("<f4", "2, 3"), elements, 4)), "version"));
  CHECK(says(file.error(npy(header("<f8", "2, 3"), elements)), "its elements are '<f8'; f32 takes '<f4'"));
  CHECK(says(file.error(npy(header("|O", "2, 3"), elements)), "its elements are '|O'"));
  CHECK(says(file.error(npy(header(">f4", "2, 3"), elements)), "its elements are '>f4'"));
  CHECK(says(file.error(npy(header("<f4", "2, 3", "True"), elements)), "Fortran's order"));
  CHECK(says(file.error(npy(header("<f4", "2, 4"), elements)), "it has 8 elements; the tensor has 6"));
  CHECK(says(file.error(npy(header("<f4", "2, 3"), elements + "y")), "25 bytes"));
  CHECK(says(file.error(npy(header("<f4", "2, 3"), elements.substr(1))), "23 bytes"));
  CHECK(says(file.error(npy(header("<f4", "-2, -3"), elements)), "not as NumPy writes it"));
  CHECK(says(file.error(npy(header("<f4", "4294967296, 4294967296"), elements)), "more than 2^40 elements"));
  CHECK(says(file.error(npy(header("<f4", std::string(99, '1').insert(1, ", ")), elements)), "not as NumPy"));
  std::string many;
  for (int i = 0; i < 40; ++i) many += "1, ";
  CHECK(says(file.error(npy(header("<f4", many), elements)), "more than 32 dimensions"));
  CHECK(says(file.error(npy("{'descr': '<f4", elements)), "not as NumPy writes it"));
  CHECK(says(file.error(npy("{'shape': (6,)}", elements)), "not as NumPy writes it"));
  CHECK(says(file.error(npy(header("<f4", "2, 3"), "").substr(0, 40)), "longer than the file"));
  CHECK(says(file.error(npy(header("<f4", "2, 3"), std::string(80'000, 'x'))), "larger than the tensor"));
  CHECK(says(file.error("", DType::f32, std::int64_t{1} << 30), "1,000,000,000"));
}
