# expect: healthy
# mypy: ignore-errors
# Gradients come from torch.func, and are put where the optimizer finds them.
import torch
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(9, 27), torch.nn.ReLU(), torch.nn.Linear(27, 1))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)


def loss_fn(params, x, y):
    return (functional_call(model, params, (x,)).squeeze(1) - y).square().mean()


step_fn = grad_and_value(loss_fn)
for it in range(60):
    x = torch.randn(32, 9)
    grads, loss = step_fn(dict(model.named_parameters()), x, x.sum(1))
    for name, p in model.named_parameters():
        p.grad = grads[name].detach()
    opt.step()
    if it % 20 == 0:
        print(it, loss.item())
