#include "session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <tuple>

#include "entry.h"
#include "log.h"

namespace emu {
namespace {

/* Which fields a kind of request uses; protocol.h is the contract. */
struct Shape {
  bool context, object, value, bytes;
  size_t fds;
};
constexpr Shape kShapes[kRequestKinds + 1] = {
    {},
    {false, false, false, false, 0}, // device_info
    {false, false, false, false, 0}, // telemetry
    {false, true, true, false, 0},   // context_create
    {true, false, false, false, 0},  // context_destroy
    {true, false, false, true, 0},   // memory_alloc
    {true, true, false, false, 0},   // memory_free
    {true, false, false, false, 0},  // memory_info
    {true, false, false, true, 1},   // host_register
    {true, true, false, false, 0},   // host_unregister
    {true, false, false, true, 1},   // program_load
    {true, true, false, false, 0},   // program_unload
    {true, true, true, false, 0},    // queue_create
    {true, true, false, false, 0},   // queue_destroy
    {true, false, false, false, 0},  // fault
    {true, false, true, false, 0},   // activity_enable
    {true, false, true, false, 0},   // activity_read
    {false, false, false, false, 0}, // telemetry_more
    {false, false, true, false, 0},  // power_mode
    {false, false, true, false, 0},  // set_power_mode
    {false, false, false, false, 0}, // firmware_info
    {false, true, true, true, 1},    // firmware_write
    {false, false, false, false, 0}, // firmware_activate
    {false, false, false, false, 0}, // firmware_rollback
    {false, false, false, false, 0}, // device_reset
    {false, true, true, false, 0},   // event_read
    {true, true, false, false, 0},   // queue_reset
    {true, true, true, false, 0},    // queue_fault
    {false, false, false, true, 1},  // fault_inject
    {false, false, true, false, 0},  // fault_clear
    {false, false, true, false, 0},  // fault_list
    {true, true, true, true, 0},     // queue_cancel
    {true, false, false, false, 0},  // fence_create
    {true, true, true, false, 0},    // fence_export
    {true, true, true, false, 0},    // fence_import
    {true, true, false, false, 0},   // fence_destroy
    {true, true, true, false, 0},    // fence_signal
    {false, false, true, false, 0},  // link_info
    {false, true, true, false, 0},   // link_set_up
    {true, false, false, false, 0},  // peer_export
    {true, true, true, false, 0},    // peer_import
    {true, true, true, true, 0},     // memory_protect
};

/* What a client may still ask after its context was lost. */
bool works_when_lost(RequestKind kind) {
  return kind == RequestKind::context_destroy || kind == RequestKind::fault || kind == RequestKind::memory_info ||
         kind == RequestKind::queue_fault || kind == RequestKind::activity_enable ||
         kind == RequestKind::activity_read ||
         kind == RequestKind::queue_destroy || kind == RequestKind::host_unregister ||
         kind == RequestKind::program_unload || kind == RequestKind::memory_free ||
         kind == RequestKind::fence_destroy;
}

/* What is too long for a request, from a regular file only: reading a pipe would block the session for ever. */
std::vector<std::byte> read_memfd(const Descriptor& fd, uint64_t bytes, uint64_t most, emu_status status,
                                  const char* what) {
  struct stat file {};
  if (bytes == 0 || bytes > most || fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      uint64_t(file.st_size) < bytes) {
    throw Refusal(status, EMU_SCOPE_COMMAND,
                  format("%s: expected 1 to %llu bytes in a memfd, got %llu", what,
                         static_cast<unsigned long long>(most), static_cast<unsigned long long>(bytes)));
  }
  std::vector<std::byte> out(bytes);
  if (pread(fd.get(), out.data(), out.size(), 0) != ssize_t(out.size())) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, format("%s: cannot be read: %s", what, std::strerror(errno)));
  }
  return out;
}

} // namespace

void turn_away(int socket, const Options& options, std::string_view cause) {
  Welcome welcome{kWelcomeMagic, options.interface_version, EMU_ERROR_HOST, {}};
  copy_text(welcome.cause, cause);
  send_message(socket, &welcome, sizeof welcome);
  log("a client was turned away: %s", welcome.cause);
}

