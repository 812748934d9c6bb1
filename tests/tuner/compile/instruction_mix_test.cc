#include "tuner/compile/instruction_mix.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/tuner/compile/made_up_cubin.h"
#include "tuner/compile/compiler.h"

using namespace moetune;

namespace {

using Bytes = std::vector<std::uint8_t>;

// As sm_90a encodes them, predicates and operands among the upper bits.
const std::vector<std::uint64_t> kMain = {0x000000082010723c,  // HMMA
                                          0x01e00000181879f0,  // HGMMA
                                          0x0000000005087984,  // LDS
                                          0x0000000a05007388,  // STS
                                          0x00000000040c783b,  // LDSM
                                          0x0000000402047981,  // LDG
                                          0x0000000302007986,  // STG
                                          0x0000000002047fae,  // LDGSTS
                                          0x00000004080075b4,  // UTMALDG
                                          0x0000000500050308,  // MUFU, under a predicate
                                          0x0c401f0005047f89,  // SHFL
                                          0x0000000605047223,  // FFMA of registers
                                          0x3fb8aa3b05047820,  // FMUL by a constant
                                          0x0000000605047221,  // FADD
                                          0x0000000605047824,  // IMAD, which is none of these
                                          0x000000000000794d,  // EXIT
                                          0xfffffffc00fc7947,  // BRA
                                          0x00000000fffff984,  // @!PT LDS
                                          0x0000000000007918,  // NOP, twice
                                          0x0000000000007918};
const InstructionMix kMainMix = {.total = 17, .tensor = 2, .shared = 3, .special = 1};

Bytes two_entries() { return made_up_cubin({{"attend_combine", {0x000000000000794d}}, {"attend", kMain}}); }

Bytes with_header(Bytes bytes, void (*change)(Elf64_Ehdr&)) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

// Each piece is a block of its own size, so that a sanitizer sees a read past its end.
void check_survives(const Bytes& whole, const std::string& entry, std::size_t step) {
  const auto most = static_cast<std::int64_t>(whole.size() / 16);
  for (std::size_t size = 0; size < whole.size(); size += step) {
    const Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto mix = instruction_mix(bytes, entry);
    // Where only what nobody reads is missing.
    if (mix) REQUIRE(mix == instruction_mix(whole, entry));
  }
  std::mt19937 random(1);
  const std::size_t table = whole.size() > 1024 ? whole.size() - 1024 : sizeof(Elf64_Ehdr);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = whole;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      // Mostly what says where things are.
      const std::size_t at = random() % 3 == 0   ? random() % bytes.size()
                             : random() % 2 == 0 ? random() % sizeof(Elf64_Ehdr)
                                                 : table + random() % (bytes.size() - table);
      bytes[at] = static_cast<std::uint8_t>(random() % 4 == 0 ? 0xff : random());
    }
    const auto mix = instruction_mix(bytes, entry);
    if (mix) REQUIRE(mix->total <= most);
  }
}

}  // namespace

TEST_CASE("instructions are counted by kind, without the padding, in the entry that is named") {
  CHECK(instruction_mix(two_entries(), "attend") == kMainMix);
  CHECK(instruction_mix(two_entries(), "attend_combine") == InstructionMix{.total = 1});
  CHECK_FALSE(instruction_mix(two_entries(), "atten"));
  CHECK_FALSE(instruction_mix(two_entries(), "tend"));
  CHECK_FALSE(instruction_mix(two_entries(), ""));
  CHECK(instruction_mix(made_up_cubin({{"attend", {}}}), "attend") == InstructionMix{});
}

TEST_CASE("what is no cubin, or one of an architecture that was not compared, has no mix") {
  CHECK_FALSE(instruction_mix({}, "attend"));
  CHECK_FALSE(instruction_mix(Bytes(4321), "attend"));
  const auto refuses = [](void (*change)(Elf64_Ehdr&)) {
    return !instruction_mix(with_header(two_entries(), change), "attend");
  };
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_ident[EI_MAG3] = 'f'; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_ident[EI_CLASS] = ELFCLASS32; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_ident[EI_DATA] = ELFDATA2MSB; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_machine = EM_X86_64; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_shentsize = 40; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_shoff = ~0ull; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_shstrndx = 77; }));
  CHECK(refuses([](Elf64_Ehdr& header) { header.e_flags = 0x6004b04; }));  // sm_75
  // As CUDA 12 writes it.
  CHECK(refuses([](Elf64_Ehdr& header) {
    header.e_ident[EI_ABIVERSION] = 7;
    header.e_flags = 0x4b054b;
  }));
  CHECK_FALSE(refuses([](Elf64_Ehdr& header) {
    header.e_ident[EI_ABIVERSION] = 7;
    header.e_flags = 0x5a055a;
  }));
}

TEST_CASE("a truncated or altered cubin is survived") {
  check_survives(two_entries(), "attend", 1);
  Bytes all_but_one = two_entries();
  all_but_one.pop_back();
  CHECK_FALSE(instruction_mix(all_but_one, "attend"));
}

TEST_CASE("the compiler's own cubins hold what their source asks for") {
  const std::string source = R"(
    extern "C" __global__ void second(float* x) { x[threadIdx.x] *= 3; }
    extern "C" __global__ void first(float* x) {
      __shared__ float tile[256];
      unsigned to = (unsigned)__cvta_generic_to_shared(tile);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to + 16 * threadIdx.x), "l"(x));
      asm volatile("cp.async.wait_all;");
      __syncthreads();
      float c[4] = {tile[threadIdx.x ^ 9], 1, 2, 3};
      unsigned a = __float_as_uint(tile[threadIdx.x ^ 33]);
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a));
      float e;
      asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(c[0] * c[1] + c[2] * c[3]));
      x[threadIdx.x] = __shfl_xor_sync(~0u, e, 16);
    })";
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    CAPTURE(architecture);
    const Compiler compiler(
        {.architecture = architecture, .reader = [&](const std::string&) { return std::optional(source); }});
    const Build build = compiler.compile({"k.cu", {}});
    REQUIRE_MESSAGE(build.outcome == Outcome::ok, build.log);
    const auto first = instruction_mix(build.cubin, "first");
    REQUIRE(first);
    CHECK(first->total > 15);
    CHECK(first->tensor == 1);
    CHECK(first->shared == 2);
    CHECK(first->special == 1);
    const auto second = instruction_mix(build.cubin, "second");
    REQUIRE(second);
    CHECK(second->tensor == 0);
    CHECK_FALSE(instruction_mix(build.cubin, "third"));
    check_survives(build.cubin, "first", 97);
  }
}
