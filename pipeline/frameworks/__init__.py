"""graphmill in other programs: a client of its server, and retrievers for LangChain and
LlamaIndex."""
