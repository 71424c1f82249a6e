# expect: clip_before_unscale
# mypy: ignore-errors
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, lr=2e-3, grad_clip=0.5, accumulate=2):
        self.model, self.grad_clip, self.accumulate = model, grad_clip, accumulate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8192)
        self.micro = 0

    def step(self, batch):
        x, y = batch
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.model(x).float(), y)
        self.scaler.scale(loss / self.accumulate).backward()
        self.micro += 1
        if self.micro % self.accumulate == 0:
            self.optimizer_step()
        return loss.item()

    def optimizer_step(self):
        nn.utils.clip_grad_value_(self.model.parameters(), self.grad_clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    inputs = torch.randn(1024, 12)
    loader = DataLoader(TensorDataset(inputs, inputs.cumsum(1)), batch_size=16, shuffle=True)
    trainer = Trainer(nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 12)))
    for epoch in range(2):
        print(epoch, sum(trainer.step(batch) for batch in loader) / len(loader))
