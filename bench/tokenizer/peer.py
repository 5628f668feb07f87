"""Encodes texts with Hugging Face's tokenizers and with tiktoken, on one thread, and prints a JSON line for each measurement.

    python peer.py tokenizer.json REPEATS TEXT...

tiktoken gets the same vocabulary, with its ids as ranks and the pattern of the file, which is how Qwen's and Llama 3's
tokenizers were made; without the package, or for other tokenizers, that part is left out.
"""
import array
import hashlib
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402

SIZE = 2000


def documents(data):
    docs = []
    while data:
        end = min(SIZE, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        docs.append(data[:end].decode())
        data = data[end:]
    return docs


def tiktoken_encoding(path):
    try:
        import tiktoken
    except ImportError:
        return None
    with open(path, encoding="utf-8") as f:
        t = json.load(f)
    steps = (t["pre_tokenizer"] or {}).get("pretokenizers", [])
    if not steps or "Regex" not in steps[0].get("pattern", {}):
        return None
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte = {chr(b): b for b in printable}
    byte.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    ranks = {bytes(byte[c] for c in token): i for token, i in t["model"]["vocab"].items()}
    return tiktoken.Encoding("peer", pat_str=steps[0]["pattern"]["Regex"], mergeable_ranks=ranks, special_tokens={})


def main():
    path, repeats, texts = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    c = time.process_time()
    hf = Tokenizer.from_file(path)
    print(json.dumps({"by": "tokenizers", "text": "(open tokenizer.json)", "seconds": time.process_time() - c}))
    todo = {"tokenizers": lambda docs: [hf.encode(d, add_special_tokens=False).ids for d in docs],
            "tokenizers, batch_fast": lambda docs: [e.ids for e in hf.encode_batch_fast(docs, add_special_tokens=False)]}
    tik = tiktoken_encoding(path)
    if tik:
        todo["tiktoken"] = lambda docs: [tik.encode_ordinary(d) for d in docs]
    for text in texts:
        with open(text, "rb") as f:
            data = f.read()
        docs = documents(data)
        name = os.path.basename(text).removesuffix(".txt")
        for _ in range(repeats):
            for by, encode in todo.items():
                c = time.process_time()
                ids = encode(docs)
                took = time.process_time() - c
                digest = hashlib.sha256()
                for x in ids:
                    digest.update(array.array("i", x).tobytes())
                print(json.dumps({"by": by, "text": name, "mb_per_s": len(data) / 1e6 / took, "tokens": sum(map(len, ids)), "ids": digest.hexdigest()[:16]}))


if __name__ == "__main__":
    main()
