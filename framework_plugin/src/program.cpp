#include "program.h"

#include <array>
#include <cstddef>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace emu {
namespace {

struct ElementInfo {
  const char* memory;
  const char* compute;
  uint8_t bytes;
  bool floating;
};
constexpr std::array<ElementInfo, 10> elements{{{"f32", "f32", 4, true},
                                                {"f64", "f64", 8, true},
                                                {"f16", "f32", 2, true},
                                                {"bf16", "f32", 2, true},
                                                {"i8", "i8", 1, false},
                                                {"i16", "i16", 2, false},
                                                {"i32", "i32", 4, false},
                                                {"i64", "i64", 8, false},
                                                {"u8", "u8", 1, false},
                                                {"u8", "u8", 1, false}}};
const ElementInfo& info(Element element) { return elements[static_cast<size_t>(element)]; }

class Writer {
 public:
  explicit Writer(const Signature& signature) : s_(signature) {}

  std::string write() {
    out_ << ".program " << s_.row->name << '_' << memory_type(s_.common) << "\n.lanes " << kLanes << "\n.args "
         << slots(s_) * 8 << '\n';
    place();
    if (s_.row->indirect != Indirect::none) return write_indirect();
    std::map<std::string, std::string> values;
    for (int k = 1; k < s_.operands; ++k)
      values[std::string(1, static_cast<char>('a' + k - 1))] = input(k);
    for (int k = 0; k < s_.row->scalars; ++k) {
      const std::string value = uniform();
      line("arg.", scalar_type(s_), " ", value, ", ", slot_of_scalar(s_, k) * 8);
      values[std::string(1, static_cast<char>('x' + k))] = value;
    }
    std::string result = expression(values);
    const Element out = s_.operand[0].element;
    if (s_.row->predicate) {
      result = from_predicate("p0");
      if (out != Element::boolean) result = convert(result, Element::boolean, out);
    } else {
      result = narrow_to(result, out);
    }
    store(result);
    line("exit");
    return out_.str();
  }

 private:
  template <class... Part>
  void line(const Part&... part) {
    (out_ << ... << part) << '\n';
  }
  std::string uniform() { return "s" + std::to_string(next_uniform_++); }
  std::string vector() {
    if (next_vector_ == 32) throw std::logic_error(std::string("program ") + s_.row->name + " needs too many registers");
    return "v" + std::to_string(next_vector_++);
  }
  std::string argument(int slot) {
    const std::string value = uniform();
    line("arg.i64 ", value, ", ", slot * 8);
    return value;
  }
  // Scratch uniform registers s28 to s31 live for a line or two.
  void load_argument(const char* scratch, int slot) { line("arg.i64 ", scratch, ", ", slot * 8); }

  // Sets VL and leaves the first element's index in s2 (along the row for `rows`; in a loop for `serial`).
  void place() {
    line("arg.i64 s3, 0");
    if (s_.serial) {
      line("const.i64 s1, 1");
      line("setvl s4, s1");
    } else {
      line("block s0, 0");
      line("const.i64 s1, ", kLanes);
      line("mul.i64 s2, s0, s1");
      line("sub.i64 s3, s3, s2");
      line("setvl s4, s3");
    }
    next_uniform_ = 5;
    for (int k = 0; k < s_.operands; ++k) {
      base_.push_back(s_.operand[k].access == Access::uniform ? std::string() : argument(slot_of_operand(k)));
      offset_.emplace_back();
    }
    if (s_.serial) line("loop s2, s3");
    switch (s_.layout) {
      case Layout::flat: return;
      case Layout::rows: return place_row();
      case Layout::general: return place_lanes();
    }
  }

  bool indexed(int k) const { return s_.operand[k].access == Access::strided; }

  // The outer index is the block's second coordinate: the same for all lanes, so uniform arithmetic.
  void place_row() {
    line("block s31, 1");
    for (int dim = 1; dim < s_.dims; ++dim) {
      load_argument("s30", slot_of_size(s_, dim));
      line("rem.i64 s29, s31, s30");
      line("div.i64 s31, s31, s30");
      for (int k = 0; k < s_.operands; ++k) {
        if (s_.operand[k].access == Access::uniform) continue;
        load_argument("s28", slot_of_stride(s_, k, dim));
        line("mul.i64 s28, s28, s29");
        line("add.i64 ", base_[k], ", ", base_[k], ", s28");
      }
    }
  }

