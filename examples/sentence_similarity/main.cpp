// How alike sentences are, by an exported sentence-transformers model: tokenizer, ONNX Runtime, mean pooling,
// cosine similarity.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "word_piece.h"

namespace {

constexpr const char* kUsage =
    "usage: sentence_similarity MODEL.onnx VOCAB.txt [SENTENCE…]   prints a table of cosine similarities\n"
    "       sentence_similarity --tokens VOCAB.txt SENTENCE…       prints token ids, one sentence a line\n";

const std::vector<std::string> kSentences = {
    "A man is playing a guitar.",           "Somebody makes music on a string instrument.",
    "The stock market fell sharply today.", "Shares lost a lot of their value this morning.",
    "My cat sleeps on the windowsill.",
};

/// Sentences padded to one length: row-major [sentences, length].
struct Batch {
  int64_t sentences = 0;
  int64_t length = 0;
  std::map<std::string, std::vector<int64_t>> inputs;  // by the model's input names
};

Batch tokenize(const WordPiece& tokenizer, const std::vector<std::string>& sentences) {
  std::vector<std::vector<int64_t>> rows;
  size_t length = 0;
  for (const std::string& sentence : sentences) {
    rows.push_back(tokenizer.encode(sentence));
    length = std::max(length, rows.back().size());
  }
  Batch batch;
  batch.sentences = static_cast<int64_t>(rows.size());
  batch.length = static_cast<int64_t>(length);
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
    batch.inputs[name].assign(rows.size() * length, 0);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), batch.inputs["input_ids"].begin() + i * length);
    std::fill_n(batch.inputs["attention_mask"].begin() + i * length, rows[i].size(), 1);
  }
  return batch;
}

Ort::Value tensor(std::vector<int64_t>& values, const Batch& batch) {
  const int64_t shape[] = {batch.sentences, batch.length};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  return Ort::Value::CreateTensor<int64_t>(memory, values.data(), values.size(), shape, 2);
}

/// The model's first output, float [sentences, length, hidden].
Ort::Value run(Ort::Session& session, Batch& batch) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<std::string> names;
  std::vector<const char*> name_pointers;
  std::vector<Ort::Value> values;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    names.emplace_back(session.GetInputNameAllocated(i, allocator).get());
    const auto input = batch.inputs.find(names.back());
    if (input == batch.inputs.end()) {
      throw std::runtime_error("the model wants an input '" + names.back() + "', which a sentence does not give");
    }
    values.push_back(tensor(input->second, batch));
  }
  for (const std::string& name : names) {
    name_pointers.push_back(name.c_str());
  }
  const auto output = session.GetOutputNameAllocated(0, allocator);
  const char* output_name = output.get();
  return std::move(
      session.Run(Ort::RunOptions(), name_pointers.data(), values.data(), values.size(), &output_name, 1).front());
}

/// The mean over each sentence's own tokens, scaled to length 1.
std::vector<std::vector<float>> embeddings(const Ort::Value& hidden, const Batch& batch) {
  const auto shape = hidden.GetTensorTypeAndShapeInfo().GetShape();
  if (shape.size() != 3 || shape[0] != batch.sentences || shape[1] != batch.length) {
    throw std::runtime_error("the model's first output is not [sentences, tokens, hidden]");
  }
  if (hidden.GetTensorTypeAndShapeInfo().GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    throw std::runtime_error("the model's first output is not float32: export it with --dtype float32");
  }
  const auto* data = hidden.GetTensorData<float>();
  const auto& mask = batch.inputs.at("attention_mask");
  std::vector<std::vector<float>> result;
  for (int64_t i = 0; i < shape[0]; ++i) {
    std::vector<float> sum(static_cast<size_t>(shape[2]), 0.0F);
    for (int64_t t = 0; t < shape[1]; ++t) {
      if (mask[i * shape[1] + t] == 0) {
        continue;
      }
      for (int64_t h = 0; h < shape[2]; ++h) {
        sum[h] += data[(i * shape[1] + t) * shape[2] + h];
      }
    }
    const float norm = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0F));
    for (float& value : sum) {
      value /= norm;
    }
    result.push_back(std::move(sum));
  }
  return result;
}

void print_table(const std::vector<std::string>& sentences, const std::vector<std::vector<float>>& vectors) {
  for (size_t i = 0; i < sentences.size(); ++i) {
    std::printf("%2zu  %s\n", i + 1, sentences[i].c_str());
  }
  std::printf("\n  ");
  for (size_t i = 0; i < sentences.size(); ++i) {
    std::printf("%7zu", i + 1);
  }
  for (size_t i = 0; i < vectors.size(); ++i) {
    std::printf("\n%2zu", i + 1);
    for (const std::vector<float>& other : vectors) {
      std::printf("%7.3f", std::inner_product(vectors[i].begin(), vectors[i].end(), other.begin(), 0.0F));
    }
  }
  std::printf("\n");
}

int print_tokens(const WordPiece& tokenizer, const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    const char* separator = "";
    for (const int64_t id : tokenizer.encode(sentence)) {
      std::printf("%s%lld", separator, static_cast<long long>(id));
      separator = " ";
    }
    std::printf("\n");
  }
  return 0;
}

int similarity(const std::string& model, const WordPiece& tokenizer, const std::vector<std::string>& sentences) {
  if (!std::filesystem::exists(model)) {
    throw std::runtime_error("there is no model " + model);
  }
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "sentence_similarity");
  Ort::Session session(env, model.c_str(), Ort::SessionOptions());
  Batch batch = tokenize(tokenizer, sentences);
  print_table(sentences, embeddings(run(session, batch), batch));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    const WordPiece tokenizer(arguments[1]);
    const std::vector<std::string> sentences(arguments.begin() + 2, arguments.end());
    if (arguments[0] == "--tokens") {
      return print_tokens(tokenizer, sentences);
    }
    return similarity(arguments[0], tokenizer, sentences.empty() ? kSentences : sentences);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sentence_similarity: %s\n", error.what());
    return 1;
  }
}
