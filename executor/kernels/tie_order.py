"""The order that Paddle leaves equal elements in: that of the selection and sorting of its C++ library.

Introsort, introselect and heap selection, with the library's choice of pivots and its cut-off of 16 for
insertion sort, run on ranks. They are plain Python and meant for small tensors: where nothing is equal, numpy
gives the same result, and large tensors are not worth it (see ``LIMIT``).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LIMIT", "nth_element", "partial_sort", "sort"]

LIMIT = 4096
"""So many elements are ordered this way in one call; above, equal elements keep their order."""

_SMALL = 16


class _Arrangement:
    """Element numbers that an algorithm moves around; an element goes before another when its rank is lower."""

    __slots__ = ("items", "rank")

    def __init__(self, rank: Sequence[int]) -> None:
        self.rank = rank
        self.items = list(range(len(rank)))

    def before(self, a: int, b: int) -> bool:
        """Whether the element at place ``a`` goes before the one at place ``b``."""
        return self.rank[self.items[a]] < self.rank[self.items[b]]

    def swap(self, a: int, b: int) -> None:
        """Exchange the elements at two places."""
        self.items[a], self.items[b] = self.items[b], self.items[a]

    def median_to(self, place: int, a: int, b: int, c: int) -> None:
        """Exchange the element at ``place`` with the median of three."""
        if self.before(a, b):
            median = b if self.before(b, c) else c if self.before(a, c) else a
        else:
            median = a if self.before(a, c) else c if self.before(b, c) else b
        self.swap(place, median)

    def partition(self, first: int, last: int) -> int:
        """Split ``first:last`` around the median of three of its elements; where the right part starts."""
        self.median_to(first, first + 1, first + (last - first) // 2, last - 1)
        items, rank = self.items, self.rank
        pivot = rank[items[first]]
        left, right = first + 1, last
        while True:
            while rank[items[left]] < pivot:
                left += 1
            right -= 1
            while pivot < rank[items[right]]:
                right -= 1
            if left >= right:
                return left
            self.swap(left, right)
            left += 1

    def insertion_sort(self, first: int, last: int) -> None:
        """Sort a short or almost sorted range; equal elements keep their order."""
        items, rank = self.items, self.rank
        for place in range(first + 1, last):
            item = items[place]
            at = place
            while at > first and rank[item] < rank[items[at - 1]]:
                items[at] = items[at - 1]
                at -= 1
            items[at] = item

    def sift(self, first: int, hole: int, length: int, item: int) -> None:
        """Put ``item`` into the heap at ``first``: the hole sinks to a leaf, the item rises from there."""
        items, rank = self.items, self.rank
        top = child = hole
        while child < (length - 1) // 2:
            child = 2 * child + 2
            if rank[items[first + child]] < rank[items[first + child - 1]]:
                child -= 1
            items[first + hole] = items[first + child]
            hole = child
        if length % 2 == 0 and child == (length - 2) // 2:
            child = 2 * child + 1
            items[first + hole] = items[first + child]
            hole = child
        while hole > top and rank[items[first + (hole - 1) // 2]] < rank[item]:
            items[first + hole] = items[first + (hole - 1) // 2]
            hole = (hole - 1) // 2
        items[first + hole] = item

    def heap_select(self, first: int, middle: int, last: int) -> None:
        """The first elements of ``first:last`` into ``first:middle``, as a heap with the last of them on top."""
        length = middle - first
        for parent in range((length - 2) // 2, -1, -1):
            self.sift(first, parent, length, self.items[first + parent])
        for place in range(middle, last):
            if self.before(place, first):
                item = self.items[place]
                self.items[place] = self.items[first]
                self.sift(first, 0, length, item)

    def heap_sort(self, first: int, last: int) -> None:
        """Sort a heap."""
        while last - first > 1:
            last -= 1
            item = self.items[last]
            self.items[last] = self.items[first]
            self.sift(first, 0, last - first, item)

    def intro_sort(self, first: int, last: int, depth: int) -> None:
        """Split until the parts are short; heap sort where splitting goes badly."""
        while last - first > _SMALL:
            if depth == 0:
                self.heap_select(first, last, last)
                self.heap_sort(first, last)
                return
            depth -= 1
            cut = self.partition(first, last)
            self.intro_sort(cut, last, depth)
            last = cut

    def sort(self, first: int, last: int) -> None:
        """Sort ``first:last``."""
        if last - first > 1:
            self.intro_sort(first, last, 2 * ((last - first).bit_length() - 1))
            self.insertion_sort(first, last)

    def select(self, nth: int) -> None:
        """Bring the element of place ``nth`` of the sorted order there, lower ones before it."""
        first, last = 0, len(self.items)
        depth = 2 * (last.bit_length() - 1)
        while last - first > 3:
            if depth == 0:
                self.heap_select(first, nth + 1, last)
                self.swap(first, nth)
                return
            depth -= 1
            cut = self.partition(first, last)
            if cut <= nth:
                first = cut
            else:
                last = cut
        self.insertion_sort(first, last)


def sort(rank: Sequence[int]) -> list[int]:
    """Element numbers in ascending order of rank."""
    made = _Arrangement(rank)
    made.sort(0, len(rank))
    return made.items


def nth_element(rank: Sequence[int], nth: int, ordered: bool = False) -> list[int]:
    """Element numbers with that of sorted place ``nth`` there, those before it sorted where ``ordered``."""
    made = _Arrangement(rank)
    made.select(nth)
    if ordered:
        made.sort(0, nth)
    return made.items


def partial_sort(rank: Sequence[int], count: int) -> list[int]:
    """Element numbers with the first ``count`` of the sorted order in front, sorted."""
    made = _Arrangement(rank)
    made.heap_select(0, count, len(rank))
    made.heap_sort(0, count)
    return made.items
