"""Gives programs of Python 3.5 to 3.8 back what newer versions have dropped, and the same chance each time."""
import collections
import collections.abc
import inspect
import random
import sys

for name in ("Callable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

# The Element that is written in C takes no new method; the one in Python does.
sys.modules["_elementtree"] = None
import xml.etree.ElementTree as tree  # noqa: E402

if not hasattr(tree.Element, "getchildren"):
    tree.Element.getchildren = lambda self: list(self)

if not hasattr(inspect, "getargspec"):
    ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
    inspect.getargspec = lambda func: ArgSpec(*inspect.getfullargspec(func)[:4])

sample = random.sample
random.sample = lambda population, k: sample(list(population), k)
random.seed(7)
