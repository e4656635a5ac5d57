"""check, repair, diff: find and mend damage, and say what differs; every problem is listed, none stops the search."""
