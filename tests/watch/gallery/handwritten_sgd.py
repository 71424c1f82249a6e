# expect: healthy
# or: not_enough_evidence
# mypy: ignore-errors
import torch

torch.manual_seed(42)
N, D_in, H, D_out = 64, 30, 20, 5
x = torch.randn(N, D_in)
y = torch.randn(N, D_out)
w1 = (torch.randn(D_in, H) / D_in**0.5).requires_grad_()
w2 = (torch.randn(H, D_out) / H**0.5).requires_grad_()
learning_rate = 1e-3
for t in range(120):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    if t % 30 == 0:
        print(t, loss.item())
    loss.backward()
    with torch.no_grad():
        w1 -= learning_rate * w1.grad
        w2 -= learning_rate * w2.grad
        w1.grad.zero_()
        w2.grad.zero_()
