"""Fingerprints: a hex string over everything that can change a result, by allow-list."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from typing import Any

from pipeline.contract.definitions import folder_around, forms
from pipeline.contract.kept_codes import kept_code
from pipeline.models.base import version

KNOWN_AS: dict[str, str] = {
    # aggregate
    "0c79fc1a8e79b6327c76a387909cc0a4fa817f340cc6e3995bc339504bd5b0e1":
        "d8e7ee9d35774cdb45938b3f5251890f4c663df6ace04fa6bf40ee5a0b3690b0",
    # chunk_documents
    "7bd48fb932e31496cf12dcfc6e4f9e1f02bfcc5024468a0055a3fc1894e50cdc":
        "422e8abae7a49e29bdd647d62a4138bdf7b4e3070188505f04e480cbf4ba5baf",
    # concat
    "4bacd9d327c99f9d1a5a673a8015ecb5d72b42084c9c70e8304becf366c41048":
        "33a1e6d8d5ecd0fd6377161c61b557ac26f76dac6e3ef93acb45e7ce68477aa3",
    # convert
    "f6173d818035d9d7ef8e885f0059be4e77284c0066abce28971e5c46ca5dc5e3":
        "35fd13c259ee0b38abe81124cc91aebb73dcef6186165408f6ec191be8a03f64",
    # dedupe
    "e422820a52529e77101077e3b0da633afbf762412472d28d5546565901b5d594":
        "98d93b2f199befafc8af1b92ea578d33f6fba40ba4323a7924252a3a65d61537",
    # derive
    "479fbad4bb5e849e510033b3d404716fce2e2fcb35035490a1b789ae9b856f4e":
        "68711769252349103aeda019881e7089201e545a6b1a90ae83dec60eaeb86fdf",
    # detect_communities
    "5902b86920afc8f9408c5187e7c9415b2e8f7581a187d69290cede59a3c0ad97":
        "4b8a281c234ef5a1d6e86f79ec903734793f7fced3ac7cd5e9e8baf3114a8055",
    # drop
    "97396fc7add21202e70d4298e1e50cc3852104ce81aa44a5ba23c91d915f5ee2":
        "9ab8072c159c4ccaecfd71d39def7639ce4cfe4815641a5dd0a318858679ab5d",
    # embed_graph
    "69fcd634b3775ab468109fe13aa698eecc8e0f14e10e1aa27f3714211d873c0c":
        "48a670f0e3e30294b03a78663ababe63bced38ae50fe7eeec09f70b7179fc944",
    # embed_text
    "47ce8086ac81132d91a981a0290842f6d4e4bb984d419a37292b17963241c993":
        "ccad02591a6e5edff8ccb45e9d458f9a2bdc72ed044917edfeec620b1103092e",
    # extract_graph_fast
    "b4e4687d333a63987489586dc3805534c3625601d2ad7eeb7c9469add80ff231":
        "5e7f6b770e956d8ad07838b6e1c556ba97de402dd36580779e0889412b3aaee9",
    # filter
    "74a5c143bf3cfb41386930a6c47841e1b3d96389e50fe5de66c4900afc513013":
        "7e168d5ac6e129fd233ad3831b02ff5d5793428ef6769f5581bb97258277d751",
    # filter_documents
    "de58dd4d829373650785a06f7add63a98e7ffc1cac665f8987c886414b6170b5":
        "15478c3bd659fdedf34f7e8d5f18c05e5bfec7b00dd9c4e040481611a2d560f3",
    # join
    "5fe279105078a950e8e948fed09bd756434e00c6c97b85883977708c0b9a971d":
        "ea0688ff69c4203a8fe9488c78fb038124b986cc1f56fa8a4da597d663b97aa4",
    # join_descriptions
    "075ce0df8e0a77ddfff599c3ad8f6ac7fdf5c78d2311ef416e3e9f3be1cfc981":
        "4683693094c86ebf04ac4ca248091798fd1061fd43cf5c198de118697e180c6e",
    # join_documents
    "4d94dcd617b53f9cc8f7b61237dc65e8328c99bbe94d9c185c3f7417c2f4efef":
        "8b8dbaabb556aeabb852de62872aaeeffe5e2dcb29f0b4b17f911007f1e3faec",
    # merge_graphs
    "d524abfcf00aaf21b14f9fefbf07b79de67575bcdc898827d2a93e9c442765eb":
        "42c0b755665b0f4814a511055e3c5ffe8bc6d4d9d3f83ae229f42f0c2d457ae7",
    # order_by
    "cc4396c67d4eed2949ad37662787f1fca3d845cc81c70e0365662baf1f168147":
        "ce122eb1cd63f8c0429310709bba5db7023f856b1ee5db93592f2748860489a7",
    # prune_graph
    "093fe1dfe9c715067083823d8e329cd8af29d0859de4d485c050186de9247b75":
        "7d9e1d8d35871f116808fb54887bb79a62b654f588b22cc389107bf7ed97342a",
    # rename
    "ebda0f4e9f643361f6614936d5d3535e91c67f287db1900791516a049bee1658":
        "c3d75169a0b481dfb739fdad97f12cfcead170e82614b6aac799724de88c0aae",
    # replace_text
    "1b0994e34b171f95b7e2fed137c29cee2d6d1f3a8add8ecd1b3564b240b2321d":
        "88c59c5f6be31d2c4d1eb2b7f8ff4c00d4e210baec20d6caa0ee03b765f6cbd6",
    # resolve_claims
    "b352d624e71112a7af3797b353122d837214fcce13f46174622949d8de45ab69":
        "3bb1b2b7a64e62a9faadf4d987e8d66c345eafa259c685e5a86f2fde16e2196c",
    # select
    "1c0fbffc84fb5e1e9090e5be519a607c8fe21a77c1155c08b4a85b96c6158104":
        "9ebde185e806ece538eaeb30f288427c60d1fb088872dd715be1e496cd230f96",
    # select_documents
    "75e26fd33abef81ef0d87caf6a01fb8f2f0d8722a67caddc634e5cfbcd3c483d":
        "62d6d81768b3ae749d0019b20682c80403c19f7f713be5cf84bddef222b774f7",
    # snapshot
    "5c1bd87d4dac4b7b57d49e5c890c32562f47f76f6835512665109e360a82703f":
        "003a77a9186706fff8f98e377b07f2a19236266da001158fbfb7638888ee5211",
    # unroll
    "d1119378952ca593762bb05713c25c758e86306a59e6bc22ec8e039cc8a2a731":
        "86bc129941c010f0bf0329cf39ec301f87fc16de16274116fc79ef5850e8b6ce",
    # with_hashes
    "ddd59ef49477d03bfa3244d1ad4c93f054dec32a99eb8a670d014d82896d5845":
        "03ac9544b6666ec5d6fd0597f0712c4cac43ea0cdf3e30aefbb8309a91e210b3",
}  # fmt: skip
"""New fingerprint -> the fingerprint of the same code before only its form changed, or before
fingerprints covered definitions. With it, steps and loads of that time are reused. Delete an entry
whose code has changed since.
"""


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the value's canonical JSON, in hexadecimal."""
    encoded = json.dumps(
        value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(encoded.encode()).hexdigest()


def code_fingerprint(function: Callable[..., Any]) -> str:
    """Return a fingerprint of a function's definition and of all definitions in this package that
    it depends on.

    Comments, docstrings and layout do not count, nor the names, files and modules of definitions
    (definitions.py).
    """
    module, name = function.__module__, function.__qualname__.partition(".")[0]
    package = folder_around(module)
    found = (
        kept_code(package, f"{module}.{name}", lambda: _code(module, name))
        if package
        else _code(module, name)
    )
    return KNOWN_AS.get(found, found)


def _code(module: str, name: str) -> str:
    return fingerprint(forms(module, name))


def library_versions(distributions: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those distributions that are installed; a verb may use an optional
    extra."""
    there = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            there[name] = version(name)
    return there
