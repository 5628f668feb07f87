#!/usr/bin/env bash
# Measures how fast Grouper and, in turn, Hugging Face's tokenizers and tiktoken encode English, code and Chinese with one
# vocabulary, on one thread and in CPU time, and prints the rates and their ratios.
#
#   bench/tokenizer.sh PYTHON TOKENIZER_JSON [ROUNDS [TEXT...]]
#
# PYTHON has tokenizers and tiktoken. TEXT are further files to encode. The figures are the best and the median of
# 3 measurements in each of ROUNDS (3).
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9p' "$0"; exit 2; }
python=$1 tokenizer=$(realpath "$2") rounds=${3:-3}
shift $(($# < 3 ? $# : 3))
texts=()
for t in "$@"; do texts+=("$(realpath "$t")"); done
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go build -o "$out/encode" ./bench/tokenizer
"$out/encode" -write "$out"
texts=("$out/english.txt" "$out/code.txt" "$out/chinese.txt" "${texts[@]}")
for _ in $(seq "$rounds"); do
  "$out/encode" -tokenizer "$tokenizer" -repeats 3 "${texts[@]}" >>"$out/results"
  PYTHONDONTWRITEBYTECODE=1 "$python" bench/tokenizer/peer.py "$tokenizer" 3 "${texts[@]}" >>"$out/results"
done
"$python" - "$out/results" <<'PY'
import collections, json, statistics, sys
rates, ids, opening = collections.defaultdict(lambda: collections.defaultdict(list)), collections.defaultdict(set), collections.defaultdict(list)
for r in map(json.loads, open(sys.argv[1])):
    if "seconds" in r:
        opening[r["by"]].append(r["seconds"])
        continue
    rates[r["text"]][r["by"]].append(r["mb_per_s"])
    ids[r["text"]].add((r["ids"], r["tokens"]))
print(f"{'MB/s of CPU time':14}{'':26}{'best':>8}{'median':>8}{'Grouper is faster by (best, median)':>38}")
for text, by in rates.items():
    own = by.pop("grouper")
    same = "all ids equal" if len(ids[text]) == 1 else "IDS DIFFER"
    print(f"{text:14}{'Grouper':26}{max(own):8.2f}{statistics.median(own):8.2f}{same:>38}")
    for name, r in by.items():
        print(f"{'':14}{name:26}{max(r):8.2f}{statistics.median(r):8.2f}{max(own) / max(r):30.1f}{statistics.median(own) / statistics.median(r):8.1f}")
print("seconds of CPU time to open the file: " + ", ".join(f"{by} {min(s):.2f}" for by, s in opening.items()))
PY
