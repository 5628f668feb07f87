#!/usr/bin/env bash
# Measures how fast Grouper makes tasks of reasoning-gym's datasets and scores the right answers to them, and upstream on this
# machine, in turn, and prints the ratios: tasks and scores per second of CPU time on one core, with the defaults and seed 42.
#
#   bench/reasoninggym.sh PYTHON [SECONDS] [ROUNDS] [DATASET...]
#
# PYTHON has reasoning-gym 0.1.25. Each figure is the best of ROUNDS measurements (5) of SECONDS (0.2) of CPU time, so that other
# work on the machine counts little.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,8p' "$0"; exit 2; }
python=$1 seconds=${2:-0.2} rounds=${3:-5}
shift $(($# < 3 ? $# : 3))
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go build -o "$out/rates" ./bench/reasoninggym
export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
mapfile -t names < <("$out/rates" -list "$@")
for _ in $(seq "$rounds"); do
  "$out/rates" -seconds "$seconds" "${names[@]}" >>"$out/grouper"
  "$python" bench/reasoninggym/rates.py "$seconds" "${names[@]}" >>"$out/upstream"
done
"$python" - "$out/grouper" "$out/upstream" <<'PY'
import json, statistics, sys
def best(path):
    rows = {}
    for r in map(json.loads, open(path)):
        row = rows.setdefault(r.pop("dataset"), r)
        row.update({f: max(row[f], r[f]) for f in r})
    return rows
grouper, upstream = map(best, sys.argv[1:])
seeding = grouper["seeding alone"]["items_per_s"]
print(f"{'':26}{'tasks/s':>12}{'upstream':>12}{'ratio':>8}{'seeding':>9}{'scores/s':>14}{'upstream':>12}{'ratio':>8}")
ratios = {"items_per_s": [], "scores_per_s": []}
for name, u in upstream.items():
    g = grouper[name]
    r = {f: g[f] / u[f] for f in ratios}
    for f in ratios:
        ratios[f].append(r[f])
    share = g["items_per_s"] / seeding  # of the time of a task that goes into seeding its generator
    print(f"{name:26}{g['items_per_s']:12,.0f}{u['items_per_s']:12,.0f}{r['items_per_s']:8.1f}{share:9.0%}{g['scores_per_s']:14,.0f}{u['scores_per_s']:12,.0f}{r['scores_per_s']:8.1f}")
for word, f in ("median", statistics.median), ("least", min):
    print(f"{word:26}{'':24}{f(ratios['items_per_s']):8.1f}{'':35}{f(ratios['scores_per_s']):8.1f}")
print(f"Seeding the generator anew takes {1e6 / seeding:.2f} µs, which is the floor of a task.")
PY
