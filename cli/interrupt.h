#pragma once

namespace hfx {

/// From now on a process that SIGINT, SIGTERM or SIGHUP ends leaves no half-written files behind. Before any thread is
/// started.
void clean_up_when_interrupted();

}  // namespace hfx
