#include "reduction_program.h"

#include <array>
#include <sstream>
#include <vector>

namespace emu {
namespace {

constexpr std::array<const char*, 8> names{"sum", "prod", "min", "max", "any", "all", "argmin", "argmax"};

class Writer {
 public:
  explicit Writer(const Reduction& reduction)
      : r_(reduction), slots_(reduction), type_(compute_type(accumulator(reduction))) {}

  std::string write() {
    out_ << ".program reduce_" << names[static_cast<size_t>(r_.reduce)] << '_' << memory_type(r_.in) << "\n.lanes "
         << kReduceLanes << "\n.args " << slots_.count() * 8 << '\n';
    line("arg.i64 s10, ", ReductionSlots::in * 8);
    line("arg.i64 s11, ", ReductionSlots::out * 8);
    line("const.i64 s9, ", kReduceLanes);
    if (r_.across)
      across();
    else
      along();
    line("exit");
    return out_.str();
  }

 private:
  template <class... Part>
  void line(const Part&... part) {
    (out_ << ... << part) << '\n';
  }

  // Adds what the uniform index in s12 means to the addresses: input s10, and output s11 when `output`.
  void place_uniform(const char* input, bool output) {
    for (int dim = 0; dim < r_.uniform_dims; ++dim) {
      line("arg.i64 s13, ", slots_.uniform(0, dim) * 8);
      line("rem.i64 s14, s12, s13");
      line("div.i64 s12, s12, s13");
      line("arg.i64 s13, ", slots_.uniform(1, dim) * 8);
      line("mul.i64 s13, s13, s14");
      line("add.i64 ", input, ", ", input, ", s13");
      if (!output) continue;
      line("arg.i64 s13, ", slots_.uniform(2, dim) * 8);
      line("mul.i64 s13, s13, s14");
      line("add.i64 s11, s11, s13");
    }
  }

  // Byte offsets of the lanes whose linear index is in v0: input in v1, output in v2.
  void place_lanes(bool output) {
    line("const.i64 v1, 0");
    if (output) line("const.i64 v2, 0");
    line("mov.i64 v3, v0");
    for (int dim = 0; dim < r_.lane_dims; ++dim) {
      line("arg.i64 s13, ", slots_.lane(0, dim) * 8);
      line("div.i64 v4, v3, s13");
      line("mul.i64 v5, v4, s13");
      line("sub.i64 v5, v3, v5");
      line("mov.i64 v3, v4");
      line("arg.i64 s13, ", slots_.lane(1, dim) * 8);
      line("mul.i64 v6, v5, s13");
      line("add.i64 v1, v1, v6");
      if (!output) continue;
      line("arg.i64 s13, ", slots_.lane(2, dim) * 8);
      line("mul.i64 v6, v5, s13");
      line("add.i64 v2, v2, v6");
    }
  }

  // Loads lanes into v8 as the accumulator's type; `base` is uniform, offsets in v1 when there are several dims.
  void load(const char* base) {
    const char* type = memory_type(r_.in);
    line("gather.", type, " v7, ", base, ", v1");
    finish_load(type);
  }
  void load_strided(const char* base, const char* stride) {
    const char* type = memory_type(r_.in);
    line("loads.", type, " v7, ", base, ", ", stride);
    finish_load(type);
  }
  void finish_load(const char* type) {
    if (r_.reduce == Reduce::any || r_.reduce == Reduce::all) {
      line("const.", type, " s30, 0");
      line("cmp.ne.", type, " p0, v7, s30");
      line("const.i32 s30, 1");
      line("const.i32 s31, 0");
      line("sel.i32 v8, p0, s30, s31");
    } else if (type_ != type) {
      line("cvt.", type_, ".", type, " v8, v7");
    } else {
      line("mov.", type_, " v8, v7");
    }
  }

  std::string identity() const {
    const bool floating = type_[0] == 'f';
    switch (r_.reduce) {
      case Reduce::sum:
      case Reduce::any: return "0";
      case Reduce::prod:
      case Reduce::all: return "1";
      case Reduce::min:
      case Reduce::argmin: return floating ? "inf" : type_ == "i32" ? "2147483647" : "9223372036854775807";
      case Reduce::max:
      case Reduce::argmax: return floating ? "-inf" : type_ == "i32" ? "-2147483648" : "-9223372036854775808";
    }
    return "0";
  }
  const char* operation() const {
    switch (r_.reduce) {
      case Reduce::sum: return "add";
      case Reduce::prod: return "mul";
      case Reduce::min:
      case Reduce::all:
      case Reduce::argmin: return "min";
      default: return "max";
    }
  }
  const char* across_lanes() const {
    switch (r_.reduce) {
      case Reduce::sum: return "sum";
      case Reduce::prod: return "prod";
      default: return operation();
    }
  }

  void start() {
    line("const.", type_, " v10, ", identity());
    if (is_arg(r_.reduce)) line("const.i64 v11, 9223372036854775807");
  }

  // v10 (and v11: the index of what is there, or the largest i64 for none yet) takes v8 (index v0) in.
  void step() {
    if (!is_arg(r_.reduce)) {
      line(operation(), ".", type_, " v10, v10, v8");
      return;
    }
    line("cmp.", r_.reduce == Reduce::argmax ? "gt." : "lt.", type_, " p0, v8, v10");
    line("cmp.ne.", type_, " p1, v8, v8");
    line("cmp.eq.", type_, " p2, v10, v10");
    line("pand p1, p1, p2");
    line("por p0, p0, p1");
    line("const.i64 s30, 9223372036854775807");
    line("cmp.eq.i64 p2, v11, s30");
    line("por p0, p0, p2");
    line("sel.", type_, " v10, p0, v8, v10");
    line("sel.i64 v11, p0, v0, v11");
  }

