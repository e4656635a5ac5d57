"""Docstrings of functions begin with a verb in the imperative: what a function does, told to who calls it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tree import Function, modules

VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    Add Adopt Allocate Announce Answer Append Apply Ask Assert Await Begin Bind Bring Broadcast Build Call Cast Change
    Check Choose Claim Close Collect Commit Compare Compile Complain Complete Compute Construct Convert Copy Correct
    Count Create Cut Decide Declare Decode Delete Do Draw Drop Encode End Ensure Enter Erase Examine Expand Feed Fetch
    Fill Find Flush Follow Force Forget Format Free Get Give Go Group Grow Hand Have Hold Import Infer Intersect Iterate
    Join Keep Know Learn Leave Let List Load Lock Log Look Make Map Mark Measure Mend Merge Move Name Note Open Order
    Parse Place Plan Prepare Print Publish Put Quote Raise Read Refuse Register Release Remember Remove Rename Render
    Replace Report Resolve Return Reverse Rewrite Roll Run Save Say Scan See Select Send Serve Set Show Skip Sort Split
    Stamp Start Stop Store Submit Survey Take Tell Test Touch Trim Trust Try Turn Undo Unite Update Use Wait Walk Warn
    Work Wrap Write Yield
    """,
    )
)
"""Verbs that docstrings begin with. A verb that is not here may be added; a noun, an article, a participle or the name
of an error may not."""

# What is called like a value has a docstring that says what it is; commands tell users what they get.
_NO_FUNCTIONS = ("property", "command", "group", "verb(", "setter")


def first_words() -> Iterator[tuple[str, str]]:
    """Yield the place of each function, and the first word of its docstring."""
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, Function) or node.name.startswith("test_"):
                continue
            text = ast.get_docstring(node)
            if text is None or any(name in ast.unparse(each) for each in node.decorator_list for name in _NO_FUNCTIONS):
                continue
            yield f"{module.name}:{node.lineno} {node.name}", text.split()[0].strip(".,:;")


def test_docstrings_begin_with_a_verb() -> None:
    found = list(first_words())
    assert len(found) > 1000
    assert {place: word for place, word in found if word not in VERBS} == {}