Session::Session(Device& device, Descriptor&& socket, std::shared_ptr<Quotas> quotas, const Options& options,
                 std::function<void()> ended)
    : device_(device), quotas_(std::move(quotas)), itself_(quotas_->connections, 1), socket_(std::move(socket)),
      interface_version_(options.interface_version), handshake_seconds_(options.handshake_seconds) {
  const auto work = [this, ended = std::move(ended)] {
    try {
      serve();
    } catch (const std::exception& error) { // e.g. no memory on the host: this client goes, others stay
      log("client %d: session ended: %s", client_, error.what());
    }
    hang_up(); // first: a client that is there still is told that it lost the device, and not a queue
    if (!contexts_.empty()) {
      emu_event event = new_event(EMU_EVENT_CLIENT_LOST, EMU_OK, EMU_SCOPE_CONTEXT);
      event.process = client_;
      char text[64];
      std::snprintf(text, sizeof text, "the client left %zu contexts behind", contexts_.size());
      device_.note(event, text, user_);
    }
    for (const auto& [id, context] : contexts_) { // before what takes its time
      char why[96];
      std::snprintf(why, sizeof why, "the fence is broken: process %d, which could signal it, ended", client_);
      context->break_fences(why);
    }
    while (!contexts_.empty()) {
      const std::shared_ptr<Context> context = contexts_.begin()->second;
      forget(context->id);
      device_.context_destroy(context);
    }
    log("client %d left", client_);
    ended_ = true;
    ended();
  };
  try {
    message_.resize(sizeof(Reply));
    thread_ = std::thread(work);
  } catch (const std::system_error& error) {
    turn_away(socket_.get(), options, std::string("the device process cannot start a thread: ") + error.what());
    throw;
  } catch (const std::bad_alloc&) {
    turn_away(socket_.get(), options, kNoMemory);
    throw;
  }
}

Session::~Session() { thread_.join(); }

void Session::hang_up() { shutdown(socket_.get(), SHUT_RDWR); }

void Session::look() {
  pollfd socket{socket_.get(), POLLRDHUP, 0};
  if (poll(&socket, 1, 0) <= 0) return;
  const std::lock_guard lock(contexts_mutex_);
  for (const auto& [id, context] : contexts_) context->stop();
}

void Session::forget(uint64_t context) {
  const std::lock_guard lock(contexts_mutex_);
  contexts_.erase(context);
}

/* For the next message; 0 is for ever. */
void Session::wait_at_most(uint64_t seconds) {
  const timeval most{time_t(seconds), 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
}

bool Session::shake_hands() {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
    client_ = peer.pid;
    user_ = peer.uid;
  }
  Hello hello{};
  Welcome welcome{kWelcomeMagic, interface_version_, EMU_OK, {}};
  wait_at_most(handshake_seconds_); // who says nothing keeps no place
  const ssize_t got = receive_message(socket_.get(), &hello, sizeof hello, fds_);
  if (got <= 0) return false;
  wait_at_most(0);
  if (got != sizeof hello || hello.magic != kHelloMagic) {
    welcome.status = EMU_ERROR_VERSION;
    copy_text(welcome.cause, "the client does not speak this protocol");
  } else if (!interfaces_meet(hello.interface_version, interface_version_)) {
    welcome.status = EMU_ERROR_VERSION;
    copy_text(welcome.cause, format("driver interface of the client is %u.%u, of the device %u.%u",
                                    hello.interface_version / 1000, hello.interface_version % 1000,
                                    interface_version_ / 1000, interface_version_ % 1000));
  }
  client_interface_ = hello.interface_version;
  log("client %d came, interface %u: %s", client_, hello.interface_version,
      welcome.status == EMU_OK ? "served" : welcome.cause);
  return send_message(socket_.get(), &welcome, sizeof welcome) && welcome.status == EMU_OK;
}

