// Cells of LSTM and GRU, composed of the device's own elementwise operators: every step is a device program.
//
// Gates lie side by side in the last dimension, in PyTorch's order: input, forget, cell, output; and reset,
// update, new. What the backward needs of the forward is the workspace, whose layout is ours.
#include "structured.h"  // first: PyTorch's headers lean on what it includes

#include "elementwise.h"

namespace emu {
namespace {

using at::Tensor;
using Given = const std::optional<Tensor>&;

bool is_given(Given tensor) { return tensor.has_value() && tensor->defined(); }

Tensor with_bias(const Tensor& gates, Given bias) {
  return is_given(bias) ? widened(gates).add(widened(*bias)) : widened(gates);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             Given input_bias, Given hidden_bias) {
  const auto gates = with_bias(input_gates, input_bias).add(with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid();
  const Tensor cell = gates[2].tanh(), output = gates[3].sigmoid();
  const Tensor cy = forget.mul(widened(cx)).add_(input.mul(cell));
  const Tensor hy = output.mul(cy.tanh());
  const auto type = at::promote_types(cx.scalar_type(), input_gates.scalar_type());
  return {hy.to(type), cy.to(type), at::cat({input, forget, cell, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(Given grad_hy, Given grad_cy, const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  const auto gates = workspace.chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  const Tensor bent = widened(cy).tanh();
  Tensor to_cell = is_given(grad_cy) ? widened(*grad_cy) : at::zeros_like(bent);
  Tensor to_output = at::zeros_like(bent);
  if (is_given(grad_hy)) {
    const Tensor grad = widened(*grad_hy);
    to_output = grad.mul(bent);
    to_cell = to_cell.add(at::tanh_backward(grad.mul(output), bent));
  }
  const Tensor grad_gates =
      at::cat({at::sigmoid_backward(to_cell.mul(cell), input), at::sigmoid_backward(to_cell.mul(widened(cx)), forget),
               at::tanh_backward(to_cell.mul(input), cell), at::sigmoid_backward(to_output, output)},
              1);
  const auto type = cy.scalar_type();
  return {grad_gates.to(type), to_cell.mul(forget).to(type), has_bias ? grad_gates.sum(0).to(type) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& given_hx,
                                    Given input_bias, Given hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor hx = widened(given_hx);
  const Tensor reset = from_input[0].add(from_hidden[0]).sigmoid_();
  const Tensor update = from_input[1].add(from_hidden[1]).sigmoid_();
  const Tensor fresh = from_input[2].add(reset.mul(from_hidden[2])).tanh_();
  const Tensor hy = fresh.add(update.mul(hx.sub(fresh)));
  return {hy.to(given_hx.scalar_type()), at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
  const Tensor grad = widened(grad_hy);
  const Tensor to_fresh = at::tanh_backward(grad.sub(grad.mul(update)), fresh);
  const Tensor to_update = at::sigmoid_backward(grad.mul(hx.sub(fresh)), update);
  const Tensor to_reset = at::sigmoid_backward(to_fresh.mul(hidden), reset);
  const Tensor to_input = at::cat({to_reset, to_update, to_fresh}, 1);
  const Tensor to_hidden = at::cat({to_reset, to_update, to_fresh.mul(reset)}, 1);
  const auto type = grad_hy.scalar_type();
  return {to_input.to(type), to_hidden.to(type), grad.mul(update).to(type),
          has_bias ? to_input.sum(0).to(type) : Tensor(), has_bias ? to_hidden.sum(0).to(type) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE(library, "_thnn_fused_lstm_cell", &lstm_cell);
  EMU_NATIVE(library, "_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  EMU_NATIVE(library, "_thnn_fused_gru_cell", &gru_cell);
  EMU_NATIVE(library, "_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace
}  // namespace emu
