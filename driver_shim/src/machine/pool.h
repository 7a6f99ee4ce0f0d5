/* Worker threads that take part in one job at a time. */
#ifndef EMU_MACHINE_POOL_H
#define EMU_MACHINE_POOL_H

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "block.h"
#include "machine.h"

namespace emu::machine {

struct Pool::State {
  explicit State(unsigned threads);
  ~State();

  /* Calls job(i) once for each i < threads: job(0) on this thread, the others on workers. Needs `user` held. */
  void together(const std::function<void(unsigned)>& job);

  std::mutex user;                 /* held by the run that uses workers and files */
  std::vector<RegisterFile> files; /* one a thread */

 private:
  void work(unsigned index);
  uint64_t await_job(uint64_t seen);

  const std::function<void(unsigned)>* job_ = nullptr;
  std::atomic<uint64_t> generation_{0}; /* counts jobs */
  std::atomic<unsigned> running_{0};    /* workers that have not finished the current job */
  std::mutex mutex_;                    /* of the two conditions and what they wait for */
  std::condition_variable started_, finished_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace emu::machine

#endif
