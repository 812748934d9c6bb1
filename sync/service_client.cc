#include "sync/service_client.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{20};        // for a piece of an answer
constexpr std::chrono::seconds kWholeExchange{600};  // a pack may be large and the line slow
constexpr std::uint64_t kMostAnswer = 64 << 10;      // of a POST
constexpr double kLongestWait = 900;

double wait_of(const HttpResponse& response) {
  const std::string text = response.header("retry-after");
  const bool number = !text.empty() && text.size() <= 6 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::min(kLongestWait, std::strtod(text.c_str(), nullptr)) : 0;
}

ServiceFailure unexpected(const std::string& url, const HttpResponse& response) {
  const std::string said = error_text(response);
  return ServiceFailure(url + " answers " + std::to_string(response.status) + (said.empty() ? "" : ": " + said),
                        wait_of(response));
}

}  // namespace

std::string plain_text(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return to_utf8(text);
}

std::string error_text(const HttpResponse& response) {
  const nlohmann::json document = parse_json_or_discard(response.body);
  if (!document.is_object() || !document.contains("error") || !document["error"].is_object()) return "";
  const nlohmann::json& error = document["error"];
  std::string text;
  for (const char* name : {"code", "message"}) {
    if (!error.contains(name) || !error[name].is_string()) continue;
    text += (text.empty() ? "" : ": ") + error[name].get<std::string>().substr(0, 300);
  }
  return plain_text(std::move(text));
}

ServiceClient::ServiceClient(ServiceAddress address, std::stop_token stop)
    : address_(std::move(address)), stop_(std::move(stop)) {
  const Url url = parse_url(address_.url);
  if (url.target.find('?') != std::string::npos)
    throw BadInput("'" + address_.url + "' has a query; name the service alone, as http://host:7878");
  if (!address_.ca_file.empty()) certificates_in(address_.ca_file);  // what is wrong with it is said now
}

// As a stream, because that ends at a stop request.
HttpResponse ServiceClient::exchange(HttpRequest request) const {
  request.timeout = kPatience;
  const Clock::time_point deadline = Clock::now() + kWholeExchange;
  std::string body;
  body.reserve(request.max_bytes);  // of a pack: while it grew it would be there twice
  bool too_much = false;
  HttpResponse response;
  try {
    response = http_stream(
        request,
        [&](std::string_view piece) {
          too_much = body.size() + piece.size() > request.max_bytes || Clock::now() > deadline;
          if (!too_much) body += piece;
          return !too_much;
        },
        stop_);
  } catch (const BrokenEnvironment& error) {
    throw ServiceFailure(error.what());
  }
  if (stop_.stop_requested()) throw ServiceFailure("stopped while it asked " + request.url);
  if (too_much)
    throw ServiceFailure(request.url + " sends more than " + std::to_string(request.max_bytes) +
                         " bytes, or for longer than " + std::to_string(kWholeExchange.count()) + " s");
  if (response.status == 200) response.body = std::move(body);
  return response;
}

HttpResponse ServiceClient::get(const std::string& path, std::uint64_t max_bytes, const std::string& etag) const {
  HttpRequest request = request_to(address_, path);
  request.max_bytes = max_bytes;
  if (!etag.empty()) request.headers.emplace_back("If-None-Match", etag);
  HttpResponse response = exchange(request);
  const bool usual = response.status == 200 || response.status == 404 || (response.status == 304 && !etag.empty());
  if (!usual) throw unexpected(request.url, response);
  return response;
}

HttpResponse ServiceClient::post(const std::string& path, const std::string& body) const {
  HttpRequest request = request_to(address_, path);
  request.method = "POST";
  request.headers.emplace_back("Content-Type", "application/json");
  request.body = body;
  request.max_bytes = kMostAnswer;
  HttpResponse response = exchange(request);
  const int status = response.status;
  const bool refused = status == 401 || status == 403 || status == 404 || status == 408 || status == 429;
  if (refused || status < 200 || status >= 500 || (status >= 300 && status < 400))
    throw unexpected(request.url, response);
  return response;
}

}  // namespace moetune
