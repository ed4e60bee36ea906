"""From text to batches: corpus, tokenizer, packing, preparation."""
