# expect: healthy
# mypy: ignore-errors
import torch
import torch.nn as nn

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog and runs away. " * 20
vocab = sorted(set(text))
ids = torch.tensor([vocab.index(c) for c in text])


class LM(nn.Module):
    def __init__(self, v, d=32):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, v, bias=False)
        self.out.weight = self.emb.weight  # tied

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


lm = LM(len(vocab))
opt = torch.optim.AdamW(lm.parameters(), lr=1e-2, betas=(0.9, 0.95))
for step in range(60):
    start = torch.randint(0, len(ids) - 33, (16,))
    batch = torch.stack([ids[s : s + 33] for s in start])
    loss = nn.functional.cross_entropy(lm(batch[:, :-1]).transpose(1, 2), batch[:, 1:])
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
