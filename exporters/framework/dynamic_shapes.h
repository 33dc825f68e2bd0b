#pragma once

#include "exporters/symbolic/dim.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace exporters {

// ── dynamic_shapes as JSON: in config files, for --set, and as export.json records it ──
//
//     {"input_ids": {"0": "batch 1:64", "1": "auto"},       by axis; axes that are not listed take the export's default
//      "attention_mask": ["batch", "sequence 1:512"],       every axis in order
//      "cache": {"0": "batch", "2": "2*past"},              a container: the same for each of its tensors
//      "encoder_outputs": {"last_hidden_state": {"0": "batch"}},
//      "token_type_ids": null}                              every axis is static
//
// One axis is a text that parse_dim takes, null (static), or an integer (static, and the sample has to have that size).

/// "auto", "auto 1:512", "static"; "batch", "batch 1:64", "2*batch + 1": a named Dim or one derived from it; and the
/// reprs that the reference records: "Dim('batch', max=16)", "DimHint(AUTO)", "DimHint(STATIC)". A repr without `min`
/// stands for the minimum 2, as in torch; a plain name for 1. Throws Error that says what is allowed.
Dim parse_dim(std::string_view text);

/// What parse_dim reads: the reference's repr, with the range behind it where a derived Dim has one of its own.
std::string dim_text(const Dim& dim);

/// "1:64" → [1, 64], "8:" → [8, oo), ":512" → [1, 512], "8" → [8, 8]. Throws Error.
Range parse_range(std::string_view text);

/// Keys of the result are inputs or dotted paths below them ("cache.layers.0.keys", "pair.0"). An input without axes is
/// static. Throws Error that names input and axis.
DynamicShapes dynamic_shapes_from_json(const nlohmann::json& value);
/// Null when there are none.
nlohmann::json to_json(const DynamicShapes& shapes);

/// Throws Error for ranges of one name that exclude each other, and for a derived Dim whose size would be negative.
void check_dims(const DynamicShapes& shapes);

}  // namespace exporters