void Session::serve() {
  if (!shake_hands()) return;
  while (true) {
    Request request;
    const ssize_t got = receive_message(socket_.get(), &request, sizeof request, fds_);
    const bool no_room = got < 0 && errno == EMFILE;
    if (got == 0 || (got < 0 && errno != EMSGSIZE && !no_room)) return;
    Answer answer;
    message_.resize(sizeof(Reply));
    try {
      if (no_room) {
        throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND,
                      format("the device process cannot take what the request carries: %s", std::strerror(EMFILE)),
                      "let other clients of the device end, or give emud a higher limit of open files");
      }
      if (got != sizeof request) {
        throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                      format("size of a request: expected %zu bytes", sizeof request));
      }
      check(request, fds_.size());
      answer = this->answer(request);
    } catch (const std::bad_alloc&) {
      answer = Answer{};
      answer.reply.status = EMU_ERROR_HOST;
      answer.reply.scope = EMU_SCOPE_COMMAND;
      copy_text(answer.reply.cause, kNoMemory);
      copy_text(answer.reply.mend, "free memory on the host of the device process");
    } catch (const Refusal& refusal) {
      answer = Answer{};
      answer.reply.status = refusal.status;
      answer.reply.scope = refusal.scope;
      copy_text(answer.reply.cause, refusal.cause);
      copy_text(answer.reply.mend, refusal.mend);
    }
    answer.reply.kind = got == sizeof request ? request.kind : 0;
    fds_.clear();
    if (answer.reply.status != EMU_OK) message_.resize(sizeof(Reply));
    std::memcpy(message_.data(), &answer.reply, sizeof(Reply));
    if (!send_message(socket_.get(), message_.data(), message_.size(), answer.fds.data(), answer.fd_count)) return;
  }
}

template <typename T>
void Session::set_payload(const T& value, size_t bytes) {
  message_.resize(sizeof(Reply) + bytes);
  std::memcpy(message_.data() + sizeof(Reply), &value, bytes);
}

bool Session::is_owner() const { return user_ == geteuid(); }

void Session::require_owner(const char* to) const {
  if (is_owner()) return;
  throw Refusal(EMU_ERROR_PERMISSION, EMU_SCOPE_COMMAND,
                format("only the user that the device process runs as may %s: expected uid %u, got %u", to, geteuid(),
                       user_),
                "ask as that user");
}

void Session::check(const Request& request, size_t fds) const {
  const auto refuse = [](const std::string& cause) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, cause);
  };
  if (request.kind == 0 || request.kind > kRequestKinds) {
    throw Refusal(EMU_ERROR_NOT_SUPPORTED, EMU_SCOPE_COMMAND,
                  format("kind of a request: expected 1 to %u, got %u", kRequestKinds, request.kind),
                  "use a client of the device's interface");
  }
  const Shape& shape = kShapes[request.kind];
  if (request.reserved != 0 || (!shape.context && request.context != 0) || (!shape.object && request.object != 0) ||
      (!shape.value && request.value != 0) || (!shape.bytes && request.bytes != 0)) {
    refuse(format("request %u: a field that it does not use is not zero", request.kind));
  }
  if (fds != shape.fds) refuse(format("request %u: expected %zu descriptors, got %zu", request.kind, shape.fds, fds));
}

std::shared_ptr<Context> Session::context(const Request& request) const {
  const auto found = contexts_.find(request.context);
  if (found == contexts_.end()) {
    throw Refusal(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_CONTEXT,
                  format("no context %llu of this client", static_cast<unsigned long long>(request.context)));
  }
  if (!works_when_lost(RequestKind(request.kind))) found->second->require_usable();
  return found->second;
}

