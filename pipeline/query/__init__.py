"""Queries: a question flows one way through the modules of this folder.

1. Request: ``request`` (the question and its options), ``asker`` (the caller and their limits),
   ``resources`` (stores, models and prompts) and ``account`` (calls and costs).
2. Prepare: ``prepare`` calls the steps below in this order; ``request_limits`` fits the request to
   the model. The result is a ``prepared`` query.
3. Search: ``search`` finds keywords and evidence by mode; ``walk`` is the search of mode ``graph``.
4. Context: ``context`` and ``mixed_context`` cut the evidence to a budget; ``report_table`` shows
   community reports; ``messages`` puts the context into the messages for the chat model.
   ``reports`` does steps 3 and 4 for the modes ``community`` and ``drift``.
5. Answer: ``answer`` asks the model, ``replies`` refuses or repeats failed replies, ``citations``
   checks the text. ``stream`` does the same piece by piece, ``next_questions`` asks for questions
   instead. ``too_long`` repeats all steps with a shorter prompt.

Each step imports the steps before it, and none after it, except that ``prepare`` calls 3 and 4.
``marks`` and ``data_citations`` define the forms of citations for steps 4 and 5. ``drawing`` and
``reading`` are no part of this flow: they read the graph and the documents for pages.
"""