  void across() {
    line("block s12, 0");
    place_uniform("s10", true);
    line("block s15, 1");
    line("arg.i64 s16, ", ReductionSlots::per_split * 8);
    line("mul.i64 s17, s15, s16");  // first element of the split
    line("arg.i64 s18, ", ReductionSlots::lane_count * 8);
    line("sub.i64 s18, s18, s17");
    line("min.i64 s18, s18, s16");  // its elements
    line("add.i64 s19, s18, s9");
    line("const.i64 s20, 1");
    line("sub.i64 s19, s19, s20");
    line("div.i64 s19, s19, s9");   // its chunks
    line("setvl s21, s18");
    start();
    line("loop s22, s19");
    line("mul.i64 s23, s22, s9");
    line("sub.i64 s24, s18, s23");
    line("setvl s21, s24");
    line("add.i64 s23, s23, s17");
    const bool single = r_.lane_dims <= 1;
    if (!single || is_arg(r_.reduce)) {
      line("lane.i64 v0");
      line("add.i64 v0, v0, s23");
    }
    if (single) {
      if (r_.lane_dims == 1)
        line("arg.i64 s25, ", slots_.lane(1, 0) * 8);
      else
        line("const.i64 s25, 0");
      line("mul.i64 s26, s23, s25");
      line("add.i64 s26, s26, s10");
      load_strided("s26", "s25");
    } else {
      place_lanes(false);
      load("s10");
    }
    step();
    line("end");
    line("setvl s21, s18");
    if (is_arg(r_.reduce)) {
      arg_across_lanes();
    } else {
      line("reduce.", across_lanes(), ".", type_, " s27, v10");
      line("setvl s21, s20");
      line("mov.", type_, " v12, s27");
    }
    // Splits of one output lie side by side.
    line("const.i64 s28, ", size_of(r_.out));
    line("mul.i64 s28, s28, s15");
    line("add.i64 s11, s11, s28");
    line("store.", memory_type(r_.out), " ", result(is_arg(r_.reduce) ? "v13" : "v12"), ", s11");
  }

  // The least index among the lanes that hold the extreme value, or a NaN.
  void arg_across_lanes() {
    line("reduce.", operation(), ".", type_, " s27, v10");
    line("cmp.eq.", type_, " p0, v10, s27");
    line("cmp.ne.", type_, " p1, v10, v10");
    line("por p0, p0, p1");
    line("const.i64 s30, 9223372036854775807");
    line("sel.i64 v12, p0, v11, s30");
    line("reduce.min.i64 s27, v12");
    line("setvl s21, s20");
    line("mov.i64 v13, s27");
  }

  void along() {
    line("block s12, 0");
    line("mul.i64 s17, s12, s9");
    line("arg.i64 s18, ", ReductionSlots::lane_count * 8);
    line("sub.i64 s18, s18, s17");
    line("setvl s21, s18");
    line("lane.i64 v0");
    line("add.i64 v0, v0, s17");
    place_lanes(true);
    start();
    line("arg.i64 s19, ", ReductionSlots::loop_count * 8);
    line("loop s22, s19");
    line("mov.i64 s12, s22");
    line("mov.i64 s23, s10");
    place_uniform("s23", false);
    load("s23");
    if (is_arg(r_.reduce)) line("mov.i64 v0, s22");
    step();
    line("end");
    line("scatter.", memory_type(r_.out), " ", result(is_arg(r_.reduce) ? "v11" : "v10"), ", s11, v2");
  }

  // The accumulator in `value` as the output's type.
  std::string result(std::string value) {
    const std::string from = is_arg(r_.reduce) ? "i64" : type_;
    if (r_.mean) {
      line("arg.", from, " s29, ", ReductionSlots::divisor * 8);
      line("div.", from, " v14, ", value, ", s29");
      value = "v14";
    }
    if (r_.out == Element::boolean) {
      line("const.", from, " s30, 0");
      line("cmp.ne.", from, " p0, ", value, ", s30");
      line("const.u8 s30, 1");
      line("const.u8 s31, 0");
      line("sel.u8 v15, p0, s30, s31");
      return "v15";
    }
    const std::string to = memory_type(r_.out);
    if (to == from) return value;
    line("cvt.", to, ".", from, " v15, ", value);
    return "v15";
  }

  const Reduction& r_;
  ReductionSlots slots_;
  std::string type_;
  std::stringstream out_;
};

}  // namespace

bool is_sum(Reduce reduce) { return reduce == Reduce::sum || reduce == Reduce::prod; }
bool accumulates(Element out) { return out == Element::f32 || out == Element::f64 || out == Element::i64; }
bool is_arg(Reduce reduce) { return reduce == Reduce::argmin || reduce == Reduce::argmax; }

Element accumulator(const Reduction& reduction) {
  if (reduction.reduce == Reduce::any || reduction.reduce == Reduce::all) return Element::i32;
  if (is_sum(reduction.reduce) && accumulates(reduction.out)) return reduction.out;
  if (is_float(reduction.in)) return reduction.in == Element::f64 ? Element::f64 : Element::f32;
  if (is_sum(reduction.reduce) || reduction.in == Element::i64) return Element::i64;
  return Element::i32;
}

std::string write_program(const Reduction& reduction) { return Writer(reduction).write(); }

}  // namespace emu
