// What opening a family out of very many winners takes, and which part of it: with the file where temporary files lie,
// and in memory.
#pragma once

#include <filesystem>

#include "bench/runtime_bench_files.h"

namespace moetune::bench {

// `cache` holds a winner of the family.
void print_openings(const std::filesystem::path& cache, const Family& family);

}  // namespace moetune::bench
