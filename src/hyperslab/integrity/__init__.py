"""check, repair, diff: find and mend damage, and say what differs; every problem is listed, none stops the search.

Damage is data: a rule (:mod:`hyperslab.formats.rules`) says what one kind is, how it is found, how it is mended and
what is lost. One survey hands each place of a dataset to the rules, one mender does the deeds. What calls what:

- ``survey``: ``check``; the walk through a dataset, called by ``mender`` before each stage
- ``mender``: ``repair``; plans and does the mends stage by stage, under the locks that writers take, and replaces
  damaged chunks of single files by fill values
- ``comparison``: ``diff``; two datasets node by node, cell by cell
- ``rules``: the table of all rules of datasets under keys, those of documents and dimensions with the functions that
  find and mend them; ``chunk_rules``: those of chunks; ``stored_chunks``: what lies in a folder of chunks, by name and
  bytes
- ``views``: what rules look at, and the state of a repair that their mends work with
- ``node_documents``, ``stored_chunks``: documents, chunks and shards as they are stored, be they damaged
- ``dataset``: where a dataset lies and in which dialect
- ``quarantine``: keeps what is taken out, called by ``mender`` and the mends; ``report``: the result of both commands
"""
