// What comes from a service, or lies beside a pack: signature files and lists of packs.
#include <algorithm>

#include "base/error.h"
#include "cache/pack_signature.h"
#include "http/http_client.h"
#include "sync/pack_folder.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/sync/scripted_server.h"

namespace moetune::fuzz {
namespace {

constexpr const char* kPack = "the bytes of a pack";

SecretKey fixed_key() {
  SecretKey key;
  key.seed.fill(7);
  return key;
}

// An altered signature is refused, or is one that says the same.
class SignatureTarget : public Target {
 public:
  SignatureTarget() : mutator_({valid()}, {" ", "\n", "moetune signature 1", "0000000000000000", "f"}) {
    const PublicKey own = public_key_of(fixed_key());
    trusted_ = TrustedKeys({hex_text(own.bytes.data(), own.bytes.size())});
  }
  std::string make(Random& random) override { return mutator_.make(random); }
  void run(const std::string& input) override {
    const std::vector<PackSignature> all = parse_signatures(input, "fuzz.sig");
    if (signatures_text(all) != input) throw Finding("a signature reads differently from what it writes");
    const PackSignature right = sign_pack(fixed_key(), kPack);
    const bool genuine = std::any_of(all.begin(), all.end(), [&](const PackSignature& one) {
      return one.key_id == right.key_id && one.signature == right.signature;
    });
    if (trusted_.why_refused(kPack, all).empty() != genuine) throw Finding("an altered signature is accepted");
    if (trusted_.why_refused("other bytes", all).empty()) throw Finding("a signature holds for other bytes");
  }

 private:
  static std::string valid() {
    SecretKey other;
    return signatures_text({sign_pack(fixed_key(), kPack), sign_pack(other, kPack)});
  }

  const Mutator mutator_;
  TrustedKeys trusted_;
};

class PackListTarget : public Target {
 public:
  std::string make(Random& random) override { return mutator_.make(random); }
  void run(const std::string& input) override {
    for (const ListedPack& pack : parse_pack_list(input, "fuzz").packs) {
      if (std::filesystem::path(pack.name).filename() != pack.name || pack.name.starts_with('.') ||
          !pack.name.ends_with(".pack"))
        throw Finding("a pack's name leaves its folder");
      if (pack.bytes == 0 || pack.bytes > kMostPackBytes) throw Finding("a pack of no size is taken");
    }
  }

 private:
  const Mutator mutator_{
      {R"json({"packs": [{"name": "a.pack", "hardware": "NVIDIA H200", "bytes": 4853760, "sha256":
"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "signed": true}]})json"},
      {"../", "/", "\"name\"", "\\u0000", "-1", "1e300", "18446744073709551616", "null", ".pack", "\"packs\""}};
};

// Bytes that a service answers with: they end in an answer or in a refusal, and hold no memory.
class AnswerTarget : public Target {
 public:
  std::string make(Random& random) override { return mutator_.make(random); }
  void run(const std::string& input) override {
    const testing::ScriptedServer server([&](const testing::ScriptedServer::Request&) { return input; });
    const HttpRequest request{
        .url = server.url() + "/v1/packs", .timeout = std::chrono::seconds(2), .max_bytes = 1 << 16};
    if (http_request(request).body.size() > request.max_bytes) throw Finding("a body is longer than its limit");
    http_stream(request, [](std::string_view) { return true; });
  }

 private:
  const Mutator mutator_{
      {testing::http_answer(200, R"({"packs": []})", "ETag: \"a\"\r\nRetry-After: 3\r\n"),
       testing::http_answer(304, ""),
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6;a=b;c=\"d\"\r\n{\"pack\r\n7;e\r\ns\": []}\r\n0;f\r\n"
       "X-A: b\r\nTransfer-Encoding: x\r\n\r\n",
       "HTTP/1.0 200 OK\r\n\r\nid: 1\nevent: job\ndata: {}\n\n", "HTTP/1.1 100 Continue\r\n\r\n"},
      {"\r\n", ";a=", "0\r\n", "Content-Length: 99999999999999\r\n", "Transfer-Encoding: chunked\r\n",
       "ffffffffffffffff", "HTTP/1.0", "Connection: keep-alive\r\n", "\xff"}};
};

}  // namespace

std::unique_ptr<Target> answer_target(const Folder&) { return std::make_unique<AnswerTarget>(); }
std::unique_ptr<Target> signature_target(const Folder&) { return std::make_unique<SignatureTarget>(); }
std::unique_ptr<Target> pack_list_target(const Folder&) { return std::make_unique<PackListTarget>(); }

}  // namespace moetune::fuzz
