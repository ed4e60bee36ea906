"""The Transformer of "Attention Is All You Need", from raw text to BLEU."""
