// Losses, composed of the device's own elementwise operators, reductions and gather: every step is a device program.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/core/Reduction.h>
#include <ATen/ops/mse_loss_meta.h>

#include "elementwise.h"
#include "rows.h"

namespace emu {
namespace {

using at::Tensor;
namespace meta = at::meta;

struct Picked {
  Tensor kept;    // which samples are not ignored
  Tensor index;   // target with ignored entries at 0, one dimension more than the target
  Tensor weight;  // of each sample: 0 where it is ignored
};

Picked pick(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index, int64_t class_dim) {
  Picked picked;
  picked.kept = target.ne(ignore_index);
  const Tensor safe = target.mul(picked.kept);
  picked.index = safe.unsqueeze(class_dim);
  if (weight.defined())
    picked.weight = at::index_select(weight, 0, safe.reshape({-1})).reshape(target.sizes()).mul_(picked.kept.to(self.scalar_type()));
  else
    picked.weight = picked.kept.to(self.scalar_type());
  return picked;
}

void check_nll(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t class_dim) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "input tensor should be 1D or 2D");
  TORCH_CHECK(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected target dtype to be Long or Byte, but got ", target.scalar_type());
  TORCH_CHECK(self.dim() == 1 || target.dim() == 1, "for a 2D input the target has to be 1D, got 0D");
  TORCH_CHECK(self.dim() == 1 || self.size(0) == target.size(0), "size mismatch (got input: ", self.sizes(),
              ", target: ", target.sizes(), ")");
  TORCH_CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == self.size(class_dim)),
              "weight tensor should be defined either for all ", self.size(class_dim), " classes or no classes but got weight tensor of shape: ",
              weight.defined() ? weight.sizes() : at::IntArrayRef{});
  if (!at::isFloatingType(self.scalar_type())) unsupported("nll_loss of ", self.scalar_type());
  if (weight.defined()) check_type(weight, self.scalar_type());
}

std::tuple<Tensor, Tensor> nll_loss_forward(const Tensor& self, const Tensor& given_target, const std::optional<Tensor>& given_weight,
                                            int64_t reduction, int64_t ignore_index) {
  const int64_t class_dim = self.dim() - 1;
  const Tensor weight = given_weight.value_or(Tensor());
  check_nll(self, given_target, weight, class_dim);
  const Tensor target = (given_target.dim() == 1 && self.dim() == 1 ? given_target.squeeze(0) : given_target).to(at::kLong);
  const Picked picked = pick(self, target, weight, ignore_index, target.dim() == 0 ? 0 : class_dim);
  const Tensor chosen = self.gather(class_dim, picked.index).reshape(target.sizes());
  // An ignored sample counts as zero even where its score is infinite.
  const Tensor losses = at::where(picked.kept, chosen.neg().mul_(picked.weight), at::zeros({}, self.options()));
  const bool per_sample = reduction == at::Reduction::None;
  if (per_sample) return {losses.reshape(given_target.sizes()), at::zeros({}, self.options())};
  const Tensor total_weight = picked.weight.sum();
  const Tensor total = losses.sum();
  return {reduction == at::Reduction::Mean ? total.div(total_weight) : total, total_weight};
}

Tensor nll_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& given_target, const std::optional<Tensor>& given_weight,
                         int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  const int64_t class_dim = self.dim() - 1;
  const Tensor weight = given_weight.value_or(Tensor());
  check_nll(self, given_target, weight, class_dim);
  check_type(grad, self.scalar_type());
  check_type(total_weight, self.scalar_type());
  const Tensor target = (given_target.dim() == 1 && self.dim() == 1 ? given_target.squeeze(0) : given_target).to(at::kLong);
  const Picked picked = pick(self, target, weight, ignore_index, target.dim() == 0 ? 0 : class_dim);
  Tensor scale = picked.weight.neg().mul_(reduction == at::Reduction::None ? grad.reshape(target.sizes()) : grad);
  if (reduction == at::Reduction::Mean) scale = scale.div(total_weight);
  // An ignored sample has no gradient, even where all are ignored and the quotient is NaN.
  scale = at::where(picked.kept, scale, at::zeros({}, self.options()));
  Tensor out = at::zeros(self.sizes(), self.options());
  out.scatter_(class_dim, picked.index, scale.reshape(picked.index.sizes()));
  return out;
}

void check_mse(const Tensor& self) {
  if (!at::isFloatingType(self.scalar_type())) unsupported("mse_loss of ", self.scalar_type());
}
// In the type of both: `sub` takes no booleans, and this does.
Tensor difference(const Tensor& self, const Tensor& target) {
  const auto type = at::result_type(self, target);
  return self.to(type).sub(target.to(type));
}
struct MseLoss : meta::structured_mse_loss {
  void impl(const Tensor& self, const Tensor& target, int64_t reduction, const Tensor& out) {
    check_mse(out);
    if (reduction == at::Reduction::None) return run_elementwise(*this, rows::squared_difference);
    const Tensor squares = difference(self, target).square_();
    out.copy_(reduction == at::Reduction::Mean ? squares.mean() : squares.sum());
  }
};
Tensor mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  check_mse(self);
  const double factor = reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  return difference(self, target).mul_(factor).mul(grad).to(self.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE(library, "nll_loss_forward", &nll_loss_forward);
  EMU_NATIVE(library, "nll_loss_backward", &nll_loss_backward);
  EMU_STRUCTURED_FUNCTIONAL(library, "mse_loss", MseLoss);
  EMU_STRUCTURED_OUT(library, "mse_loss.out", MseLoss);
  EMU_NATIVE_ANYWHERE(library, "mse_loss_backward", &mse_loss_backward);
}

}  // namespace
}  // namespace emu
