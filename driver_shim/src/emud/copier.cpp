#include "copier.h"

#include <algorithm>
#include <cstring>
#include <system_error>

namespace emu {
namespace {

constexpr size_t kSpreadFrom = size_t(2) << 20; // below, waking a thread costs more than it saves
constexpr size_t kPieceBytes = size_t(1) << 20;
constexpr size_t kAloneBytes = size_t(64) << 20; // some tens of milliseconds: then it is asked whether to go on

} // namespace

Copier::Copier(unsigned threads) {
  threads_.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) { // fewer do it too
  }
}

Copier::~Copier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

size_t Copier::copy(void* to, const void* from, size_t bytes, const std::atomic<bool>& stopped) {
  const auto piece = [=](size_t offset, size_t length) {
    std::memcpy(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset, length);
  };
  return spread(bytes, piece, stopped);
}

size_t Copier::move(void* to, const void* from, size_t bytes, const std::atomic<bool>& stopped) {
  size_t done = 0;
  while (done < bytes && !stopped) {
    const size_t length = std::min(kAloneBytes, bytes - done);
    const size_t at = to > from ? bytes - done - length : done; // what is still to be read is not written over
    std::memmove(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, length);
    done += length;
  }
  return done;
}

size_t Copier::fill(void* to, uint8_t value, size_t bytes, const std::atomic<bool>& stopped) {
  const auto piece = [=](size_t offset, size_t length) {
    std::memset(static_cast<std::byte*>(to) + offset, value, length);
  };
  return spread(bytes, piece, stopped);
}

size_t Copier::spread(size_t bytes, const Piece& piece, const std::atomic<bool>& stopped) {
  const std::unique_lock caller(callers_, std::try_to_lock);
  if (bytes < kSpreadFrom || threads_.empty() || !caller.owns_lock()) {
    size_t done = 0;
    while (done < bytes && !stopped) {
      const size_t length = std::min(kAloneBytes, bytes - done);
      piece(done, length);
      done += length;
    }
    return done;
  }
  std::unique_lock lock(mutex_);
  piece_ = &piece;
  stopped_ = &stopped;
  bytes_ = bytes;
  next_ = 0;
  started_.notify_all();
  while (do_one(lock)) {}
  finished_.wait(lock, [this] { return running_ == 0; });
  piece_ = nullptr;
  return next_;
}

/* False when no piece is left to start. */
bool Copier::do_one(std::unique_lock<std::mutex>& lock) {
  if (piece_ == nullptr || next_ >= bytes_ || *stopped_) return false;
  const Piece& piece = *piece_;
  const size_t offset = next_;
  const size_t length = std::min(kPieceBytes, bytes_ - offset);
  next_ += length;
  ++running_;
  lock.unlock();
  piece(offset, length);
  lock.lock();
  if (--running_ == 0) finished_.notify_all();
  return true;
}

void Copier::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!do_one(lock)) started_.wait(lock);
  }
}

} // namespace emu
