"""The look of a line: colour, dash and marker follow from its label, so that a method looks alike in every figure."""

import hashlib
from collections.abc import Mapping, Sequence, Set
from functools import partial

from fedbench.specs.names import Label

# Okabe and Ito's palette; line styles and markers say the same again, for who sees or prints no colours
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
Dash = str | tuple[int, tuple[float, ...]]
KINDS = 8  # of dashes and markers for the labels of the built-in studies; those after them are for all other labels
DASHES: tuple[Dash, ...] = (
    *("-", "--", ":", "-."),
    *((0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)), (0, (9, 2, 2, 2))),
    *((0, (2, 1)), (0, (10, 2, 1, 2, 1, 2, 1, 2)), (0, (4, 4)), (0, (5, 1, 5, 1, 1, 1))),
)
# The same as SVG has them, for lines of width 1.5
STROKES = (
    *("", "6 3", "1.5 2.5", "8 3 1.5 3", "5 2 1.5 2 1.5 2", "12 3", "1.5 5", "14 3 3 3"),
    *("3 1.5", "15 3 1.5 3 1.5 3 1.5 3", "6 6", "8 2 8 2 2 2"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<", ">", "H")
# And these, around zero
SHAPES = (
    "M-4.5,0a4.5,4.5 0 1 0 9,0a4.5,4.5 0 1 0 -9,0Z",
    "M-4,-4h8v8h-8Z",
    "M0,-5l5,9h-10Z",
    "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5Z",
    "M0,5l5,-9h-10Z",
    "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3Z",
    "M-4.8,-2.4l2.4,-2.4l2.4,2.4l2.4,-2.4l2.4,2.4l-2.4,2.4l2.4,2.4l-2.4,2.4l-2.4,-2.4l-2.4,2.4l-2.4,-2.4l2.4,-2.4Z",
    "M0,-6l1.6,4h4.2l-3.4,2.6l1.3,4.2l-3.7,-2.6l-3.7,2.6l1.3,-4.2l-3.4,-2.6h4.2Z",
    "M0,-5l4.8,3.5l-1.8,5.6h-6l-1.8,-5.6Z",
    "M-5,0l9,-5v10Z",
    "M5,0l-9,-5v10Z",
    "M-2.5,-4.4h5l2.5,4.4l-2.5,4.4h-5l-2.5,-4.4Z",
)
SLOTS = len(COLOURS) * KINDS  # of the built-in labels
# The labels of the built-in studies. Append only: the place is the look.
KNOWN = (
    *("FedAvg", "FedLAW", "adaptive GWS", "FedProx", "FedDyn", "Server-FT", "FedDF", "FedBE"),
    *("SCAFFOLD", "FedNova", "FedAvgM", "FedAdam", "FedYogi", "FedAdagrad", "FedExP", "q-FedAvg"),
    *("FedLWS", "FedAWA", "FedHAW", "FedDisco", "L-DAWA", "FedAdp", "greedy soup", "FLTrust"),
    *("median", "geometric median", "multi-Krum", "Krum", "Bulyan", "trimmed mean", "centered clipping"),
    *("attentive LAW", "FedLAW (SWA)", "attentive LAW + SWA", "LAW, stopped early", "fixed gamma"),
    *("fixed gamma 0.95", "FedAvg + proxy as a client", "FedAvg, bn=proxy", "FedAvg, no momentum"),
    *("SCAFFOLD, no momentum", "FedDyn as in the authors' code", "FedDF, 100 steps", "FedLAW, 100 steps"),
    *("FedBE, 100 steps", "Server-FT, 2 steps", "adaptive GWS, 100 steps", "attentive LAW, 100 steps"),
    *("trimmed mean, NNM", "geometric median, NNM", "FedLAW, quadratic", "FedLAW (SWA), reversed"),
    *("Server-FT, 100 epochs", "FedLWS on FedLAW", "FedAWA (released code)", "FedProx as in the authors' code"),
    *("FedAvg, uniform weights", "FedLAW (SWA) as in the authors' code", "FedAvg + proxy as an average client"),
    *("FedExP, no momentum", "Fed-NGA", "FedVG", "q-FedAvg, q = 1"),
)


def slots(labels: Sequence[Label]) -> Mapping[Label, int]:
    """Return a slot for every label: for words by their name, for numbers (which have an order) by their position.

    A word that is not in KNOWN has a dash and a marker that no word in KNOWN has: those given by a hash or, if another
    line of the figure has them, the next free ones. It never has those of FedAvg, nor its colour.
    """
    if not all(isinstance(label, str) for label in labels):
        return {label: position % SLOTS for position, label in enumerate(labels)}
    found: dict[Label, int] = {label: KNOWN.index(label) for label in labels if label in KNOWN}
    own = [slot for slot in range(SLOTS, SLOTS + len(COLOURS) * (len(DASHES) - KINDS)) if slot % len(COLOURS)]
    known = [slot for slot in range(SLOTS) if number_of(slot) != number_of(0)]
    colours = set[int]()  # of such words
    for label in sorted((label for label in labels if label not in found), key=str):
        first = int.from_bytes(hashlib.sha256(str(label).encode()).digest()[:4]) % len(own)
        taken, kinds = set(found.values()), {number_of(slot) for slot in found.values()}
        used = partial(_used, taken, kinds, colours)
        found[label] = min([*own[first:], *own[:first], *known], key=used)
        colours.add(found[label] % len(COLOURS))
    return found


def _used(taken: Set[int], kinds: Set[int], colours: Set[int], slot: int) -> tuple[bool, bool, bool]:
    """Return whether a slot, its dash, and its colour are used already."""
    return slot in taken, number_of(slot) in kinds, slot % len(COLOURS) in colours


def colour_of(slot: int) -> str:
    """Return the colour of a slot."""
    return COLOURS[slot % len(COLOURS)]


def number_of(slot: int) -> int:
    """Return which of the dashes and markers a slot has; it changes where the colours begin again."""
    again, colour = divmod(slot, len(COLOURS))
    return (colour - again) % KINDS if slot < SLOTS else KINDS + (again - KINDS) % (len(DASHES) - KINDS)
