#include "exporters/executorch/xnnpack/serialize.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <span>

namespace exporters::executorch::xnnpack {
namespace {

constexpr uint64_t kStep = 16u << 20;

// Calls `take` with the bytes, piece by piece.
template <typename Take>
void for_each_piece(const Bytes& bytes, Take&& take) {
  if (const auto* source = std::get_if<WeightSource>(&bytes)) {
    const auto file = MappedFile::open(source->file);
    for (uint64_t done = 0; done < source->nbytes;) {
      const uint64_t step = std::min(kStep, source->nbytes - done);
      take(file->bytes(source->offset + done, step));
      file->advise_dont_need(source->offset + done, step);
      done += step;
    }
  } else if (const auto* tensor = std::get_if<at::Tensor>(&bytes); tensor != nullptr && deferred_conversion(*tensor)) {
    write_deferred(*tensor, {take, [&](uint64_t count) {
                               const std::vector<std::byte> zeros(std::min(count, kStep));
                               for (uint64_t done = 0; done < count; done += zeros.size()) {
                                 take(std::span(zeros).first(std::min<uint64_t>(zeros.size(), count - done)));
                               }
                             }});
  } else if (tensor != nullptr) {
    ensure(tensor->is_cpu() && tensor->is_contiguous(), "constants of a program are contiguous CPU tensors");
    take(std::span(static_cast<const std::byte*>(tensor->const_data_ptr()), tensor->nbytes()));
  } else {
    take(std::as_bytes(std::span(std::get<std::string>(bytes))));
  }
}

}  // namespace

Constant constant(Bytes bytes) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for_each_piece(
      bytes, [&](std::span<const std::byte> piece) { XXH3_128bits_update(state.get(), piece.data(), piece.size()); });
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  // With the size, as two contents of one hash and different sizes must not share a name.
  std::string key = fmt::format("xxh3-{:016x}{:016x}-{}", hash.high64, hash.low64, nbytes_of(bytes));
  return {std::move(key), std::move(bytes)};
}

}  // namespace exporters::executorch::xnnpack
