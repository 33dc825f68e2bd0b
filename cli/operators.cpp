#include "cli/commands.h"
#include "cli/table.h"

#include "exporters/onnx/translations/table.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

namespace hfx {
namespace {

using exporters::onnx::OnnxTranslationInfo;

struct Options {
  std::vector<std::string> ops;
  bool json = false;
  bool markdown = false;
};

// "aten.max.dim" → "aten.max.dim", "aten.max", "max.dim" and "max" name it.
bool names(const std::string& wanted, const std::string& op) {
  const std::string bare = op.substr(op.find('.') + 1);
  return wanted == op || wanted == bare || op.starts_with(wanted + ".") || bare.starts_with(wanted + ".");
}

std::vector<OnnxTranslationInfo> chosen(const std::vector<std::string>& ops) {
  const std::vector<OnnxTranslationInfo> all = exporters::onnx::onnx_translation_table();
  std::vector<OnnxTranslationInfo> result;
  std::vector<std::string> known;
  for (const OnnxTranslationInfo& info : all) {
    known.push_back(info.op);
  }
  for (const std::string& wanted : ops) {
    const size_t before = result.size();
    std::copy_if(all.begin(), all.end(), std::back_inserter(result),
                 [&](const OnnxTranslationInfo& info) { return names(wanted, info.op); });
    if (result.size() == before) {
      throw exporters::Error(fmt::format("no op {} has an ONNX translation", exporters::quote(wanted)), {},
                             exporters::did_you_mean(wanted, known));
    }
  }
  return ops.empty() ? all : result;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) {
    result.push_back(word);
  }
  return result;
}

void print_text(const std::vector<OnnxTranslationInfo>& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const OnnxTranslationInfo& entry : entries) {
    rows.push_back({entry.op, std::to_string(entry.opset),
                    fmt::format("{}", fmt::join(words(entry.notes.operators), ", ")), entry.notes.limits});
  }
  std::cout << table({"op", "opset", "ONNX operators", "refused"}, rows);
}

void print_json(const std::vector<OnnxTranslationInfo>& entries) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const OnnxTranslationInfo& entry : entries) {
    document.push_back({{"op", entry.op},
                        {"opset", entry.opset},
                        {"operators", words(entry.notes.operators)},
                        {"refused", entry.notes.limits}});
  }
  std::cout << document.dump(2) << "\n";
}

constexpr const char* kPage =
    "# ONNX operators of torch ops\n\n"
    "Made by `hfx operators --markdown` from the table of translations. Tests compare this page with that output, and "
    "hold each row against what calls of the op become and against what ATen gives for them.\n\n"
    "An op is named with its overload, or without, for all of them. The opset is the lowest that the row is for; of "
    "several rows for an op, that of the highest opset which the model reaches counts. Casts and the arithmetic of "
    "sizes are left out, unless there is nothing else; where there is no operator, the op gives its input or a "
    "constant.\n\n"
    "In all rows: complex tensors are refused; bfloat16 is computed as float32, and integers of 8 and 16 bits as wider "
    "ones, where ONNX Runtime's CPU provider has no kernel; an argument that has to be a number in ONNX, such as a "
    "kernel size or an axis, is refused where it is a size that the trace does not know. Operators on float64 without "
    "a kernel in ONNX Runtime's CPU provider are told in a warning of the export.\n\n"
    "| op | opset | ONNX operators | refused |\n|---|---|---|---|\n";

void print_markdown(const std::vector<OnnxTranslationInfo>& entries) {
  std::cout << kPage;
  for (const OnnxTranslationInfo& entry : entries) {
    std::cout << fmt::format("| `{}` | {} | {} | {} |\n", entry.op, entry.opset,
                             fmt::format("{}", fmt::join(words(entry.notes.operators), ", ")), entry.notes.limits);
  }
}

void run(const Options& options) {
  const std::vector<OnnxTranslationInfo> entries = chosen(options.ops);
  if (options.json) {
    print_json(entries);
  } else if (options.markdown) {
    print_markdown(entries);
  } else {
    print_text(entries);
  }
}

}  // namespace

void add_operators_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("operators", "Show which ONNX operators each torch op becomes");
  command->add_option("OPS", options->ops, "Ops to show, such as gelu or aten.max.dim; by default all");
  CLI::Option* json = command->add_flag("--json", options->json, "Print as JSON");
  command->add_flag("--markdown", options->markdown, "Print as the page of the documentation")->excludes(json);
  command->callback([options] { run(*options); });
}

}  // namespace hfx
