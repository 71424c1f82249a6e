# expect: healthy
# mypy: ignore-errors
import torch

torch.manual_seed(0)
x = torch.linspace(-2, 2, 200).unsqueeze(1)
y = torch.sin(3 * x) + 0.5 * x
model = torch.nn.Sequential(torch.nn.Linear(1, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6, history_size=10)

for i in range(30):

    def closure():
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    loss = opt.step(closure)
    if i % 10 == 0:
        print(i, float(loss))
print("final", float(closure()))
