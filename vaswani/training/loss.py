"""Label-smoothed cross-entropy (section 5.4) that never holds the logits of a whole batch.

E is the shared embedding, x a hidden state, t the target token. The target distribution is
q = (1 - ε)·onehot(t) + ε/V (Szegedy et al. 2016, which the paper cites), so

    loss = logsumexp(E x) - (1 - ε)·(E x)_t - ε·mean(E x),        ∂loss/∂(E x) = softmax(E x) - q.

[25 000, 37 000] float32 logits are 3.7 GB. So the tokens are processed in chunks. The forward pass computes
the logits of a chunk, its loss, and the gradients of hidden states and embedding. The backward pass needs no logits.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

CHUNK = 1024
"""Tokens whose logits exist at once. A larger chunk is no faster. A smaller one adds passes over the embedding."""


class Loss(NamedTuple):
    """Sums over the tokens of a batch that are not padding (divide by their number for a mean)."""

    smoothed: Float[Array, ""]
    """What is minimised, in nats."""
    nll: Float[Array, ""]
    """-log P(target), unsmoothed, in nats: exp of its mean is the perplexity. No gradient flows through it."""


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def smoothed_cross_entropy(
    hidden: Float[Array, "n d"], embedding: Float[Array, "V d"], targets: Int[Array, " n"], epsilon: float
) -> Loss:
    """Summed loss of the logits hidden · embeddingᵀ.

    Args:
        hidden: the decoder's outputs. The matrix products use their dtype.
        embedding: the shared matrix, float32.
        targets: token ids; id 0 is padding and does not count.
        epsilon: ε_ls.
    """
    return _sums(hidden, embedding, targets, epsilon, with_gradients=False)[0]


def _forward(hidden, embedding, targets, epsilon):
    return _sums(hidden, embedding, targets, epsilon, with_gradients=True)


def _backward(epsilon, gradients, cotangent: Loss):
    d_hidden, d_embedding = gradients
    # XLA fuses these multiplications of large arrays away where the cotangent is 1, as in training.
    return (d_hidden * cotangent.smoothed).astype(d_hidden.dtype), d_embedding * cotangent.smoothed, None


smoothed_cross_entropy.defvjp(_forward, _backward)


def _sums(hidden, embedding, targets, epsilon, with_gradients):
    n, d = hidden.shape
    V = embedding.shape[0]
    chunk = min(CHUNK, n)
    padded = -n % chunk  # padding targets are 0: they do not count
    hidden_chunks = jnp.pad(hidden, ((0, padded), (0, 0))).reshape(-1, chunk, d)
    target_chunks = jnp.pad(targets, (0, padded)).reshape(-1, chunk)
    table = embedding.astype(hidden.dtype)

    def one_chunk(sums, x_and_targets):
        smoothed, nll, d_table = sums
        x, t = x_and_targets
        not_padding = t > 0
        logits = jnp.einsum("nd,vd->nv", x, table, preferred_element_type=jnp.float32)
        log_Z = jax.nn.logsumexp(logits, axis=-1)
        target_logits = jnp.take_along_axis(logits, t[:, None], axis=-1)[:, 0]
        loss = log_Z - (1 - epsilon) * target_logits - epsilon * jnp.mean(logits, axis=-1)
        smoothed += jnp.sum(loss, where=not_padding)
        nll += jnp.sum(log_Z - target_logits, where=not_padding)
        if not with_gradients:
            return (smoothed, nll, d_table), None
        q = jnp.where(jnp.arange(V) == t[:, None], 1 - epsilon, 0.0) + epsilon / V
        d_logits = jnp.where(not_padding[:, None], jnp.exp(logits - log_Z[:, None]) - q, 0.0).astype(x.dtype)
        d_x = jnp.einsum("nv,vd->nd", d_logits, table)
        d_table += jnp.einsum("nv,nd->vd", d_logits, x, preferred_element_type=jnp.float32)
        return (smoothed, nll, d_table), d_x

    zero = jnp.zeros((), jnp.float32)
    d_table = jnp.zeros_like(embedding) if with_gradients else None
    d_hidden: Any
    (smoothed, nll, d_table), d_hidden = jax.lax.scan(one_chunk, (zero, zero, d_table), (hidden_chunks, target_chunks))
    return Loss(smoothed, nll), (d_hidden.reshape(-1, d)[:n] if with_gradients else None, d_table)
