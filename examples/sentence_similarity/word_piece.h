#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// BERT's uncased tokenizer for text in Latin script (and CJK ideographs, which it splits one by one).
class WordPiece {
 public:
  /// Reads a vocab.txt: one token a line, its id is the line number. Throws std::runtime_error when the file
  /// cannot be read or lacks [CLS], [SEP] or [UNK].
  explicit WordPiece(const std::string& vocab_path);

  /// "[CLS] … [SEP]" as token ids, cut to `max_tokens` (at least 2) with both kept.
  /// Throws std::runtime_error when `text` is not UTF-8 or uses a script whose rules are not implemented.
  std::vector<int64_t> encode(std::string_view text, size_t max_tokens = 256) const;

 private:
  void append_word(const std::string& word, std::vector<int64_t>& ids) const;
  int64_t special(const std::string& token) const;

  std::unordered_map<std::string, int64_t> vocab_;
  int64_t cls_ = 0;
  int64_t sep_ = 0;
  int64_t unk_ = 0;
};
