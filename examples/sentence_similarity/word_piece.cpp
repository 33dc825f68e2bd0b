#include "word_piece.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace {

/// Words longer than this are [UNK], as in BERT's own tokenizer.
constexpr size_t kMaxWordCharacters = 100;

// U+00C0 to U+017F: lower case, without accents. Letters that Unicode does not decompose keep their form.
constexpr std::string_view kLatin =
    "a a a a a a æ c e e e e i i i i ð n o o o o o × ø u u u u y þ ß "
    "a a a a a a æ c e e e e i i i i ð n o o o o o ÷ ø u u u u y þ y "
    "a a a a a a c c c c c c c c d d đ đ e e e e e e e e e e g g g g "
    "g g g g h h ħ ħ i i i i i i i i i ı ĳ ĳ j j k k ĸ l l l l l l ŀ "
    "ŀ ł ł n n n n n n ŉ ŋ ŋ o o o o o o œ œ r r r r r r s s s s s s "
    "s s t t t t ŧ ŧ u u u u u u u u u u u u w w y y y z z z z z z ſ ";

std::string hex(char32_t c) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(c));
  return text.data();
}

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string characters;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xE ? 3 : lead >> 3 == 0x1E ? 4 : 0;
    if (length == 0 || i + length > text.size()) {
      throw std::runtime_error("the text is not UTF-8 at byte " + std::to_string(i));
    }
    char32_t c = length == 1 ? lead : lead & (0x7F >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte >> 6 != 0x2) {
        throw std::runtime_error("the text is not UTF-8 at byte " + std::to_string(i + k));
      }
      c = (c << 6) | (byte & 0x3F);
    }
    characters += c;
    i += length;
  }
  return characters;
}

const std::vector<std::string>& latin_table() {
  static const std::vector<std::string> table = [] {
    std::vector<std::string> entries;
    size_t begin = 0;
    for (size_t end; (end = kLatin.find(' ', begin)) != std::string_view::npos; begin = end + 1) {
      entries.emplace_back(kLatin.substr(begin, end - begin));
    }
    return entries;
  }();
  return table;
}

struct Range {
  char32_t first;
  char32_t last;
};

template <size_t N>
bool within(const Range (&ranges)[N], char32_t c) {
  for (const Range& range : ranges) {
    if (range.first <= c && c <= range.last) {
      return true;
    }
  }
  return false;
}

// All ASCII that is no letter, digit, space or control counts as punctuation for BERT; beyond ASCII, Unicode's P*.
constexpr Range kPunctuation[] = {{0x21, 0x2F},     {0x3A, 0x40},     {0x5B, 0x60},     {0x7B, 0x7E},
                                  {0xA1, 0xA1},     {0xA7, 0xA7},     {0xAB, 0xAB},     {0xB6, 0xB7},
                                  {0xBB, 0xBB},     {0xBF, 0xBF},     {0x2010, 0x2027}, {0x2030, 0x2043},
                                  {0x2045, 0x2051}, {0x2053, 0x205E}, {0x3001, 0x3003}, {0x3008, 0x3011}};
constexpr Range kSpaces[] = {{0x09, 0x0A},     {0x0D, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// Controls, format characters and combining accents are dropped.
constexpr Range kDropped[] = {{0x00, 0x08},     {0x0B, 0x0C},     {0x0E, 0x1F},     {0x7F, 0x9F},
                              {0xAD, 0xAD},     {0x300, 0x36F},   {0x200B, 0x200F}, {0x202A, 0x202E},
                              {0x2060, 0x2064}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
constexpr Range kIdeographs[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                 {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
// Other characters that stay as they are: Latin-1 symbols and currencies.
constexpr Range kSymbols[] = {{0xA2, 0xBE}, {0x2044, 0x2044}, {0x2052, 0x2052}, {0x20A0, 0x20BF}};

std::string utf8(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

/// Lower case, without accent. Throws for characters of other scripts.
std::string normalized(char32_t c) {
  if (c >= 'A' && c <= 'Z') {
    return std::string(1, static_cast<char>(c - 'A' + 'a'));
  }
  if (c < 0x80 || within(kSymbols, c)) {
    return utf8(c);
  }
  if (c >= 0xC0 && c - 0xC0 < latin_table().size()) {
    return latin_table()[c - 0xC0];
  }
  throw std::runtime_error(hex(c) + " is outside the scripts that this tokenizer knows: Latin and CJK ideographs");
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) {
      result.push_back(std::move(word));
      word.clear();
    }
  };
  for (const char32_t c : decode_utf8(text)) {
    if (within(kDropped, c)) {
      continue;
    }
    if (within(kSpaces, c)) {
      finish();
    } else if (within(kPunctuation, c) || within(kIdeographs, c)) {
      finish();
      result.push_back(utf8(c));
    } else {
      word += normalized(c);
    }
  }
  finish();
  return result;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

size_t character_count(const std::string& word) {
  size_t count = 0;
  for (const char byte : word) {
    count += !is_continuation(byte);
  }
  return count;
}

}  // namespace

WordPiece::WordPiece(const std::string& vocab_path) {
  std::ifstream file(vocab_path);
  if (!file) {
    throw std::runtime_error("cannot read the vocabulary " + vocab_path);
  }
  int64_t id = 0;
  for (std::string token; std::getline(file, token); ++id) {
    if (!token.empty() && token.back() == '\r') {
      token.pop_back();
    }
    vocab_.emplace(std::move(token), id);
  }
  cls_ = special("[CLS]");
  sep_ = special("[SEP]");
  unk_ = special("[UNK]");
}

int64_t WordPiece::special(const std::string& token) const {
  const auto entry = vocab_.find(token);
  if (entry == vocab_.end()) {
    throw std::runtime_error("the vocabulary has no " + token + ": it is not one of BERT's");
  }
  return entry->second;
}

std::vector<int64_t> WordPiece::encode(std::string_view text, size_t max_tokens) const {
  std::vector<int64_t> ids = {cls_};
  for (const std::string& word : words(text)) {
    append_word(word, ids);
  }
  if (ids.size() + 1 > max_tokens) {
    ids.resize(max_tokens - 1);
  }
  ids.push_back(sep_);
  return ids;
}

// Longest match first, from the left; a word with any part that the vocabulary lacks is [UNK] as a whole.
void WordPiece::append_word(const std::string& word, std::vector<int64_t>& ids) const {
  const size_t before = ids.size();
  if (character_count(word) > kMaxWordCharacters) {
    ids.push_back(unk_);
    return;
  }
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    auto piece = vocab_.end();
    for (; end > begin; --end) {
      if (end < word.size() && is_continuation(word[end])) {
        continue;
      }
      piece = vocab_.find((begin == 0 ? "" : "##") + word.substr(begin, end - begin));
      if (piece != vocab_.end()) {
        break;
      }
    }
    if (piece == vocab_.end()) {
      ids.resize(before);
      ids.push_back(unk_);
      return;
    }
    ids.push_back(piece->second);
    begin = end;
  }
}
