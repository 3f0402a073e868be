"""Numbers with a tape that differentiates what was made of them, in float64 and with NumPy alone: for golden numbers of
models that no other library has."""
import math

import numpy as np


class Tensor:
    """A value, and how its gradient reaches what it was made from."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.gradient = value, parents, None

    def backward(self):
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((parent, False) for parent, _ in node.parents)
        self.gradient = np.ones_like(self.value)
        for node in reversed(order):
            for parent, pull in node.parents:
                part = pull(node.gradient)
                parent.gradient = part if parent.gradient is None else parent.gradient + part


def unbroadcast(gradient, shape):
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient


def add(a, b):
    return Tensor(a.value + b.value, ((a, lambda g: unbroadcast(g, a.value.shape)), (b, lambda g: unbroadcast(g, b.value.shape))))


def mul(a, b):
    return Tensor(a.value * b.value, ((a, lambda g: unbroadcast(g * b.value, a.value.shape)),
                                      (b, lambda g: unbroadcast(g * a.value, b.value.shape))))


def matmul(a, b):
    return Tensor(a.value @ b.value, ((a, lambda g: unbroadcast(g @ b.value.swapaxes(-1, -2), a.value.shape)),
                                      (b, lambda g: unbroadcast(a.value.swapaxes(-1, -2) @ g, b.value.shape))))


def view(a, to, back):
    """A change of shape, or a selection: `back` is its adjoint."""
    return Tensor(to(a.value), ((a, back),))


def reshape(a, *shape):
    return view(a, lambda v: v.reshape(shape), lambda g: g.reshape(a.value.shape))


def transpose(a, *axes):
    return view(a, lambda v: v.transpose(axes), lambda g: g.transpose(np.argsort(axes)))


def rows(a, index):
    def back(g):
        out = np.zeros_like(a.value)
        np.add.at(out, index, g)
        return out
    return view(a, lambda v: v[index], back)


def elementwise(a, f, slope):
    return Tensor(f(a.value), ((a, lambda g: g * slope(a.value)),))


ERF = np.vectorize(math.erf)


def phi(x):
    return 0.5 * (1 + ERF(x / math.sqrt(2)))


def exact_gelu(a):
    return elementwise(a, lambda x: x * phi(x), lambda x: phi(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swish(a, factor):
    """x σ(factor x): silu, or with 1.702 the quick gelu."""
    def slope(x):
        s = sigmoid(factor * x)
        return s + factor * x * s * (1 - s)
    return elementwise(a, lambda x: x * sigmoid(factor * x), slope)


def tanh_gelu(a):
    c = math.sqrt(2 / math.pi)

    def slope(x):
        t = np.tanh(c * (x + 0.044715 * x ** 3))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
    return elementwise(a, lambda x: 0.5 * x * (1 + np.tanh(c * (x + 0.044715 * x ** 3))), slope)


def normed(a, eps, centred):
    x = a.value - a.value.mean(-1, keepdims=True) if centred else a.value
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    y = x * scale

    def back(g):
        g = g - y * (g * y).mean(-1, keepdims=True)
        return scale * (g - g.mean(-1, keepdims=True) if centred else g)
    return Tensor(y, ((a, back),))


def softmax(a):
    e = np.exp(a.value - a.value.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return Tensor(y, ((a, lambda g: y * (g - (g * y).sum(-1, keepdims=True))),))


def cross_entropy(logits, targets):
    learned = targets >= 0
    shifted = logits.value - logits.value.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    at = (np.nonzero(learned)[0], targets[learned])
    count = learned.sum()

    def back(g):
        d = np.exp(log_p) * learned[:, None]
        d[at] -= 1
        return g * d / count
    return Tensor(np.array(-log_p[at].sum() / count), ((logits, back),))
