#!/usr/bin/env bash
# Times one GRPO update of Grouper beside TRL and JAX on this machine, in turn, and prints the ratios of the medians.
#
#   bench/peers.sh PEERS TORCH_PYTHON JAX_PYTHON [ROUNDS]
#
# PEERS is the folder with the peers' programs (trl_grpo.py, jax_twin.py), the PYTHONs have their packages installed. XLA is
# found as by `-backend auto`. Keep the machine quiet: other load makes two threads up to 40 times slower.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,8p' "$0"; exit 2; }
peers=$1 torch=$2 jax=$3 rounds=${4:-3}
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go build -o "$out/update" ./bench/update
for _ in $(seq "$rounds"); do
  "$out/update" >>"$out/results"
  (cd "$peers" && PYTHONDONTWRITEBYTECODE=1 "$torch" trl_grpo.py --updates 7 2>/dev/null | grep '^{"peer"') >>"$out/results"
  (cd "$peers" && PYTHONDONTWRITEBYTECODE=1 "$jax" jax_twin.py grpo --reps 5 2>/dev/null | grep '^{"peer"') >>"$out/results"
done
python3 - "$out/results" <<'PY'
import collections, json, statistics, sys
runs = collections.defaultdict(list)
for line in open(sys.argv[1]):
    r = json.loads(line)
    runs[r["peer"]].append(r)
def value(r, field):
    v = r.get(field)
    return v["median"] if isinstance(v, dict) else v
fields = ["update_s", "generate_s", "train_s", "gen_tok_per_s", "first_update_age_s", "rss_mib"]
median = {p: {f: statistics.median(x) for f in fields if (x := [v for r in rs if (v := value(r, f)) is not None])} for p, rs in runs.items()}
print(f"{'median of ' + str(len(runs['grouper'])) + ' runs':28}" + "".join(f"{f:>20}" for f in fields))
for p, m in median.items():
    print(f"{p:28}" + "".join(f"{m[f]:20.3f}" if f in m else f"{'':20}" for f in fields))
for p, m in median.items():
    if p != "grouper":
        print(f"{'grouper / ' + p:28}" + "".join(f"{median['grouper'][f] / m[f]:20.2f}" if f in m and f in median["grouper"] else f"{'':20}" for f in fields))
PY
