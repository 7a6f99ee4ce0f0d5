/* Mutated requests and commands from one process, while another one works on the same device.
 *
 * What the attacker may do to itself it may do; the other's results stay right, not one of its bytes changes or turns
 * up at the attacker's, and afterwards the device serves as if nothing had been. Under sanitizers nothing else of emud
 * is touched either. From EMU_FUZZ_SEED come EMU_FUZZ_COUNT commands with bytes flipped, about as many whose values at
 * most are bad, and nearly as many requests as commands. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#include "raw_queue.h"

using namespace emu;
using namespace emu::test;

namespace {

constexpr uint64_t kOwnBytes = 1 << 20, kBufferBytes = 1 << 16, kVictimBytes = 1 << 20;
constexpr uint64_t kSpace = uint64_t(1) << 38; // an address space
constexpr uint64_t kRequestsARound = 40, kCommandsARound = 40;
constexpr uint64_t kPatience = 60'000'000'000, kShort = 50'000'000; // nanoseconds

/* 16 bytes of arguments each: two addresses, or an address and a number. */
const std::string kPrograms[] = {
    ".program move\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i64 s1, 8\n load.i64 v0, s0\n store.i64 v0, s1\n exit\n",
    ".program add\n.lanes 64\n.args 16\n arg.i64 s0, 0\n lane.i64 v0\n const.i64 v1, 0\n red.add.i64 v0, s0, v1\n"
    " exit\n",
    ".program spin\n.lanes 64\n.args 16\n arg.i64 s0, 8\n loop s1, s0\n end\n exit\n"};

/* Memory of both processes: what the victim tells, so that the attacker aims well, and the end of the attack. */
struct Told {
  std::atomic<uint64_t> address, canary;
  std::atomic<bool> over;
};

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/* This client is of emud's user, who may do these to everyone. */
bool costs_others(uint32_t kind) {
  const auto is = [kind](RequestKind one) { return kind == uint32_t(one); };
  return is(RequestKind::device_reset) || is(RequestKind::fault_inject) || is(RequestKind::fault_clear) ||
         is(RequestKind::link_set_up);
}

class Attacker {
 public:
  Attacker(uint64_t seed, const Told& told) : random_(seed), victim_(told.address.load()), canary_(told.canary.load()) {
    for (const std::string& text : kPrograms) {
      emu_buffer binary{};
      OK(api->assemble(text.data(), text.size(), &binary));
      programs_.push_back(sealed_memory(binary.data, binary.bytes, 4096));
      program_bytes_.push_back(binary.bytes);
      api->buffer_release(&binary);
    }
    CHECK(pipe2(pipe_, O_CLOEXEC) == 0);
  }

  void round() {
    if (some(20) == 0) babble();
    const Descriptor socket = greeted();
    {
      const Own own(*this, socket.get());
      for (uint64_t i = 0; i < kRequestsARound; ++i) request(own);
    }
    // Requests may have spoiled what there was: commands come from connections of their own.
    for (const uint64_t end = commands + kCommandsARound; commands < end; ++lost) {
      const Descriptor other = greeted();
      Own own(*this, other.get());
      while (commands < end && batch(own)) {}
    }
  }

  uint64_t requests = 0, granted = 0, commands = 0, flipped = 0, done = 0, lost = 0;

