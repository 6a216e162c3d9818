"""Chat clients: the protocol of OpenAI over the same questions, rights and limits as `/query`."""
