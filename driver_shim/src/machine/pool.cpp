#include "pool.h"

#include <system_error>

namespace emu::machine {
namespace {

/* About 20 microseconds: jobs often follow each other closely, and a wake-up costs as much. */
constexpr unsigned kSpins = 500;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Pool::Pool(unsigned threads) : state_(std::make_unique<State>(threads == 0 ? 1 : threads)) {}
Pool::~Pool() = default;
unsigned Pool::threads() const { return static_cast<unsigned>(state_->files.size()); }

Pool::State::State(unsigned threads) : files(threads) {
  workers_.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) { /* fewer do it too */
    files.resize(workers_.size() + 1);
  }
}

Pool::State::~State() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    generation_.fetch_add(1);
  }
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::State::together(const std::function<void(unsigned)>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    running_.store(static_cast<unsigned>(workers_.size()));
    generation_.fetch_add(1);
  }
  started_.notify_all();
  job(0);
  for (unsigned i = 0; i < kSpins && running_.load() != 0; ++i) relax();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_.load() == 0; });
}

uint64_t Pool::State::await_job(uint64_t seen) {
  for (unsigned i = 0; i < kSpins && generation_.load() == seen; ++i) relax();
  std::unique_lock lock(mutex_);
  started_.wait(lock, [&] { return generation_.load() != seen; });
  return generation_.load();
}

void Pool::State::work(unsigned index) {
  for (uint64_t seen = 0;;) {
    seen = await_job(seen);
    const std::function<void(unsigned)>* job;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      job = job_;
    }
    (*job)(index);
    if (running_.fetch_sub(1) == 1) {
      const std::lock_guard lock(mutex_);
      finished_.notify_one();
    }
  }
}

}  // namespace emu::machine