 private:
  /* A context with one of everything. */
  struct Own {
    Own(Attacker& attacker, int socket) : queue(socket) {
      address = ask(socket, RequestKind::memory_alloc, queue.context, 0, 0, kOwnBytes).reply.value;
      const uint64_t nothing = 0;
      const Descriptor memory = sealed_memory(&nothing, sizeof nothing, kBufferBytes);
      buffer = ask(socket, RequestKind::host_register, queue.context, 0, 0, kBufferBytes, memory.get()).reply.value;
      host = Mapping(mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0), kBufferBytes);
      CHECK(address != 0 && buffer != 0 && bool(host));
      for (size_t i = 0; i < attacker.programs_.size(); ++i) {
        const RawReply loaded = ask(socket, RequestKind::program_load, queue.context, 0, 0, attacker.program_bytes_[i],
                                    attacker.programs_[i].get());
        CHECK(loaded.reply.status == EMU_OK);
        programs.push_back(loaded.reply.value);
      }
      fence = ask(socket, RequestKind::fence_create, queue.context).reply.value;
      const uint64_t other = raw_context(socket, 1);
      const Reply token = ask(socket, RequestKind::peer_export, other).reply;
      peer = ask(socket, RequestKind::peer_import, queue.context, token.value, token.count).reply.value;
      CHECK(fence != 0 && peer != 0);
    }
    RawQueue queue;
    uint64_t address, buffer, fence, peer, tail = 0;
    Mapping host;
    std::vector<uint64_t> programs;
  };

  uint64_t some(uint64_t below) { return random_() % below; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[some(values.size())];
  }

  uint64_t any_number() {
    return one_of<uint64_t>({0, 1, some(64), 4095, 65535, 65536, kSpace - 1, kSpace, uint64_t(1) << 63, UINT64_MAX,
                             random_(), random_() >> some(64)});
  }
  uint64_t any_address(const Own& own) {
    switch (some(16)) {
      case 0: return own.address + some(kOwnBytes);
      case 1: return victim_ + some(kVictimBytes) / 8 * 8;
      case 2: return victim_ + kSpace * some(8);
      case 3: return any_number();
      default: return own.address + some(kOwnBytes / 2) / 64 * 64;
    }
  }
  uint64_t any_object(const Own& own) {
    return one_of<uint64_t>({own.address, own.buffer, own.programs[0], own.queue.id, own.fence, own.peer, some(64),
                             any_address(own)});
  }
  template <typename T>
  void flip(T& value) {
    auto* bytes = reinterpret_cast<unsigned char*>(&value);
    for (uint64_t n = 1 + some(3); n > 0; --n) bytes[some(sizeof value)] = static_cast<unsigned char>(random_());
  }

  /* A client that does not know the protocol. */
  void babble() {
    const Descriptor socket = connect_raw();
    std::byte bytes[64];
    for (std::byte& byte : bytes) byte = std::byte(random_());
    send_message(socket.get(), bytes, some(sizeof bytes) + 1);
  }

  void request(const Own& own) {
    Request request{uint32_t(1 + some(kRequestKinds)), 0, 0, 0, 0, 0};
    const auto kind = RequestKind(request.kind);
    const bool of_device = kind == RequestKind::device_info || kind == RequestKind::telemetry ||
                           kind == RequestKind::context_create ||
                           (kind >= RequestKind::telemetry_more && kind <= RequestKind::event_read) ||
                           kind == RequestKind::fault_list || kind == RequestKind::link_info;
    if (!of_device) request.context = some(8) == 0 ? some(32) : own.queue.context;
    size_t fds = 0;
    const size_t which = some(programs_.size());
    switch (kind) {
      case RequestKind::memory_alloc: request.bytes = some(4) == 0 ? any_number() : some(1 << 20); break;
      case RequestKind::host_register:
      case RequestKind::program_load:
        request.bytes = some(4) == 0 ? any_number() : kind == RequestKind::host_register ? 4096 : program_bytes_[which];
        fds = 1;
        break;
      case RequestKind::firmware_write:
        request = {request.kind, 0, 0, some(2) * any_number(), 1 + some(4096), 1 + some(4096)};
        fds = 1;
        break;
      case RequestKind::memory_free:
      case RequestKind::host_unregister:
      case RequestKind::program_unload:
      case RequestKind::queue_destroy:
      case RequestKind::queue_reset:
      case RequestKind::fence_destroy: request.object = any_object(own); break;
      case RequestKind::queue_cancel: request.bytes = any_number(); [[fallthrough]];
      case RequestKind::queue_fault:
      case RequestKind::fence_export:
      case RequestKind::fence_import:
      case RequestKind::fence_signal:
      case RequestKind::peer_import: request.object = any_object(own), request.value = any_number(); break;
      case RequestKind::queue_create: request.object = some(3), request.value = any_number(); break;
      case RequestKind::event_read: request.object = any_number(), request.value = any_number(); break;
      case RequestKind::context_create:
      case RequestKind::activity_enable:
      case RequestKind::activity_read:
      case RequestKind::power_mode:
      case RequestKind::fault_list:
      case RequestKind::link_info:
      case RequestKind::set_power_mode: request.value = any_number(); break;
      default: break;
    }
    if (some(4) == 0) flip(request);
    if (costs_others(request.kind)) return;
    if (some(10) == 0) fds = some(3);
    int sent[2] = {programs_[which].get(), one_of({own.queue.doorbell.get(), pipe_[0], own.queue.socket})};
    if (some(8) == 0) std::swap(sent[0], sent[1]);
    const size_t bytes = some(20) == 0 ? 1 + some(sizeof request + 40) : sizeof request;
    std::byte message[sizeof request + 40]{};
    std::memcpy(message, &request, sizeof request);
    granted += exchange(own.queue.socket, message, bytes, sent, fds).reply.status == EMU_OK;
    ++requests;
  }

  Command command(const Own& own) {
    Command out{uint32_t(1 + some(10)), sizeof out, random_(), 0, 0, 0, 0, {1, 1, 1}, uint32_t(some(2) * random_())};
    const uint64_t length = some(8) == 0 ? any_number() : 8 * some(kBufferBytes / 16);
    const uint64_t offset = some(8) == 0 ? any_number() : 8 * some(kBufferBytes / 16);
    switch (CommandKind(out.kind)) {
      case CommandKind::launch:
        out.bytes = 2 * sizeof out;
        out.target = some(16) == 0 ? any_object(own) : own.programs[some(own.programs.size())];
        out.length = some(16) == 0 ? any_number() : 16;
        out.grid[0] = some(16) == 0 ? uint32_t(random_()) : uint32_t(some(4));
        break;
      case CommandKind::copy_to_device: out.target = any_address(own), out.source = own.buffer; break;
      case CommandKind::copy_from_device: out.target = own.buffer, out.source = any_address(own); break;
      case CommandKind::copy_on_device: out.target = any_address(own), out.source = any_address(own); break;
      case CommandKind::fill: out.target = any_address(own), out.source = some(256); break;
      case CommandKind::wait: out.target = some(8) == 0 ? some(64) : own.queue.id, out.source = some(2); break;
      case CommandKind::timestamp: out.target = own.buffer, out.offset = offset; break;
      case CommandKind::signal_fence:
      case CommandKind::wait_fence:
        out.target = some(8) == 0 ? any_object(own) : own.fence;
        out.source = some(2);
        break;
      case CommandKind::copy_peer:
        out.target = any_address(own), out.source = any_address(own);
        out.offset = some(4) == 0 ? any_object(own) : own.peer;
        out.grid[0] = uint32_t(some(2));
        break;
    }
    const bool copies = (out.kind >= 2 && out.kind <= 5) || out.kind == uint32_t(CommandKind::copy_peer);
    if (copies) out.length = length;
    if (out.kind == 2 || out.kind == 3) out.offset = offset;
    if (some(2) == 0) {
      const Command before = out;
      flip(out);
      flipped += std::memcmp(&before, &out, sizeof out) != 0;
    }
    return out;
  }

  /* Some commands; false when they cost the context, or its ring is no longer of use. */
  bool batch(Own& own) {
    const size_t ring = own.queue.ring.bytes() - kRingDataOffset;
    uint64_t tail = own.tail;
    const uint64_t count = 1 + some(4);
    bool may_wait = false; // for a fence that only the client could signal
    for (uint64_t i = 0; i < count; ++i, ++commands) {
      const Command next = command(own);
      may_wait = may_wait || next.kind == uint32_t(CommandKind::wait_fence);
      const uint64_t arguments[8] = {any_address(own), some(2) == 0 ? any_address(own) : some(1000), random_()};
      for (const auto& [data, at] : {std::pair<const void*, uint64_t>(&next, tail), {arguments, tail + sizeof next}}) {
        std::memcpy(own.queue.data() + at % ring, data, sizeof next);
      }
      tail += next.kind == uint32_t(CommandKind::launch) ? 2 * sizeof next : sizeof next;
    }
    own.tail = some(16) == 0 ? any_number() : tail;
    own.queue.submit(own.tail);
    RingHeader& header = own.queue.header();
    const uint64_t limit = monotonic_ns() + (may_wait ? kShort : kPatience);
    while (header.state.load() == 0 && header.head.load() < own.tail) {
      const bool late = monotonic_ns() > limit;
      if (late && may_wait) return false;
      if (late) fail(__FILE__, __LINE__, "commands that never end: tail " + std::to_string(own.tail));
      usleep(20);
    }
    const auto* words = static_cast<const uint64_t*>(own.host.get());
    if (std::find(words, words + kBufferBytes / 8, canary_) != words + kBufferBytes / 8) {
      fail(__FILE__, __LINE__, "the victim's bytes are in the attacker's memory");
    }
    if (header.state.load() != 0) return false;
    done += count;
    if (some(8) == 0) header.completed.store(random_()), header.head.store(own.tail), header.waiters.store(1);
    return own.tail == tail;
  }

  std::mt19937_64 random_;
  const uint64_t victim_, canary_;
  std::vector<Descriptor> programs_;
  std::vector<size_t> program_bytes_;
  int pipe_[2];
};

