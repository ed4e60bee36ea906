"""Translates standard input with an exported folder, as somebody would who has no vaswani: it imports none.

    python scripts/export_peer.py FOLDER [KEY=VALUE ...] < source.txt > translations.txt

The folder is a Hugging Face model or a CTranslate2 model; KEY=VALUE are arguments of `generate` or `translate_batch`.
"""

import json
import sys
from pathlib import Path
from typing import Any

BATCH = 50  # lines


def main() -> None:
    folder, *options = sys.argv[1:]
    settings = {key: json.loads(value) for key, _, value in (option.partition("=") for option in options)}
    lines = sys.stdin.read().split("\n")[:-1]
    translate = ctranslate2_model(folder) if (Path(folder) / "model.bin").exists() else marian_model(folder)
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    translations: dict[int, str] = {}
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        translations.update(zip(batch, translate([lines[i] for i in batch], **settings), strict=True))
    print(*(translations[i] for i in range(len(lines))), sep="\n")


def marian_model(folder: str):
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()

    def translate(lines: list[str], **settings: Any) -> list[str]:
        batch = tokenizer(lines, return_tensors="pt", padding=True)
        limit = batch["input_ids"].shape[1] - 1 + 50  # ours is each sentence's own
        with torch.inference_mode():
            outputs = model.generate(**batch, max_new_tokens=limit, **settings)
        return tokenizer.batch_decode(outputs, skip_special_tokens=True)

    return translate


def ctranslate2_model(folder: str):
    import ctranslate2  # pyright: ignore[reportMissingImports]
    import sentencepiece

    tokenizer = sentencepiece.SentencePieceProcessor(str(Path(folder) / "tokenizer.model"))
    translator = ctranslate2.Translator(folder, compute_type="default", intra_threads=1)

    def translate(lines: list[str], **settings: Any) -> list[str]:
        batch = tokenizer.encode(lines, out_type=str)
        limit = max(map(len, batch)) + 50
        results = translator.translate_batch(batch, disable_unk=True, max_decoding_length=limit, **settings)
        return [tokenizer.decode(result.hypotheses[0]) for result in results]

    return translate


if __name__ == "__main__":
    main()
