"""Measures upstream's reasoning-gym as main.go does Grouper's: one JSON line a dataset, with items and scores per CPU second.

    PYTHONHASHSEED=0 python rates.py SECONDS DATASET...
"""
import json
import sys
import time

import reasoning_gym


def rate(seconds, work):
    start, spent, done, turns = time.process_time(), 0.0, 0, 1
    while spent < seconds:
        before = spent
        for _ in range(turns):
            work(done)
            done += 1
        spent = time.process_time() - start
        if spent - before < seconds / 100:
            turns *= 2
    return done / spent


def raising(work):
    """work(i), or None where upstream raises."""

    def f(i):
        try:
            return work(i)
        except Exception:
            return None

    return f


def main():
    seconds = float(sys.argv[1])
    for name in sys.argv[2:]:
        dataset = reasoning_gym.create_dataset(name, seed=42)
        make = raising(lambda i: dataset[i])  # items beyond its size can be made, too
        entries = [entry for entry in map(make, range(20)) if entry is not None]

        def score(i):
            entry = entries[i % len(entries)]
            return dataset.score_answer(entry["answer"] or "wrong", entry)

        row = {
            "dataset": name,
            "items_per_s": rate(seconds, make),
            "scores_per_s": rate(seconds, raising(score)),
        }
        print(json.dumps(row), flush=True)


main()