/* Its memory is full of one number, and it works all the time. */
class Victim {
 public:
  explicit Victim(uint64_t canary) : canary_(canary), held_(setup_.alloc(kVictimBytes)), word_(setup_.alloc(65536)) {
    store_ = setup_.program(kStore);
    pinned_ = setup_.pinned<uint64_t>(kVictimBytes / 8);
    room_ = setup_.pinned<uint64_t>(kVictimBytes / 8);
    std::fill_n(pinned_, kVictimBytes / 8, canary_);
    setup_.to_device(held_, pinned_, kVictimBytes);
  }
  uint64_t address() const { return held_; }
  void work() {
    struct {
      uint64_t address;
      int32_t value, unused;
    } arguments{word_, ++value_, 0};
    OK(api->queue_launch(setup_.queue, store_, kOneBlock, &arguments, sizeof arguments, 0, nullptr));
    int32_t got = 0;
    setup_.from_device(room_, word_, sizeof got);
    std::memcpy(&got, room_, sizeof got);
    CHECK(got == value_);
    if (value_ % 64 != 0) return;
    is_whole();
    // Pages that the attacker may be given next.
    const uint64_t passed_on = setup_.alloc(kVictimBytes);
    setup_.to_device(passed_on, pinned_, kVictimBytes);
    OK(api->memory_free(setup_.context, passed_on));
  }
  void is_whole() const {
    std::memset(room_, 0, kVictimBytes);
    setup_.from_device(room_, held_, kVictimBytes);
    for (const uint64_t* words : {room_, pinned_}) {
      CHECK(std::count(words, words + kVictimBytes / 8, canary_) == int64_t(kVictimBytes / 8));
    }
  }