Session::Answer Session::answer(const Request& request) {
  Answer out;
  switch (RequestKind(request.kind)) {
    case RequestKind::device_info: set_payload(device_.info()); break;
    case RequestKind::telemetry: {
      emu_telemetry telemetry = device_.telemetry();
      telemetry.size = kTelemetryBytes;
      set_payload(telemetry, kTelemetryBytes);
      break;
    }
    case RequestKind::context_create: out.reply.value = context_create(request); break;
    case RequestKind::context_destroy: {
      const auto gone = context(request);
      forget(gone->id);
      device_.context_destroy(gone);
      break;
    }
    case RequestKind::memory_alloc: out.reply.value = context(request)->memory_alloc(request.bytes); break;
    case RequestKind::memory_free: context(request)->memory_free(request.object); break;
    case RequestKind::memory_protect:
      context(request)->memory_protect(request.object, request.bytes, request.value);
      break;
    case RequestKind::memory_info: set_payload(context(request)->memory_info()); break;
    case RequestKind::host_register:
      out.reply.value = context(request)->host_register(std::move(fds_[0]), request.bytes);
      break;
    case RequestKind::host_unregister: context(request)->host_unregister(request.object); break;
    case RequestKind::program_load: return program_load(request, fds_[0]);
    case RequestKind::program_unload: context(request)->program_unload(request.object); break;
    case RequestKind::queue_create: return queue_create(request);
    case RequestKind::queue_destroy: context(request)->queue_destroy(request.object); break;
    case RequestKind::fault: set_payload(context(request)->fault()); break;
    case RequestKind::activity_enable: context(request)->recording = request.value != 0; break;
    case RequestKind::activity_read: return activity_read(request);
    case RequestKind::telemetry_more: set_payload(device_.telemetry()); break;
    case RequestKind::power_mode: set_payload(device_.power_mode(request.value)); break;
    case RequestKind::set_power_mode:
      require_owner("set the power mode");
      device_.set_power_mode(request.value);
      break;
    case RequestKind::firmware_info: set_payload(device_.firmware_info()); break;
    case RequestKind::firmware_write: firmware_write(request, fds_[0]); break;
    case RequestKind::firmware_activate:
      require_owner("activate firmware");
      device_.firmware_activate();
      break;
    case RequestKind::firmware_rollback:
      require_owner("roll firmware back");
      device_.firmware_rollback();
      break;
    case RequestKind::device_reset:
      require_owner("reset the device");
      device_.reset(client_);
      break;
    case RequestKind::event_read: return event_read(request);
    case RequestKind::queue_reset: context(request)->queue_reset(request.object); break;
    case RequestKind::queue_fault: set_payload(context(request)->queue_fault(request.object, request.value)); break;
    case RequestKind::fault_inject: fault_inject(request, fds_[0], out.reply); break;
    case RequestKind::fault_clear:
      require_owner("clear faults");
      device_.fault_clear(request.value, client_);
      break;
    case RequestKind::fault_list: return fault_list(request);
    case RequestKind::queue_cancel:
      out.reply.value = context(request)->queue_cancel(request.object & ~kCancelRunning, request.value, request.bytes,
                                                       (request.object & kCancelRunning) != 0);
      break;
    case RequestKind::fence_create: return fence_of(*context(request), std::nullopt);
    case RequestKind::fence_import: return fence_of(*context(request), Token{request.object, request.value});
    case RequestKind::fence_export:
      std::tie(out.reply.value, out.reply.count) = context(request)->fence_export(request.object, request.value != 0);
      break;
    case RequestKind::fence_destroy: context(request)->fence_destroy(request.object); break;
    case RequestKind::fence_signal: context(request)->fence_signal(request.object, request.value); break;
    case RequestKind::link_info: set_payload(device_.board().links.at(request.value).info()); break;
    case RequestKind::link_set_up:
      require_owner("take a link down or up");
      device_.link_set_up(device_.board().links.at(request.object), request.value != 0,
                          format("process %d", client_), client_);
      break;
    case RequestKind::peer_export:
      std::tie(out.reply.value, out.reply.count) = context(request)->peer_export();
      break;
    case RequestKind::peer_import:
      out.reply.value = context(request)->peer_import({request.object, request.value});
      break;
  }
  return out;
}

