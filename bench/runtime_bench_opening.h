// Times the opening of a family out of very many winners, by its parts: with the cache in the temporary folder and in
// memory.
#pragma once

#include <filesystem>

#include "bench/runtime_bench_files.h"

namespace moetune::bench {

// `cache` holds a winner of the family.
void print_openings(const std::filesystem::path& cache, const Family& family);

}  // namespace moetune::bench
