#include "retune/member_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/environment.h"
#include "base/error.h"
#include "base/json.h"
#include "tuner/process/spawn.h"

extern char** environ;

namespace moetune {
namespace {

constexpr std::string_view kVariable = "MOETUNE_NIGHT_MEMBER=";  // PARENT:TWIN
constexpr int kLookAtParent_ms = 200;

std::vector<std::string> environment_of_member(std::size_t twin) {
  std::vector<std::string> variables;
  for (char** one = environ; *one != nullptr; ++one)
    if (!std::string_view(*one).starts_with(kVariable)) variables.emplace_back(*one);
  variables.push_back(std::string(kVariable) + std::to_string(getpid()) + ":" + std::to_string(twin));
  return variables;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

MemberProcess::MemberProcess(std::vector<std::string> arguments, std::size_t twin) {
  std::array<int, 2> orders{}, events{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders.data()) != 0) cannot_start("socketpair", errno);
  const FileDescriptor its_orders(orders[0]);
  orders_ = FileDescriptor(orders[1]);
  if (pipe2(events.data(), O_CLOEXEC) != 0) cannot_start("pipe2", errno);
  events_ = FileDescriptor(events[0]);
  const FileDescriptor its_events(events[1]);
  fcntl(events_.get(), F_SETFL, O_NONBLOCK);

  arguments.insert(arguments.begin(), "moetune");
  std::vector<std::string> variables = environment_of_member(twin);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, its_orders.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, its_events.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  const int error = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, pointers_of(arguments).data(),
                                pointers_of(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) cannot_start("posix_spawn", error);
}

MemberProcess::~MemberProcess() {
  stop();
  events_ = FileDescriptor();
  reap();
}

void MemberProcess::let_begin() {
  // A member that has died is found by read().
  if (orders_.get() >= 0) ::send(orders_.get(), "\n", 1, MSG_NOSIGNAL);
}

std::vector<Document> MemberProcess::read() {
  std::vector<Document> events;
  std::array<char, 65536> bytes{};
  for (;;) {
    const ssize_t size = ::read(events_.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size <= 0) {
      events_ = FileDescriptor();
      reap();
      break;
    }
    unread_.append(bytes.data(), static_cast<std::size_t>(size));
  }
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Document event = parse_json_or_discard(std::string_view(unread_).substr(begin, end - begin));
    if (event.is_object() && event.contains("event")) events.push_back(std::move(event));
  }
  unread_.erase(0, begin);
  return events;
}

void MemberProcess::reap() {
  if (pid_ <= 0) return;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status))
    death_ =
        "its process died of signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
}

std::optional<std::size_t> NightParent::twin_of_this_process() {
  const char* const call = environment_variable("MOETUNE_NIGHT_MEMBER");
  if (call == nullptr) return std::nullopt;
  const std::string text = call, parent = std::to_string(getppid()) + ":";
  if (!text.starts_with(parent)) return std::nullopt;  // what a member has started in its turn
  return std::strtoull(text.c_str() + parent.size(), nullptr, 10);
}

NightParent::NightParent(const std::stop_token& stop)
    : passed_on_(stop, [this] { stop_.request_stop(); }),
      listener_([this](const std::stop_token& ended) { listen(ended); }) {
  const pid_t parent = getppid();
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) stop_.request_stop();
}

void NightParent::listen(const std::stop_token& ended) {
  while (!ended.stop_requested()) {
    pollfd orders{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&orders, 1, kLookAtParent_ms) <= 0) continue;
    std::array<char, 64> bytes{};
    if (::read(STDIN_FILENO, bytes.data(), bytes.size()) <= 0) {
      stop_.request_stop();
      return;
    }
    const std::lock_guard lock(mutex_);
    begins_ = true;
    changed_.notify_all();
  }
}

bool NightParent::may_begin() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_.get_token(), [this] { return begins_; });
  return begins_ && !stop_.stop_requested();
}

void NightParent::send(const Document& event) {
  const std::string line = event.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
  if (!write_all(STDOUT_FILENO, line)) stop_.request_stop();
}

}  // namespace moetune
