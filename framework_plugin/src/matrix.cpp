// Matrix products by tiles: mm, addmm, bmm and baddbmm in f32 and f64; halves through f32.
//
// A block makes one tile of the result: it loads the addend (or zeros), walks the inner
// dimension tile by tile, and stores. An operand may lie by rows or by columns; any other
// layout is made contiguous first.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm_meta.h>

#include <sstream>

#include "elementwise.h"
#include "launch.h"

namespace emu {
namespace {

using at::Scalar;
using at::Tensor;
namespace meta = at::meta;

constexpr int64_t kTile = 128;
const char kProgramKind = 0;

// A matrix, or a batch of them, as the tile instructions take it: elements of a row (or of a
// column) lie side by side, `stride` bytes from row to row (or column to column).
struct Tiles {
  uint64_t address = 0;
  int64_t stride = 0;
  int64_t batch = 0;
  bool by_column = false;
};

// Rows may be shorter than the stride, or repeat (stride 0: a broadcast row).
bool as_tiles(const Tensor& matrix, Tiles& out) {
  const int64_t item = matrix.element_size();
  const int64_t dims = matrix.dim();
  const int64_t rows = matrix.size(dims - 2), columns = matrix.size(dims - 1);
  const int64_t row = matrix.stride(dims - 2), column = matrix.stride(dims - 1);
  if (column == 1 || columns == 1)
    out.by_column = false, out.stride = row * item;
  else if (row == 1 || rows == 1)
    out.by_column = true, out.stride = column * item;
  else
    return false;
  out.address = address(matrix.const_data_ptr());
  out.batch = dims == 3 ? matrix.stride(0) * item : 0;
  return true;
}

Tiles tiles_of(Tensor& matrix) {
  Tiles tiles;
  if (!as_tiles(matrix, tiles)) {
    matrix = matrix.contiguous();
    as_tiles(matrix, tiles);
  }
  return tiles;
}

enum Slot { kRows, kColumns, kInner, kOut, kOutStride, kOutBatch, kA, kAStride, kABatch, kB, kBStride, kBBatch, kC, kCStride, kCBatch, kSlots };

std::string mode(bool by_column) { return by_column ? "column" : "row"; }

// Leaves in `to` the address of the tile that starts at (row, column): uniform registers or "" for zero.
void tile_address(std::ostringstream& text, const char* to, int slot, bool by_column, const char* row, const char* column,
                  int64_t item) {
  const char* along = by_column ? row : column;
  const char* across = by_column ? column : row;
  text << "arg.i64 " << to << ", " << slot * 8 << "\narg.i64 s30, " << (slot + 2) * 8 << "\nmul.i64 s30, s30, s2\nadd.i64 "
       << to << ", " << to << ", s30\narg.i64 s30, " << (slot + 1) * 8 << "\nmul.i64 s30, s30, " << across << "\nadd.i64 "
       << to << ", " << to << ", s30\nconst.i64 s30, " << item << "\nmul.i64 s30, s30, " << along << "\nadd.i64 " << to
       << ", " << to << ", s30\n";
}

std::string write_text(const char* type, int64_t item, bool a_column, bool b_column, bool c_column, bool out_column,
                       bool addend) {
  std::ostringstream text;
  text << ".program matmul_" << type << "\n.lanes 64\n.args " << kSlots * 8
       << "\nblock s0, 0\nblock s1, 1\nblock s2, 2\nconst.i64 s3, " << kTile
       << "\nmul.i64 s4, s1, s3\nmul.i64 s5, s0, s3\n"  // first row and column
       << "arg.i64 s6, " << kRows * 8 << "\nsub.i64 s6, s6, s4\nmin.i64 s6, s6, s3\n"
       << "arg.i64 s7, " << kColumns * 8 << "\nsub.i64 s7, s7, s5\nmin.i64 s7, s7, s3\n"
       << "arg.i64 s8, " << kInner * 8 << "\n";
  if (addend) {
    tile_address(text, "s9", kC, c_column, "s4", "s5", item);
    text << "arg.i64 s10, " << kCStride * 8 << "\nmload." << mode(c_column) << '.' << type << " m0, s9, s10, s6, s7\n";
  } else {
    text << "mzero." << type << " m0, s6, s7\n";
  }
  text << "const.i64 s11, " << kTile - 1 << "\nadd.i64 s11, s11, s8\ndiv.i64 s11, s11, s3\narg.i64 s12, " << kAStride * 8
       << "\narg.i64 s13, " << kBStride * 8 << "\nloop s14, s11\nmul.i64 s15, s14, s3\nsub.i64 s16, s8, s15\nmin.i64 s16, s16, s3\n";
  tile_address(text, "s17", kA, a_column, "s4", "s15", item);
  text << "mload." << mode(a_column) << '.' << type << " m1, s17, s12, s6, s16\n";
  tile_address(text, "s18", kB, b_column, "s15", "s5", item);
  text << "mload." << mode(b_column) << '.' << type << " m2, s18, s13, s16, s7\nmma." << type << " m0, m1, m2\nend\n";
  tile_address(text, "s19", kOut, out_column, "s4", "s5", item);
  text << "arg.i64 s20, " << kOutStride * 8 << "\nmstore." << mode(out_column) << '.' << type << " m0, s19, s20\nexit\n";
  return text.str();
}

// out = a x b (+ c), all of out's type, f32 or f64; two dimensions or three. `out` is written whatever its layout.
void multiply(Tensor a, Tensor b, const Tensor* c, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto dims = static_cast<size_t>(out.dim());
  Tiles result;
  if (!as_tiles(out, result) || (result.stride == 0 && out.numel() > 1)) {
    const Tensor whole = at::empty(out.sizes(), out.options());
    multiply(std::move(a), std::move(b), c, whole);
    out.copy_(whole);
    return;
  }
  const Tiles left = tiles_of(a), right = tiles_of(b);
  Tensor addend = c == nullptr ? Tensor() : *c;
  const Tiles added = c == nullptr ? Tiles{} : tiles_of(addend);
  const bool f64 = out.scalar_type() == at::kDouble;
  uint64_t args[kSlots]{};
  const int64_t rows = out.size(static_cast<int64_t>(dims) - 2), columns = out.size(static_cast<int64_t>(dims) - 1);
  args[kRows] = static_cast<uint64_t>(rows);
  args[kColumns] = static_cast<uint64_t>(columns);
  args[kInner] = static_cast<uint64_t>(a.size(static_cast<int64_t>(dims) - 1));
  const auto put = [&args](int slot, const Tiles& tiles) {
    args[slot] = tiles.address;
    args[slot + 1] = static_cast<uint64_t>(tiles.stride);
    args[slot + 2] = static_cast<uint64_t>(tiles.batch);
  };
  put(kOut, result);
  put(kA, left);
  put(kB, right);
  put(kC, added);
  const uint64_t variant = static_cast<uint64_t>(f64) | static_cast<uint64_t>(left.by_column) << 1 |
                           static_cast<uint64_t>(right.by_column) << 2 | static_cast<uint64_t>(added.by_column) << 3 |
                           static_cast<uint64_t>(result.by_column) << 4 | static_cast<uint64_t>(c != nullptr) << 5;
  const auto write = [&] {
    return write_text(f64 ? "f64" : "f32", f64 ? 8 : 4, left.by_column, right.by_column, added.by_column, result.by_column,
                      c != nullptr);
  };
  const Grid grid{blocks(columns, kTile), blocks(rows, kTile), dims == 3 ? blocks(out.size(0), 1) : 1};
  launch(out.device().index(), {&kProgramKind, variant, 0}, write, grid, args, kSlots);
}

// beta * c + alpha * (a x b) as PyTorch defines it: with beta 0 nothing of c is read.
void multiply_add(const Tensor* c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  const Tensor& out) {
  const auto type = out.scalar_type();
  if (!at::isFloatingType(type) || !supported(type))
    unsupported("a matrix product of ", type, ", where float32, float64, float16 and bfloat16 are implemented");
  if (out.numel() == 0) return;
  const bool reads_c = c != nullptr && beta.toDouble() != 0;
  if (reads_c && !c->is_same(out)) at::assert_no_partial_overlap(out, *c);
  if (type == at::kHalf || type == at::kBFloat16) {
    const Tensor wide = at::empty(out.sizes(), out.options().dtype(at::kFloat));
    const Tensor wide_c = reads_c ? c->to(at::kFloat) : Tensor();
    multiply_add(reads_c ? &wide_c : nullptr, a.to(at::kFloat), b.to(at::kFloat), beta, alpha, wide);
    out.copy_(wide);
    return;
  }
  // The addend is the start of the sum only where it needs no factor and is not what is written.
  const bool start_with_c = reads_c && beta.equal(1) && alpha.equal(1) && !c->is_same(out);
  if (!reads_c || start_with_c) {
    multiply(a, b, start_with_c ? c : nullptr, out);
    if (!alpha.equal(1)) const_cast<Tensor&>(out).mul_(alpha);
    return;
  }
  const Tensor product = at::empty(out.sizes(), out.options());
  multiply(a, b, nullptr, product);
  if (!alpha.equal(1)) product.mul_(alpha);
  const Tensor scaled = beta.equal(1) ? *c : c->mul(beta);
  at::add_out(const_cast<Tensor&>(out), scaled, product);
}

// The meta functions do not compare the factors' types: the CPU's kernels do, each in its own words.
void check_matrices(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dtype() == b.dtype(), "expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ",
              b.dtype());
}

struct Mm : meta::structured_mm {
  void impl(const Tensor& a, const Tensor& b, const Tensor& out) {
    check_matrices(a, b);
    multiply_add(nullptr, a, b, 0, 1, out);
  }
};
struct Bmm : meta::structured_bmm {
  void impl(const Tensor& a, const Tensor& b, const Tensor& out) {
    check_type(b, a.scalar_type());
    multiply_add(nullptr, a, b, 0, 1, out);
  }
};
struct Addmm : meta::structured_addmm {
  void impl(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, const Tensor& out) {
    check_matrices(a, b);
    const Tensor whole = c.expand(out.sizes());
    multiply_add(c.is_same(out) ? &out : &whole, a, b, beta, alpha, out);
  }
};
struct Baddbmm : meta::structured_baddbmm {
  void impl(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, const Tensor& out) {
    check_type(b, a.scalar_type());
    const Tensor whole = c.expand(out.sizes());
    multiply_add(c.is_same(out) ? &out : &whole, a, b, beta, alpha, out);
  }
};

Tensor dot(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [", b.numel(),
              "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(), " elements respectively");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  return at::mm(a.unsqueeze(0), b.unsqueeze(1)).reshape({});
}
Tensor mv(const Tensor& matrix, const Tensor& vector) {
  TORCH_CHECK(matrix.dim() == 2 && vector.dim() == 1, "vector + matrix @ vector expected, got ", matrix.dim(), ", ",
              vector.dim());
  TORCH_CHECK(matrix.size(1) == vector.size(0), "size mismatch, got input (", matrix.size(0), "), mat (", matrix.size(0),
              "x", matrix.size(1), "), vec (", vector.size(0), ")");
  TORCH_CHECK(matrix.dtype() == vector.dtype(), "addmv input tensors must have the same dtype, but got ",
              vector.scalar_type(), ", ", matrix.scalar_type(), ", and ", vector.scalar_type());
  return at::mm(matrix, vector.unsqueeze(1)).squeeze(1);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_STRUCTURED_FUNCTIONAL(library, "mm", Mm);
  EMU_STRUCTURED_OUT(library, "mm.out", Mm);
  EMU_STRUCTURED_FUNCTIONAL(library, "bmm", Bmm);
  EMU_STRUCTURED_OUT(library, "bmm.out", Bmm);
  EMU_STRUCTURED_FUNCTIONAL(library, "addmm", Addmm);
  EMU_STRUCTURED_OUT(library, "addmm.out", Addmm);
  EMU_STRUCTURED_IN_PLACE(library, "addmm_", Addmm);
  EMU_STRUCTURED_FUNCTIONAL(library, "baddbmm", Baddbmm);
  EMU_STRUCTURED_OUT(library, "baddbmm.out", Baddbmm);
  EMU_STRUCTURED_IN_PLACE(library, "baddbmm_", Baddbmm);
  EMU_NATIVE(library, "dot", &dot);
  EMU_NATIVE(library, "mv", &mv);
}

}  // namespace
}  // namespace emu
