"""The models of the benchmarks in PyTorch: one line of JSON per measurement, tokens per processor second.

Plain eager PyTorch with a key-value cache written in place and a head over all positions, as one would write it by hand.
Usage: peer_torch.py [threads]
"""
import json
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F

SHAPES = {
    "MiniHop": dict(vocab=207, dim=64, layers=3, heads=4, ff=128),
    "Small": dict(vocab=512, dim=128, layers=4, heads=4, ff=320),
}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Model:
    def __init__(self, vocab, dim, layers, heads, ff):
        torch.manual_seed(1)
        draw = lambda *s: torch.nn.Parameter(torch.randn(*s) * 0.05)
        self.heads, self.width, self.vocab = heads, dim // heads, vocab
        self.embedding = draw(vocab, dim)
        self.layers = [
            dict(qkv=draw(3 * dim, dim), out=draw(dim, dim), gate_up=draw(2 * ff, dim), down=draw(dim, ff),
                 n1=torch.nn.Parameter(torch.ones(dim)), n2=torch.nn.Parameter(torch.ones(dim)))
            for _ in range(layers)
        ]
        self.norm = torch.nn.Parameter(torch.ones(dim))
        steps = 10000 ** (-torch.arange(0, self.width, 2).float() / self.width)
        angle = torch.arange(512).float()[:, None] * steps
        self.cos, self.sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def parameters(self):
        return [self.embedding, self.norm] + [w for layer in self.layers for w in layer.values()]

    def rotate(self, x, start):
        n, half = x.shape[2], self.width // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos[start:start + n] + turned * self.sin[start:start + n]

    def forward(self, tokens, start=0, caches=None):
        b, s = tokens.shape
        x = self.embedding[tokens]
        for i, w in enumerate(self.layers):
            qkv = F.linear(F.rms_norm(x, x.shape[-1:], w["n1"], 1e-6), w["qkv"]).view(b, s, 3, self.heads, self.width)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            q, k = self.rotate(q, start), self.rotate(k, start)
            if caches is not None:
                keys, values = caches[i]
                keys[:, :, start:start + s], values[:, :, start:start + s] = k, v
                k, v = keys[:, :, :start + s], values[:, :, :start + s]
            a = F.scaled_dot_product_attention(q, k, v, is_causal=s > 1)
            x = x + F.linear(a.transpose(1, 2).reshape(b, s, -1), w["out"])
            gate, up = F.linear(F.rms_norm(x, x.shape[-1:], w["n2"], 1e-6), w["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        return x

    def logits(self, x):
        return F.linear(F.rms_norm(x, x.shape[-1:], self.norm, 1e-6), self.embedding)


class Decoder:
    """Samples after a prompt: prefill and steps can be measured apart."""

    def __init__(self, model, rows, prompt, total):
        self.model, self.rows, self.prompt, self.total = model, rows, prompt, total

    @torch.no_grad()
    def prefill(self):
        m = self.model
        self.caches = [tuple(torch.zeros(self.rows, m.heads, self.total, m.width) for _ in range(2)) for _ in m.layers]
        self.x = m.forward(torch.randint(m.vocab, (self.rows, self.prompt)), 0, self.caches)

    @torch.no_grad()
    def steps(self):
        x = self.x
        for at in range(self.prompt, self.total):
            p = torch.softmax(self.model.logits(x[:, -1]), -1)
            token = torch.multinomial(p, 1)
            p.gather(1, token).log()
            if at + 1 < self.total:
                x = self.model.forward(token, at, self.caches)
        return self.rows * (self.total - self.prompt)

    def whole(self):
        self.prefill()
        return self.steps()


def trainer(model, rows, length):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        tokens = torch.randint(model.vocab, (rows, length))
        logits = model.logits(model.forward(tokens)[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, model.vocab), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        assert math.isfinite(loss.item())
        return rows * length

    return step


def measure(name, f, prepare=lambda: None, rounds=4):
    prepare()
    f()
    cpu = wall = tokens = 0
    for _ in range(rounds):
        prepare()
        cpu_start, start = cpu_seconds(), time.time()
        tokens += f()
        cpu, wall = cpu + cpu_seconds() - cpu_start, wall + time.time() - start
    print(json.dumps({"name": name, "tok_cpu_s": tokens / cpu, "tok_s": tokens / wall}), flush=True)


torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
for name, (rows, prompt, total), (batch, length) in [("MiniHop", (80, 42, 168), (48, 136)), ("Small", (64, 64, 256), (32, 256))]:
    model = Model(**SHAPES[name])
    decoder = Decoder(model, rows, prompt, total)
    measure(f"Decode{name}/steps", decoder.steps, decoder.prefill)
    measure(f"Decode{name}/whole", decoder.whole)
    measure("Train" + name, trainer(model, batch, length))
