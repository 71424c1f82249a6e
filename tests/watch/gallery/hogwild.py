# expect: healthy
# mypy: ignore-errors
import torch
import torch.multiprocessing as mp
from torch import nn


def work(rank, model):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(60):
        x = torch.randn(16, 8)
        loss = nn.functional.mse_loss(model(x).squeeze(1), x[:, 0] - x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    model.share_memory()
    context = mp.get_context("fork")
    processes = [context.Process(target=work, args=(rank, model)) for rank in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    print([p.exitcode for p in processes])
