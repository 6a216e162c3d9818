"""Merging ranked lists."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pandas as pd

Item = TypeVar("Item")


def round_robin(*rankings: Iterable[Item]) -> list[Item]:
    """First of each, second of each, ...; each item once, where it first comes up."""
    lists = [list(ranking) for ranking in rankings]
    turns = range(max(map(len, lists), default=0))
    return list(dict.fromkeys(items[turn] for turn in turns for items in lists if turn < len(items)))


def merge_frames(frames: Sequence[pd.DataFrame], by: str) -> pd.DataFrame:
    """Rows of ranked frames in round-robin order, each value of ``by`` once."""
    filled = [frame for frame in frames if len(frame)] or list(frames[:1])
    if len(filled) == 1:
        return filled[0].drop_duplicates(by).reset_index(drop=True)
    ranked = [frame.assign(turn=range(len(frame)), lane=lane) for lane, frame in enumerate(filled)]
    merged = pd.concat(ranked, ignore_index=True).sort_values(["turn", "lane"], kind="stable")
    return merged.drop_duplicates(by).drop(columns=["turn", "lane"]).reset_index(drop=True)