 private:
  const Setup setup_;
  const uint64_t canary_, held_, word_;
  emu_program* store_ = nullptr;
  uint64_t *pinned_ = nullptr, *room_ = nullptr;
  int32_t value_ = 0;
};

} // namespace

CASE(fuzz_commands) {
  const uint64_t seed = number("EMU_FUZZ_SEED", 20261130), count = number("EMU_FUZZ_COUNT", 1000);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const Served device({"--threads", "2", "--tick-budget", "2000000", "--launch-seconds", "5"});
  void* const shared = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  Told& told = *static_cast<Told*>(shared);
  Client client([&] {
    CHECK(eventually([&] { return told.address.load() != 0; }));
    Attacker attacker(seed, told);
    while (attacker.flipped < count) attacker.round();
    std::printf("%llu requests, %llu granted; %llu commands, %llu flipped, %llu in batches that were done; "
                "%llu contexts lost\n",
                static_cast<unsigned long long>(attacker.requests), static_cast<unsigned long long>(attacker.granted),
                static_cast<unsigned long long>(attacker.commands), static_cast<unsigned long long>(attacker.flipped),
                static_cast<unsigned long long>(attacker.done), static_cast<unsigned long long>(attacker.lost));
    // Too few that get through would try nothing but the first check.
    CHECK(attacker.granted > attacker.requests / 20 && attacker.done > attacker.commands / 50);
    told.over.store(true);
  });
  {
    Victim victim(std::mt19937_64(seed + 1)());
    told.canary.store(std::mt19937_64(seed + 1)());
    told.address.store(victim.address());
    while (!told.over.load() && is_running(client.pid())) victim.work();
    victim.is_whole();
  }
  const std::string line = client.line();
  std::printf("%s\n", line.c_str());
  CHECK(client.wait() == 0);
  emud_still_serves();
}
