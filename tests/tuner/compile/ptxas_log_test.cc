#include "tuner/compile/ptxas_log.h"

#include <doctest/doctest.h>

using moetune::EntryFacts;
using moetune::parse_ptxas_log;

// Logs as NVRTC 13.0 wrote them for one source: an entry that calls a function kept out of line, and one that
// spills.
TEST_CASE("an sm_90a log gives registers, spills, stack and shared memory of every entry") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'caller' for 'sm_90a'\n"
      "ptxas info    : Function properties for caller\n"
      "ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 160 bytes cumulative stack size, 1200 bytes smem\n"
      "ptxas info    : Compile time = 13.131 ms\n"
      "ptxas info    : Function properties for _Z6helperPfi\n"
      "ptxas         .     24 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'spiller' for 'sm_90a'\n"
      "ptxas info    : Function properties for spiller\n"
      "ptxas         .     1648 bytes stack frame, 2092 bytes spill stores, 2608 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers, 1648 bytes cumulative stack size\n"
      "ptxas info    : Compile time = 86.014 ms\n");
  REQUIRE(entries.size() == 2);
  CHECK(entries.at("caller") == EntryFacts{40, 0, 0, 160, 1200, ""});
  CHECK(entries.at("spiller") == EntryFacts{32, 2092, 2608, 1648, 0, ""});
}

TEST_CASE("an sm_80 log has constant memory on the same line") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'caller' for 'sm_80'\n"
      "ptxas info    : Function properties for caller\n"
      "ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 160 bytes cumulative stack size, 1200 bytes smem, "
      "364 "
      "bytes cmem[0]\n");
  CHECK(entries.at("caller") == EntryFacts{40, 0, 0, 160, 1200, ""});
}

TEST_CASE("sm_120a and the last line without a line feed") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'spiller' for 'sm_120a'\n"
      "ptxas info    : Function properties for spiller\n"
      "ptxas         .     1376 bytes stack frame, 1528 bytes spill stores, 1820 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 0 barriers, 1376 bytes cumulative stack size");
  CHECK(entries.at("spiller") == EntryFacts{64, 1528, 1820, 1376, 0, ""});
}

TEST_CASE("older toolchains: indented spills, no barriers, shared memory in two parts") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 16 registers, 1024+16 bytes smem, 372 bytes cmem[0]\n");
  CHECK(entries.at("k") == EntryFacts{16, 4, 8, 0, 1040, ""});
}

// As NVRTC 13.0 wrote it for a kernel that adds to an accumulator before it has waited for the product.
TEST_CASE("an entry whose wgmma ptxas serialized says why, and the others of the log do not") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 63 by compiler to allow use of "
      "registers defined by GMMA in function 'serial'\n"
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "insufficient register resources for the wgmma pipeline in the function 'serial'\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'fine' for 'sm_90a'\n"
      "ptxas info    : Function properties for fine\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 10 registers, used 0 barriers\n"
      "ptxas info    : Compile time = 1.881 ms\n"
      "ptxas info    : Compiling entry function 'serial' for 'sm_90a'\n"
      "ptxas info    : Function properties for serial\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 30 registers, used 0 barriers\n"
      "ptxas info    : Compile time = 7.776 ms\n");
  CHECK(entries.at("fine") == EntryFacts{10, 0, 0, 0, 0, ""});
  CHECK(entries.at("serial") == EntryFacts{30, 0, 0, 0, 0, "insufficient register resources for the wgmma pipeline"});
}

TEST_CASE("waits that ptxas adds serialize nothing, nor do lines about functions that are no entries") {
  const auto entries = parse_ptxas_log(
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 70 by compiler to allow use of "
      "registers defined by GMMA in function 'serial'\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "the presence of Extern calls in the function '_Z6helperPf'\n"
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Compiling entry function 'serial' for 'sm_90a'\n"
      "ptxas info    : Used 30 registers, used 0 barriers\n");
  REQUIRE(entries.size() == 1);
  CHECK(entries.at("serial").serialized.empty());
}

TEST_CASE("text that is none of ptxas's is passed over") {
  CHECK(parse_ptxas_log("").empty());
  CHECK(parse_ptxas_log("x.cu(3): warning: 12 bytes stack frame of nothing, Used 3 registers\n").empty());
  const auto entries = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "x.cu(3): warning #177-D: variable was declared\n"
      "ptxas info    : Used registers, bytes smem\n");
  CHECK(entries.at("k") == EntryFacts{});
}
