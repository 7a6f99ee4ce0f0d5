#include "normalization_program.h"

#include <array>
#include <sstream>

namespace emu {
namespace {

constexpr std::array<const char*, 3> names{"softmax", "log_softmax", "layer_norm"};

using Slots = NormalizationSlots;

// s10 and s11 are where the row starts in input and output, s12 its length, s13 the lanes. The row is in v1, in the type
// computed in.
class Writer {
 public:
  explicit Writer(const Normalization& what)
      : what_(what), type_(compute_type(what.element)), memory_(memory_type(what.element)) {}

  std::string write() {
    out_ << ".program " << names[static_cast<size_t>(what_.kind)] << '_' << memory_ << "\n.lanes " << what_.lanes
         << "\n.args " << Slots::count * 8 << '\n';
    line("block s1, 0");
    line("arg.i64 s12, ", Slots::length * 8);
    line("mul.i64 s2, s1, s12");
    line("const.i64 s3, ", size_of(what_.element));
    line("mul.i64 s2, s2, s3");
    for (const auto& [name, slot] : {std::pair{"s10", Slots::in}, std::pair{"s11", Slots::out}}) {
      line("arg.i64 ", name, ", ", slot * 8);
      line("add.i64 ", name, ", ", name, ", s2");
    }
    line("const.i64 s13, ", what_.lanes);
    if (!what_.full) line("setvl s4, s12");
    if (what_.kind == Normalize::layer_norm)
      layer_norm();
    else
      softmax();
    line("exit");
    return out_.str();
  }

 private:
  template <class... Part>
  void line(const Part&... part) {
    (out_ << ... << part) << '\n';
  }

  // Loads `reg` from `base` and the place of the chunk, converted; v0 is used for what is converted.
  void load(const char* reg, const char* base, Element element) {
    const char* from = memory_type(element);
    if (!what_.whole) {
      line("const.i64 s5, ", size_of(element));
      line("mul.i64 s5, s5, s14");
      line("add.i64 s5, s5, ", base);
      base = "s5";
    }
    if (type_ == from) return line("load.", from, " ", reg, ", ", base);
    line("load.", from, " v0, ", base);
    line("cvt.", type_, ".", from, " ", reg, ", v0");
  }
  void load_row() { load("v1", "s10", what_.element); }

  void store_row(const char* value) {
    std::string to = "s11";
    if (!what_.whole) {
      line("const.i64 s5, ", size_of(what_.element));
      line("mul.i64 s5, s5, s14");
      line("add.i64 s5, s5, s11");
      to = "s5";
    }
    if (type_ == memory_) return line("store.", memory_, " ", value, ", ", to);
    line("cvt.", memory_, ".", type_, " v0, ", value);
    line("store.", memory_, " v0, ", to);
  }

  // A pass over the row: `body` sees a chunk of it, whose first element is number s14. Where the row is whole it is
  // loaded by the first pass only, and stays.
  template <class Body>
  void pass(Body body) {
    if (what_.whole) return body();
    line("add.i64 s6, s12, s13");
    line("const.i64 s7, 1");
    line("sub.i64 s6, s6, s7");
    line("div.i64 s6, s6, s13");
    line("loop s15, s6");
    line("mul.i64 s14, s15, s13");
    line("sub.i64 s7, s12, s14");
    line("setvl s4, s7");
    load_row();
    body();
    line("end");
    line("setvl s4, s12");
  }

  // A pass that reduces: `body` names the register that holds a value for each lane, and their reduction is in `to`.
  template <class Body>
  void reduce(const char* to, const char* across, const char* step, const char* identity, Body body) {
    if (what_.whole) return line("reduce.", across, ".", type_, " ", to, ", ", body());
    line("const.", type_, " v10, ", identity);
    pass([&] { line(step, ".", type_, " v10, v10, ", body()); });
    line("reduce.", across, ".", type_, " ", to, ", v10");
  }
  template <class Body>
  void sum(const char* to, Body body) {
    reduce(to, "sum", "add", "0", body);
  }

  // Registers are few on purpose: what a block uses has to stay in the host's first cache.
  void softmax() {
    const bool logarithm = what_.kind == Normalize::log_softmax;
    const char* powers = logarithm ? "v2" : "v1";
    const auto raise = [&] {
      line("sub.", type_, " v1, v1, s20");
      line("exp.", type_, " ", powers, ", v1");
      return powers;
    };
    if (what_.whole) load_row();
    reduce("s20", "max", "max", "-inf", [] { return "v1"; });
    sum("s21", raise);
    if (logarithm) line("log.", type_, " s21, s21");
    pass([&] {
      if (!what_.whole && logarithm) line("sub.", type_, " v1, v1, s20");
      if (!what_.whole && !logarithm) raise();
      line(logarithm ? "sub." : "div.", type_, " v1, v1, s21");
      store_row("v1");
    });
  }

  void layer_norm() {
    line("cvt.", type_, ".i64 s22, s12");
    line("arg.", type_, " s23, ", Slots::epsilon * 8);
    if (what_.weight) line("arg.i64 s16, ", Slots::weight * 8);
    if (what_.bias) line("arg.i64 s17, ", Slots::bias * 8);
    if (what_.whole) load_row();
    sum("s20", [] { return "v1"; });
    line("div.", type_, " s20, s20, s22");
    sum("s21", [&] {
      line("sub.", type_, " v1, v1, s20");
      line("mul.", type_, " v2, v1, v1");
      return "v2";
    });
    line("div.", type_, " s21, s21, s22");
    line("add.", type_, " s21, s21, s23");
    line("sqrt.", type_, " s21, s21");
    line("const.", type_, " s24, 1");
    line("div.", type_, " s21, s24, s21");
    pass([&] {
      if (!what_.whole) line("sub.", type_, " v1, v1, s20");
      line("mul.", type_, " v1, v1, s21");
      if (what_.weight) {
        load("v2", "s16", what_.parameter);
        line("mul.", type_, " v1, v1, v2");
      }
      if (what_.bias) {
        load("v2", "s17", what_.parameter);
        line("add.", type_, " v1, v1, v2");
      }
      store_row("v1");
    });
    give_out("s20", Slots::mean);
    give_out("s21", Slots::rstd);
  }

  // One number of the row into the vector of them at the slot.
  void give_out(std::string value, int slot) {
    const char* to = memory_type(what_.parameter);
    line("arg.i64 s5, ", slot * 8);
    line("const.i64 s6, ", size_of(what_.parameter));
    line("mul.i64 s6, s6, s1");
    line("add.i64 s5, s5, s6");
    if (type_ != to) {
      line("cvt.", to, ".", type_, " s7, ", value);
      value = "s7";
    }
    line("sstore.", to, " ", value, ", s5");
  }

  const Normalization& what_;
  const std::string type_, memory_;
  std::stringstream out_;
};

}  // namespace

std::string write_program(const Normalization& what) { return Writer(what).write(); }

}  // namespace emu
