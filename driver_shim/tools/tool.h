/* What emu-as and emu-objdump share: one input, one output, and errors as `NAME:LINE:COLUMN: message`.
 * Exit status: 0 done, 1 the input is refused, 2 wrong usage, a file can't be read or written, or no
 * memory. */
#ifndef EMU_TOOL_H
#define EMU_TOOL_H

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace emu::tool {

constexpr int kRefused = 1, kUsage = 2;
constexpr size_t kMostBytes = size_t(64) << 20; /* of the input; a program has fewer, as text too */

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

/* Of a longer one the first kMostBytes + 1 bytes; none, with errno, when it can't be read. */
inline std::optional<std::string> read(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"),
                                                     std::fclose);
  FILE* const file = path == "-" ? stdin : opened.get();
  if (file == nullptr) return std::nullopt;
  std::string all;
  char piece[65536];
  while (all.size() <= kMostBytes) {
    const size_t got = std::fread(piece, 1, std::min(sizeof piece, kMostBytes + 1 - all.size()), file);
    all.append(piece, got);
    if (got == 0) break;
  }
  if (std::ferror(file) != 0) return std::nullopt;
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

template <class Work>
int run_between(int argc, char** argv, const char* usage, Work work) {
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
  std::optional<std::string> output;
  if (input->size() > kMostBytes) {
    why = " expected a program of at most " + std::to_string(kMostBytes) + " bytes, got more";
  } else {
    output = work(*input, why);
  }
  if (!output) {
    std::cerr << (files->input == "-" ? "<stdin>" : files->input) << ":" << why << "\n";
    return kRefused;
  }
  if (write(files->output, *output)) return 0;
  std::cerr << files->output << ": can't be written: " << std::strerror(errno) << "\n";
  return kUsage;
}

/* Runs `work` (input bytes to output bytes, or nothing and the reason) between the two files. */
template <class Work>
int run(int argc, char** argv, const char* usage, Work work) {
  try {
    return run_between(argc, argv, usage, work);
  } catch (const std::bad_alloc&) {
    std::cerr << argv[0] << ": no memory for the program\n";
    return kUsage;
  }
}

}  // namespace emu::tool

#endif
