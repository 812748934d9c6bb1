#include "tuner/ceilings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

using namespace moetune;

TEST_CASE("the floor is the least launch and the bytes at the read ceiling") {
  CHECK_FALSE(Ceilings{}.floor_us(1e9));
  CHECK_FALSE((Ceilings{.launch_us = 1.5}.floor_us(1e9)));
  CHECK_FALSE((Ceilings{.read_tb_s = 4.0}.floor_us(0)));
  CHECK(*Ceilings{.read_tb_s = 4.0}.floor_us(4e9) == doctest::Approx(1000));
  CHECK(*Ceilings{.read_tb_s = 4.0, .launch_us = 1.5}.floor_us(4e6) == doctest::Approx(2.5));
  CHECK(*Ceilings{.read_tb_s = 4.0, .launch_us = 1.5}.read_us(4e6) == doctest::Approx(1));
  CHECK_FALSE(Ceilings{.launch_us = 1.5}.read_us(4e6));
}

TEST_CASE("ceilings that are known are kept, those that are not stay") {
  const auto path =
      std::filesystem::temp_directory_path() / ("moetune_ceilings_" + std::to_string(::getpid()) + ".db");
  const HardwareKey gpu{.name = "GPU"}, other{.name = "Other GPU"};
  {
    Cache cache = Cache::open(path, Cache::Mode::create);
    store_ceilings(cache, gpu, {.read_tb_s = 4.5, .copy_tb_s = 4.1});
    store_ceilings(cache, gpu, {.read_tb_s = 4.6, .launch_us = 1.5});
    const Ceilings stored = stored_ceilings(&cache, gpu);
    CHECK(stored.read_tb_s == 4.6);
    CHECK(stored.copy_tb_s == 4.1);
    CHECK(stored.launch_us == 1.5);
    CHECK_FALSE(stored_ceilings(&cache, other).read_tb_s);
    CHECK_FALSE(stored_ceilings(nullptr, gpu).read_tb_s);
  }
  for (const char* suffix : {"", "-wal", "-shm", "-searches"})
    std::filesystem::remove(path.string() + suffix);
}
