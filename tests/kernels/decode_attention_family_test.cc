#include <doctest/doctest.h>

#include "kernels/family_interface.h"
#include "kernels/registry.h"

using namespace moetune;

namespace {

const Kernel& kernel() { return find_kernel("decode_attention"); }

Problem problem_of(const std::string& text) {
  return parse_problem("decode_attention", kernel().schema(), nullptr, text);
}

std::unique_ptr<const FamilyInterface> family(const std::string& text) {
  return kernel().family_interface(problem_of(text));
}

}  // namespace

TEST_CASE("a batch is uneven if its contexts fill less than nine tenths of what the longest would") {
  const auto all = family("batch=8,q_heads=32,kv_heads=8,context=4096");
  CHECK_FALSE(all->table_point({8, 8, 4096}, 8 * 4096).uneven);
  CHECK_FALSE(all->table_point({8, 8, 4096}, 8 * 3700).uneven);
  CHECK(all->table_point({8, 8, 4096}, 8 * 3600).uneven);
  CHECK(all->table_point({8, 8, 4096}, 0).uneven);
  CHECK_FALSE(all->table_point({1, 8, 4096}, 0).uneven);
}

TEST_CASE("with a window a batch is even once most sequences are longer than what they see") {
  const auto windowed = family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128");
  CHECK_FALSE(windowed->table_point({8, 8, 4096}, 8 * 1000).uneven);
  CHECK_FALSE(windowed->table_point({8, 8, 4096}, 0).uneven);
  CHECK(windowed->table_point({8, 8, 4096}, 8 * 200).uneven);
  CHECK(windowed->table_point({8, 8, 128}, 0).uneven);
  const Problem ragged =
      problem_of("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128,lengths=ragged");
  CHECK_FALSE(windowed->table_point_of(ragged).uneven);
}
