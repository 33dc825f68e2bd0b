#include "tests/cli/hfx.h"

#include "exporters/weights/safetensors.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sub.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <cstdlib>
#include <stdexcept>

namespace exporters::testing {

namespace fs = std::filesystem;

namespace {

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

void redirect(const fs::path& file, int stream) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::dup2(fd, stream) < 0) {
    ::_exit(126);
  }
}

// In files, not pipes: a program that writes much to one stream cannot block on the other.
HfxResult run(const std::vector<std::string>& command, const fs::path& working_folder) {
  const TemporaryFolder streams;
  std::vector<char*> argv;
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  const fs::path out = streams / "out";
  const fs::path err = streams / "err";
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error("cannot start " + command.front());
  }
  if (child == 0) {
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    if (::chdir(working_folder.c_str()) == 0) {
      ::execv(argv.front(), argv.data());
    }
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

// Whether the axes of `tensor` begin with those of the mask, so that the mask says which of its positions count.
bool has_positions(const at::Tensor& tensor, const at::Tensor& mask) {
  return mask.defined() && tensor.dim() >= mask.dim() && tensor.sizes().slice(0, mask.dim()) == mask.sizes();
}

double difference(const at::Tensor& actual, const at::Tensor& expected, const at::Tensor& mask) {
  at::Tensor delta = at::abs(at::sub(actual.to(at::kFloat), expected.to(at::kFloat)));
  if (has_positions(delta, mask)) {
    at::Tensor counts = mask.to(at::kBool);
    while (counts.dim() < delta.dim()) {
      counts = counts.unsqueeze(-1);
    }
    delta = delta.masked_fill(counts.logical_not(), 0);
  }
  return delta.numel() == 0 ? 0 : at::max(delta).item<double>();
}

}  // namespace

HfxResult hfx(const std::vector<std::string>& args) {
  std::vector<std::string> command = {(program_folder() / "hfx").string()};
  command.insert(command.end(), args.begin(), args.end());
  return run(command, fs::current_path());
}

HfxResult shell(const std::string& script, const fs::path& folder) {
  return run({"/bin/sh", "-c", "PATH='" + program_folder().string() + "':$PATH\n" + script}, folder);
}

fs::path minilm() {
  const char* models = std::getenv("EXPORTERS_MODELS");
  const fs::path folder =
      fs::absolute((models == nullptr ? fs::path(".deps/models") : fs::path(models)) / "all-MiniLM-L6-v2");
  if (!fs::exists(folder / "config.json")) {
    throw std::runtime_error(folder.string() + " is missing: run scripts/setup");
  }
  return folder;
}

fs::path tiny_checkpoint(const std::string& name) { return reference_folder("models") / "cases" / name; }

ReferenceRun::ReferenceRun(const fs::path& file) {
  const auto tensors = SafetensorsFile::open(file);
  type = tensors->metadata().at("class");
  for (const SafetensorsEntry& entry : tensors->entries()) {
    if (entry.name.starts_with("in.")) {
      inputs.emplace_back(entry.name.substr(3), tensors->tensor(entry));
    } else {
      outputs.emplace(entry.name.substr(4), tensors->tensor(entry));
    }
  }
}

void expect_same(const PyTree& actual, const ReferenceRun& expected, double tolerance) {
  EXPECT_EQ(actual.type(), expected.type);
  at::Tensor mask;
  for (const auto& [name, value] : expected.inputs) {
    mask = name == "attention_mask" ? value.tensor() : mask;
  }
  const auto tensors = actual.tensors();
  EXPECT_EQ(tensors.size(), expected.outputs.size());
  for (const auto& [path, tensor] : tensors) {
    const auto found = expected.outputs.find(path);
    ASSERT_NE(found, expected.outputs.end()) << path;
    ASSERT_EQ(tensor.sizes(), found->second.sizes()) << path;
    ASSERT_EQ(tensor.scalar_type(), found->second.scalar_type()) << path;
    EXPECT_LE(difference(tensor, found->second, mask), tolerance) << path;
  }
}

}  // namespace exporters::testing
