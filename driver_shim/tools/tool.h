/* What emu-as and emu-objdump share: one input, one output, and errors as `NAME:LINE:COLUMN: message`.
 * Exit status: 0 done, 1 the input is refused, 2 wrong usage or a file can't be read or written. */
#ifndef EMU_TOOL_H
#define EMU_TOOL_H

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace emu::tool {

constexpr int kRefused = 1, kUsage = 2;

struct Files {
  std::string input = "-", output = "-"; /* "-": standard input or output */
};

inline std::optional<Files> parse(int argc, char** argv) {
  Files files;
  bool has_input = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "-o" && i + 1 < argc) {
      files.output = argv[++i];
    } else if (!has_input && (word == "-" || !word.starts_with('-'))) {
      files.input = word;
      has_input = true;
    } else {
      return std::nullopt;
    }
  }
  return files;
}

inline std::optional<std::string> read(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return std::nullopt;
  }
  std::istream& stream = path == "-" ? std::cin : file;
  std::string all{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) return std::nullopt;
  return all;
}

inline bool write(const std::string& path, std::string_view bytes) {
  std::ofstream file;
  if (path != "-") file.open(path, std::ios::binary | std::ios::trunc);
  std::ostream& stream = path == "-" ? std::cout : file;
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.flush();
  return stream.good();
}

/* Runs `work` (input bytes to output bytes, or nothing and the reason) between the two files. */
template <class Work>
int run(int argc, char** argv, const char* usage, Work work) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::cout << usage;
    return 0;
  }
  const std::optional<Files> files = parse(argc, argv);
  if (!files) {
    std::cerr << usage;
    return kUsage;
  }
  const std::optional<std::string> input = read(files->input);
  if (!input) {
    std::cerr << files->input << ": can't be read: " << std::strerror(errno) << "\n";
    return kUsage;
  }
  std::string why;
  const std::optional<std::string> output = work(*input, why);
  if (!output) {
    std::cerr << (files->input == "-" ? "<stdin>" : files->input) << ":" << why << "\n";
    return kRefused;
  }
  if (write(files->output, *output)) return 0;
  std::cerr << files->output << ": can't be written: " << std::strerror(errno) << "\n";
  return kUsage;
}

}  // namespace emu::tool

#endif
