#pragma once

#include <memory>
#include <string>
#include <utility>

namespace exporters {

/// What a registration says of itself.
struct PatchNotes {
  std::string name = {};    ///< for reports and messages: "patch_where"; by default the first path
  std::string reason = {};  ///< why the patch is there, one sentence; required
  std::string link = {};    ///< the upstream issue, where there is one
  /// Paths that name nothing are passed over instead of being an error: for a model or a library that may be absent.
  bool optional = false;
};

namespace detail {

/// One patch in force on one target of this thread.
class Replacement {
 public:
  Replacement(std::string backend, PatchNotes notes, std::string target)
      : backend_(std::move(backend)), notes_(std::move(notes)), target_(std::move(target)) {}
  virtual ~Replacement() = default;
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  const std::string& backend() const { return backend_; }
  const PatchNotes& notes() const { return notes_; }
  const std::string& target() const { return target_; }  ///< "aten::where.self"

 private:
  friend class ReplacementCall;
  std::string backend_;
  PatchNotes notes_;
  std::string target_;
  int depth_ = 0;
};

/// One call of a replacement, for the lifetime of the object. Throws Error, naming the patch, for a replacement that
/// keeps on calling its own target instead of the original.
class ReplacementCall {
 public:
  explicit ReplacementCall(Replacement& replacement);
  ~ReplacementCall() { --replacement_.depth_; }
  ReplacementCall(const ReplacementCall&) = delete;
  ReplacementCall& operator=(const ReplacementCall&) = delete;

 private:
  Replacement& replacement_;
};

/// A replacement that makes no nodes of its own took effect here.
void record_call(const Replacement& replacement);

class ActivePatches;

/// The patches in force on this thread; null where there are none, which is all that a call of an unpatched function
/// ever asks.
extern constinit thread_local ActivePatches* active_patches;

}  // namespace detail
}  // namespace exporters