  void place_lanes() {
    const char* type = s_.narrow ? "i32" : "i64";
    std::string index = vector();
    line("lane.", type, " ", index);
    line("add.", type, " ", index, ", ", index, ", s2");
    const std::string rest = vector();
    const std::string remainder = vector();
    const std::string wide = s_.narrow ? vector() : remainder;
    const std::string step = vector();
    for (int dim = 0; dim < s_.dims; ++dim) {
      const bool last = dim + 1 == s_.dims;
      std::string at = index;
      if (!last) {
        load_argument("s30", slot_of_size(s_, dim));
        line("div.", type, " ", rest, ", ", index, ", s30");
        line("mul.", type, " ", remainder, ", ", rest, ", s30");
        line("sub.", type, " ", remainder, ", ", index, ", ", remainder);
        line("mov.", type, " ", index, ", ", rest);
        at = remainder;
      }
      if (s_.narrow) {
        line("cvt.i64.i32 ", wide, ", ", at);
        at = wide;
      }
      for (int k = 0; k < s_.operands; ++k) {
        if (!indexed(k)) continue;
        load_argument("s30", slot_of_stride(s_, k, dim));
        if (offset_[k].empty()) {
          offset_[k] = vector();
          line("mul.i64 ", offset_[k], ", ", at, ", s30");
        } else {
          line("mul.i64 ", step, ", ", at, ", s30");
          line("add.i64 ", offset_[k], ", ", offset_[k], ", ", step);
        }
      }
    }
  }

  std::string write_indirect() {
    const Indirect kind = s_.row->indirect;
    const bool wrap = kind != Indirect::gather && kind != Indirect::scatter;
    const int at = kind == Indirect::scatter || kind == Indirect::scatter_wrap ? 0 : 1;
    const char* type = memory_type(s_.operand[0].element);
    const std::string offset = offset_[static_cast<size_t>(at)];
    const std::string bad = vector();
    line("const.i64 s31, 0");
    for (int k = 2; k < s_.operands; ++k) {
      std::string index = vector();
      const char* held = memory_type(s_.operand[k].element);
      line("gather.", held, " ", index, ", ", base_[static_cast<size_t>(k)], ", ", offset_[static_cast<size_t>(k)]);
      if (std::string(held) != "i64") index = cvt(index, "i64", held);
      const std::string given = index;
      load_argument("s28", slot_of_scalar(s_, 2 * (k - 2)));
      load_argument("s29", slot_of_scalar(s_, 2 * (k - 2) + 1));
      if (wrap) {
        index = vector();
        line("add.i64 ", index, ", ", given, ", s28");
        line("cmp.lt.i64 p0, ", given, ", s31");
        line("sel.i64 ", index, ", p0, ", index, ", ", given);
      }
      line("cmp.lt.i64 p1, ", index, ", s31");
      line("cmp.ge.i64 p2, ", index, ", s28");
      line("por p1, p1, p2");
      line("por p3, ", k == 2 ? "p1" : "p3", ", p1");
      tell(given, bad, k);
      line("mul.i64 ", index, ", ", index, ", s29");
      line("add.i64 ", offset, ", ", offset, ", ", index);
    }
    const size_t to = kind == Indirect::put_wrap || kind == Indirect::add_wrap ? 1 : 0;
    const std::string value = vector();
    line("const.", type, " ", value, ", 0");
    line("@!p3 gather.", type, " ", value, ", ", base_[1 - to], ", ", offset_[1 - to]);
    if (kind == Indirect::add_wrap)
      add(type, value, to);
    else
      line("@!p3 scatter.", type, " ", value, ", ", base_[to], ", ", offset_[to]);
    if (s_.serial) line("end");
    line("exit");
    return out_.str();
  }

  // Adds `value` to the elements of operand `to` where p3 is false; indices may name one of them several times.
  void add(const char* type, const std::string& value, size_t to) {
    const std::string held = vector();
    line("const.", type, " ", held, ", 0");
    if (s_.serial) {
      line("@!p3 gather.", type, " ", held, ", ", base_[to], ", ", offset_[to]);
      line("add.", type, " ", held, ", ", held, ", ", value);
      line("@!p3 scatter.", type, " ", held, ", ", base_[to], ", ", offset_[to]);
    } else if (type[0] == 'f') {
      line("@!p3 atom.add.", type, " ", held, ", ", base_[to], ", ", offset_[to], ", ", value);
    } else {
      line("@!p3 red.add.", type, " ", value, ", ", base_[to], ", ", offset_[to]);
    }
  }

