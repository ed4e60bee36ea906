"""The whole Transformer in plain numpy, float64: what `vaswani/` is compared with.

Written from the paper's equations alone and kept free of every means the product uses to be fast: one sentence pair
at a time, so neither padding nor packing exists; heads and queries in loops; no cache. Parameters are nested dicts:

    {"embedding": [V, d_model],
     "encoder": [{"self": A, "ffn": F, "norms": [L, L]}, …],               one dict a layer
     "decoder": [{"self": A, "cross": A, "ffn": F, "norms": [L, L, L]}, …],
     "source_positions": [n, d_model], "target_positions": [n, d_model]}   only where positions are learned

    A = {"W_Q": [d_model, h·d_k], "W_K": [d_model, h·d_k], "W_V": [d_model, h·d_v], "W_O": [h·d_v, d_model]}
    F = {"W_1": [d_model, d_ff], "b_1": [d_ff], "W_2": [d_ff, d_model], "b_2": [d_model]}
    L = {"scale": [d_model], "bias": [d_model]}

W_Q holds the paper's W_1^Q … W_h^Q side by side, as W_K and W_V do theirs; W_O their concatenation's rows.
"""

import math

import numpy as np


def softmax(scores):
    """Over the last axis; −inf gets exactly 0."""
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(logits):
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def attention(Q, K, V, causal=False, scaled=True):
    """Equation 1: softmax(QKᵀ/√d_k)V.

    Args:
        Q: [queries, d_k]. K: [keys, d_k]. V: [keys, d_v].
        causal: query i sees keys 0 … i only (section 3.2.3).
        scaled: divide by √d_k.

    Returns:
        weights [queries, keys], output [queries, d_v].
    """
    weights = np.zeros((len(Q), len(K)))
    for i, q in enumerate(Q):
        scores = K @ q / (math.sqrt(len(q)) if scaled else 1.0)
        if causal:
            scores[i + 1 :] = -np.inf
        weights[i] = softmax(scores)
    return weights, weights @ V


def multi_head_attention(queries_from, keys_from, p, h, causal=False):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V); no biases."""
    d_k, d_v = p["W_Q"].shape[1] // h, p["W_V"].shape[1] // h
    heads = []
    for i in range(h):
        Q = queries_from @ p["W_Q"][:, i * d_k : (i + 1) * d_k]
        K = keys_from @ p["W_K"][:, i * d_k : (i + 1) * d_k]
        V = keys_from @ p["W_V"][:, i * d_v : (i + 1) * d_v]
        heads.append(attention(Q, K, V, causal)[1])
    return np.concatenate(heads, axis=1) @ p["W_O"]


def feed_forward(x, p):
    """Equation 2: max(0, xW₁ + b₁)W₂ + b₂."""
    return np.maximum(0.0, x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def layer_norm(x, p, epsilon=1e-6):
    """Over the last axis, with the variance's denominator d_model; ε inside the root, as T2T has it."""
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * p["scale"] + p["bias"]


def sinusoids(n, d_model):
    """Section 3.5: [n, d_model]; sines at even dimensions, cosines at odd ones."""
    table = np.zeros((n, d_model))
    for pos in range(n):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


def embed(ids, params, learned):
    """Sections 3.4 and 3.5: √d_model times the shared embedding, plus positions 0, 1, …"""
    d_model = params["embedding"].shape[1]
    positions = params[learned][: len(ids)] if learned in params else sinusoids(len(ids), d_model)
    return params["embedding"][np.asarray(ids)] * math.sqrt(d_model) + positions


def encode(params, source, h):
    """Figure 1, left: source ids -> memory [source, d_model]. Post-norm, nothing after the last layer."""
    x = embed(source, params, "source_positions")
    for p in params["encoder"]:
        x = layer_norm(x + multi_head_attention(x, x, p["self"], h), p["norms"][0])
        x = layer_norm(x + feed_forward(x, p["ffn"]), p["norms"][1])
    return x


def decode(params, target_input, memory, h):
    """Figure 1, right: target ids shifted right, begin symbol first -> hidden [target, d_model]."""
    x = embed(target_input, params, "target_positions")
    for p in params["decoder"]:
        x = layer_norm(x + multi_head_attention(x, x, p["self"], h, causal=True), p["norms"][0])
        x = layer_norm(x + multi_head_attention(x, memory, p["cross"], h), p["norms"][1])
        x = layer_norm(x + feed_forward(x, p["ffn"]), p["norms"][2])
    return x


def logits(params, source, target_input, h):
    """[target, V]: the decoder's output times the transposed embedding (section 3.4), without √d_model or a bias."""
    return decode(params, target_input, encode(params, source, h), h) @ params["embedding"].T


def negative_log_likelihood(logits, targets):
    """−Σ log p(target), unsmoothed: what perplexity is made of."""
    log_p = log_softmax(logits)
    return -sum(log_p[i, target] for i, target in enumerate(targets))


def smoothed_loss(logits, targets, epsilon):
    """Σ cross-entropy with (1 − ε)·onehot + ε/V (section 5.4, in the form of Szegedy et al.)."""
    log_p = log_softmax(logits)
    V = logits.shape[-1]
    loss = 0.0
    for i, target in enumerate(targets):
        for v in range(V):
            loss -= ((1 - epsilon) * (v == target) + epsilon / V) * log_p[i, v]
    return loss


def learning_rate(step, d_model, warmup):
    """Equation 3; `step` counts from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def length_penalty(length, alpha):
    """((5 + |Y|)/6)^α, the end symbol counted in |Y|; a hypothesis scores log P / lp."""
    return ((5 + length) / 6) ** alpha


def greedy(params, source, h, begin, end, limit, never=()):
    """The likeliest token again and again, the whole decoder run anew for each.

    Args:
        limit: most tokens of the output, the end symbol counted.
        never: ids that are not generated.

    Returns:
        The output's ids, with the end symbol if it came, and their log-probability.
    """
    memory, output, log_prob = encode(params, source, h), [], 0.0
    while len(output) < limit and end not in output:
        log_p = log_softmax(decode(params, [begin, *output], memory, h)[-1] @ params["embedding"].T)
        log_p[list(never)] = -np.inf
        output.append(int(np.argmax(log_p)))
        log_prob += log_p[output[-1]]
    return output, log_prob


def of_the_product(params):
    """The product's parameters under these names, float64."""

    def convert(layer):
        parts = {"self": "self_attention", "cross": "cross_attention"}
        attentions = {
            ours: {name: matrix["kernel"] for name, matrix in layer[theirs].items()}
            for ours, theirs in parts.items()
            if theirs in layer
        }
        f = layer["feed_forward"]
        ffn = {"W_1": f["W_1"]["kernel"], "b_1": f["W_1"]["bias"], "W_2": f["W_2"]["kernel"], "b_2": f["W_2"]["bias"]}
        norms = [f"{parts[name]}_norm" for name in attentions] + ["feed_forward_norm"]
        return {**attentions, "ffn": ffn, "norms": [layer[norm]["norm"] for norm in norms]}

    converted = {"embedding": params["embedding"]["table"]} | {
        stack: [convert(layer) for _, layer in sorted(params[stack].items())] for stack in ("encoder", "decoder")
    }
    for table in ("source_positions", "target_positions"):
        if "learned" in params.get(table, {}):
            converted[table] = params[table]["learned"]
    return in_float64(converted)


def in_float64(tree):
    if isinstance(tree, dict):
        return {name: in_float64(branch) for name, branch in tree.items()}
    return [in_float64(branch) for branch in tree] if isinstance(tree, list) else np.asarray(tree, np.float64)
