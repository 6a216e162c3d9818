"""Queries: a question flows one way through the modules of this folder.

1. Request: ``request`` (the question and its options), ``caller`` (the caller and their limits),
   ``account`` (calls and costs) and ``resources`` (stores, models and prompts).
2. Prepare: ``prepare`` fits the request to the model (``request_limits``) and calls steps 3 and 4.
   The result is a ``prepared`` query.
3. Search: ``search`` finds keywords, and evidence in the stores by mode.
4. Context: ``context`` and ``mixed_context`` cut the evidence to a budget, ``report_table`` does so
   for community reports, and ``messages`` adds the rules and the conversation. ``reports`` does
   steps 3 and 4 for the modes ``community`` and ``drift``.
5. Answer: ``answer`` asks the model, ``replies`` refuses or repeats failed replies, ``citations``
   checks the text. ``stream`` does the same piece by piece, and ``next_questions`` asks for
   questions instead. ``too_long`` repeats all steps with a shorter prompt.

A module imports only modules of its own step and of earlier ones; ``prepare`` alone imports the
two steps that it calls. ``make layers`` checks this. ``marks`` and ``data_citations`` define the
forms of citations for steps 4 and 5. ``drawing`` and ``reading`` are not part of this flow: they
read the graph and the documents for pages.
"""