  // Writes index and bound (s28) into the record's entry of this operand, then the launch, if p1 is true for
  // any lane and no other launch did.
  void tell(const std::string& index, const std::string& bad, int k) {
    const int record = 2 * (s_.operands - 2);
    line("any s27, p1");
    line("skipz s27, inside", k);
    load_argument("s25", slot_of_scalar(s_, record));
    load_argument("s24", slot_of_scalar(s_, record + 1));
    line("const.i64 s23, ", sizeof(uint64_t) * static_cast<size_t>(k - 2));
    line("add.i64 s25, s25, s23");
    line("sload.i64 s22, s25");
    line("cmp.eq.i64 s21, s22, s31");
    line("cmp.eq.i64 s20, s22, s24");
    line("or.i64 s21, s21, s20");
    line("skipz s21, inside", k);
    line("const.i64 s26, -9223372036854775808");
    line("sel.i64 ", bad, ", p1, ", index, ", s26");
    line("reduce.max.i64 s26, ", bad);
    line("const.i64 s23, ", offsetof(BoundsRecord, index));
    line("add.i64 s22, s25, s23");
    line("sstore.i64 s26, s22");
    line("const.i64 s23, ", offsetof(BoundsRecord, bound));
    line("add.i64 s22, s25, s23");
    line("sstore.i64 s28, s22");
    line("sstore.i64 s24, s25");
    line("inside", k, ":");
  }

  // Address of the block's first element, in s28, and for strided access the stride in s29.
  void point(int k, size_t bytes) {
    if (indexed(k))
      load_argument("s29", slot_of_stride(s_, k, 0));
    else
      line("const.i64 s29, ", bytes);
    line("mul.i64 s28, s2, s29");
    line("add.i64 s28, s28, ", base_[k]);
  }

  std::string input(int k) {
    const Element element = s_.operand[k].element;
    const bool mask = ((s_.row->masks >> (k - 1)) & 1) != 0;
    const std::string value = vector();
    const char* type = memory_type(element);
    if (s_.operand[k].access == Access::uniform) {  // the host has converted it to the compute type
      const char* computed = compute_type(mask ? Element::boolean : s_.common);
      line("arg.", computed[0] == 'f' ? computed : "i64", " s28, ", slot_of_operand(k) * 8);
      line("mov.", computed, " ", value, ", s28");
      return value;
    }
    if (s_.layout == Layout::general && indexed(k)) {
      line("gather.", type, " ", value, ", ", base_[k], ", ", offset_[k]);
    } else {
      point(k, size_of(element));
      if (indexed(k))
        line("loads.", type, " ", value, ", s28, s29");
      else
        line("load.", type, " ", value, ", s28");
    }
    if (mask) return convert(value, element, Element::boolean);
    return to_compute(convert(value, element, s_.common), s_.common);
  }

  void store(const std::string& value) {
    const Element element = s_.operand[0].element;
    const char* type = memory_type(element);
    if (s_.layout == Layout::general && indexed(0)) {
      line("scatter.", type, " ", value, ", ", base_[0], ", ", offset_[0]);
      return;
    }
    point(0, size_of(element));
    if (indexed(0))
      line("stores.", type, " ", value, ", s28, s29");
    else
      line("store.", type, " ", value, ", s28");
  }

  std::string cvt(const std::string& value, const char* to, const char* from) {
    const std::string made = vector();
    line("cvt.", to, ".", from, " ", made, ", ", value);
    return made;
  }
  std::string from_predicate(const char* predicate) {
    const std::string made = vector();
    line("const.u8 s30, 1");
    line("const.u8 s31, 0");
    line("sel.u8 ", made, ", ", predicate, ", s30, s31");
    return made;
  }
  std::string truth(const std::string& value, const char* type) {
    line("const.", type, " s30, 0");
    line("cmp.ne.", type, " p7, ", value, ", s30");
    return from_predicate("p7");
  }