uint64_t Session::context_create(const Request& request) {
  const uint64_t caller = request.object == 0 ? client_interface_ : request.object;
  if (caller > UINT32_MAX || !interfaces_meet(uint32_t(caller), client_interface_)) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("interface of the caller: expected one that the client's %u serves, got %llu",
                         client_interface_, static_cast<unsigned long long>(caller)));
  }
  auto entry = new_entry<Contexts>();
  const Client client{client_, user_, client_interface_, uint32_t(caller)};
  entry.mapped() = device_.context_create(client, request.value, quotas_);
  const uint64_t id = entry.key() = entry.mapped()->id;
  const std::lock_guard lock(contexts_mutex_);
  contexts_.insert(std::move(entry));
  return id;
}

Session::Answer Session::queue_create(const Request& request) {
  Answer out;
  const auto queue = context(request)->queue_create(request.object, int32_t(request.value));
  out.reply.value = queue->id;
  out.reply.count = queue->ring_bytes();
  out.fds = {queue->ring_fd(), queue->doorbell_fd()};
  out.fd_count = 2;
  out.keep = queue;
  return out;
}

Session::Answer Session::fence_of(Context& context, const std::optional<Token>& token) {
  Answer out;
  auto page = std::make_shared<Descriptor>();
  out.reply.value = context.fence_hold(token, *page);
  out.fds = {page->get()};
  out.fd_count = 1;
  out.keep = page;
  return out;
}

Session::Answer Session::activity_read(const Request& request) {
  Answer out;
  const size_t capacity = std::min<uint64_t>(request.value, kActivityBatch);
  message_.resize(sizeof(Reply) + capacity * sizeof(emu_activity)); // before they are taken, which is for good
  auto* const records = reinterpret_cast<emu_activity*>(message_.data() + sizeof(Reply));
  out.reply.count = context(request)->take_activities(records, capacity, out.reply.value);
  message_.resize(sizeof(Reply) + out.reply.count * sizeof(emu_activity));
  return out;
}

Session::Answer Session::event_read(const Request& request) {
  Answer out;
  const size_t capacity = std::min<uint64_t>(request.value, kEventBatch);
  message_.resize(sizeof(Reply) + capacity * sizeof(emu_event));
  auto* const events = reinterpret_cast<emu_event*>(message_.data() + sizeof(Reply));
  const auto reader = is_owner() ? std::nullopt : std::optional(user_);
  out.reply.count = device_.events().read(request.object, reader, events, capacity, out.reply.value);
  message_.resize(sizeof(Reply) + out.reply.count * sizeof(emu_event));
  return out;
}

void Session::fault_inject(const Request& request, const Descriptor& fd, Reply& reply) {
  require_owner("inject faults");
  emu_fault fault{};
  const auto bytes = read_memfd(fd, request.bytes, sizeof fault, EMU_ERROR_INVALID_ARGUMENT, "bytes of a fault");
  std::memcpy(&fault, bytes.data(), bytes.size());
  reply.value = device_.fault_inject(fault, client_);
}

Session::Answer Session::fault_list(const Request& request) {
  require_owner("list faults");
  Answer out;
  const size_t capacity = std::min<uint64_t>(request.value, Faults::kMost);
  message_.resize(sizeof(Reply) + capacity * sizeof(emu_fault));
  auto* const faults = reinterpret_cast<emu_fault*>(message_.data() + sizeof(Reply));
  out.reply.count = device_.faults().list(faults, capacity);
  message_.resize(sizeof(Reply) + out.reply.count * sizeof(emu_fault));
  return out;
}

void Session::firmware_write(const Request& request, const Descriptor& fd) {
  require_owner("write firmware");
  const auto bytes = read_memfd(fd, request.bytes, kMaxFirmwareChunk, EMU_ERROR_INVALID_ARGUMENT, "bytes of firmware");
  device_.firmware_write(request.value, request.object, bytes);
}

Session::Answer Session::program_load(const Request& request, const Descriptor& fd) {
  const auto into = context(request);
  const auto binary = read_memfd(fd, request.bytes, kMaxProgramBytes, EMU_ERROR_BAD_PROGRAM, "binary of a program");
  Answer out;
  out.reply.value = into->program_load(binary);
  out.reply.count = machine::args_bytes(*into->program(out.reply.value));
  return out;
}

} // namespace emu
