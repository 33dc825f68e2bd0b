#include "cli/interrupt.h"

#include "exporters/support/atomic_file.h"

#include <pthread.h>

#include <csignal>
#include <thread>

namespace hfx {

// A thread waits for the signals, since a handler could not remove files.
void clean_up_when_interrupted() {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of a file's size fails, as on a full disk
  static sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {  // nohup has it ignored
      sigaddset(&signals, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([] {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) {
      return;
    }
    exporters::remove_uncommitted();
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    raise(signal);  // so that the caller sees what ended the process
  }).detach();
}

}  // namespace hfx
