"""`bench distributed` and `bench shards`: what they measure, and how they show it."""

from pathlib import Path

from smallgroup.bench import distributed as across_ranks
from smallgroup.bench import shard_reading
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.machine import head
from smallgroup.bench.paths import fast_path
from smallgroup.cli.bench_asked import BenchRequest
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.runtime.environment import threads


def distributed(case: GroupStep, ranks: int, asked: BenchRequest) -> None:
    """Print the tables of `bench distributed`."""
    with threads(asked.threads):
        top = head(fast_path(asked.path))
        found = across_ranks.measure(case, ranks, asked.rounds_or(across_ranks.ROUNDS))
    if asked.as_json:
        print_json({**found, **top})
        return
    model, (low, high) = found["model"], found["spread"]
    wanted = "" if found["at_least"] is None else f"at least {found['at_least']}"
    most = f"at most {100 * found['at_most_share']:g} %"
    say(f"{found['name']}, {ranks} ranks of one thread, torch {top['torch']}, {top['cpu']}", "")
    print_columns(
        [
            ("CPU seconds of a step", "measured", "model", "wanted"),
            ("one process", f"{found['one_seconds']:.4f}", f"{model['one_seconds']:.4f}", ""),
            ("busiest rank", f"{found['rank_seconds']:.4f}", f"{model['rank_seconds']:.4f}", ""),
            ("ratio", f"{found['ratio']:.2f} ({low:.2f} to {high:.2f})", f"{model['ratio']:.2f}", wanted),
            ("exchange on ranks", f"{100 * found['exchange_share']:.2f} %", "", most),
            ("exchange in one process", f"{100 * found['local_exchange_share']:.3f} %", "", most),
            ("bytes received", f"{found['received']:,}", f"{model['received']:,}", ""),
        ]
    )
    say("", f"model: passes times {found['pass_seconds']:.4f} CPU seconds of one pass with its way back")


def shards(folder: Path | None, images: int | None, side: int, asked: BenchRequest) -> None:
    """Print the table of `bench shards`."""
    with threads(asked.threads):
        rounds = asked.rounds_or(shard_reading.ROUNDS)
        found = shard_reading.measure(folder, images or shard_reading.IMAGES, rounds, side)
        top = head("plain")
    if asked.as_json:
        print_json({**found, **top})
        return
    say(f"{found['images']:,} images, {rounds} rounds, parts of {found['size']} pixels, one thread, {top['cpu']}", "")
    rows: list[tuple[object, ...]] = [("source", "images per CPU second", "lowest to highest", "times folder", "KB")]
    for row in found["rows"]:
        low, high = row["spread"]
        size = "" if row["bytes_per_image"] is None else f"{row['bytes_per_image'] / 1024:.1f}"
        speed = f"{row['images_per_second']:.0f}", f"{low:.0f} to {high:.0f}", f"{row['times_folder']:.2f}"
        rows.append((row["name"], *speed, size))
    print_columns(rows)