  // Between two element types, each as it lies in memory; rounds and wraps as PyTorch on CPU does:
  // narrow integers are reached through i64, halves through f32.
  std::string convert(const std::string& value, Element from, Element to) {
    if (from == to) return value;
    if (to == Element::boolean) return truth(value, memory_type(from));
    return from_compute(cvt_between(to_compute(value, from), compute_type(from), to), to);
  }
  // From a compute type to the compute type of `to`.
  std::string cvt_between(const std::string& value, const char* from, Element to) {
    const std::string target = compute_type(to);
    if (target == from) return value;
    if (from[0] == 'f' && info(to).bytes < 4 && !info(to).floating)
      return cvt(cvt(value, "i64", from), target.c_str(), "i64");
    return cvt(value, target.c_str(), from);
  }
  std::string to_compute(const std::string& value, Element element) {
    const ElementInfo& e = info(element);
    return std::string(e.memory) == e.compute ? value : cvt(value, e.compute, e.memory);
  }
  std::string from_compute(const std::string& value, Element element) {
    const ElementInfo& e = info(element);
    return std::string(e.memory) == e.compute ? value : cvt(value, e.memory, e.compute);
  }
  // The result, in the common type's compute type, as the output's element type. Where the output has
  // another type than the common one, PyTorch rounds to the common type first.
  std::string narrow_to(const std::string& value, Element out) {
    const char* computed = compute_type(s_.common);
    if (out == Element::boolean) return truth(value, computed);
    if (out == s_.common) return from_compute(value, out);
    return convert(from_compute(value, s_.common), s_.common, out);
  }

  std::string linear_index() {
    const std::string index = vector();
    line("lane.i64 ", index);
    line("add.i64 ", index, ", ", index, ", s2");
    return index;
  }

  std::string expression(std::map<std::string, std::string> values) {
    const Row& row = *s_.row;
    const char* text = row.text;
    if (s_.common == Element::boolean && row.boolean != nullptr)
      text = row.boolean;
    else if (!is_float(s_.common) && row.integer != nullptr)
      text = row.integer;
    if (text[0] == '=') return values.at(text + 1);
    std::stringstream lines(text);
    std::string one;
    while (std::getline(lines, one, ';')) instruction(one, values);
    return row.predicate ? std::string() : values.at("o");
  }

  void instruction(const std::string& text, std::map<std::string, std::string>& values) {
    std::stringstream tokens(text);
    std::string name;
    tokens >> name;
    for (size_t at = name.find("$T"); at != std::string::npos; at = name.find("$T"))
      name.replace(at, 2, compute_type(s_.common));
    std::vector<std::string> operands;
    std::string token;
    while (tokens >> token) {
      if (token.back() == ',') token.pop_back();
      operands.push_back(token);
    }
    std::vector<std::string> sources;
    for (size_t k = 1; k < operands.size(); ++k) sources.push_back(source(operands[k], name, values));
    std::string target = operands[0];
    // Each result gets a register of its own where its name is new, since a register keeps its type.
    if (target[0] != 'p') {
      auto found = values.find(target);
      target = found != values.end() && target[0] == 't' ? found->second : (values[target] = vector());
    }
    out_ << name << ' ' << target;
    for (const std::string& value : sources) out_ << ", " << value;
    out_ << '\n';
  }

  std::string source(const std::string& token, const std::string& name, std::map<std::string, std::string>& values) {
    if (token[0] == 'p') return token;
    if (token[0] == '#') {
      const std::string key = token + name.substr(name.rfind('.'));
      auto found = values.find(key);
      if (found != values.end()) return found->second;
      const std::string made = uniform();
      line("const", name.substr(name.rfind('.')), " ", made, ", ", token.substr(1));
      return values[key] = made;
    }
    if (token == "i" && values.find("i") == values.end()) values["i"] = linear_index();
    return values.at(token);
  }

  const Signature& s_;
  std::stringstream out_;
  std::vector<std::string> base_;
  std::vector<std::string> offset_;
  int next_uniform_ = 0;
  int next_vector_ = 0;
};

}  // namespace

size_t size_of(Element element) { return info(element).bytes; }
const char* memory_type(Element element) { return info(element).memory; }
const char* compute_type(Element element) { return info(element).compute; }
bool is_float(Element element) { return info(element).floating; }

const char* scalar_type(const Signature& signature) {
  if (signature.row->scalar_type != nullptr) return signature.row->scalar_type;
  const char* computed = compute_type(signature.common);
  return computed[0] == 'f' ? computed : "i64";
}

std::string write_program(const Signature& signature) { return Writer(signature).write(); }

}  // namespace emu
