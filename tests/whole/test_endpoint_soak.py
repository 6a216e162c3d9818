"""An endpoint with every fault, and kills of the run: in the end nothing is lost, and the bill is
the ledger's."""

from pathlib import Path

import pytest

from tests.sizes import size
from tests.whole.endpoint_soak import Plan, soak

DOCUMENTS = size(24, 500)
SECONDS = size(15, 240)
PHASE = size((0.2, 1.5), (1.0, 6.0))


@pytest.mark.parametrize(("seed", "format"), size([(7, "records")], [(7, "records"), (8, "json")]))
def test_after_faults_and_kills_tables_and_bill_are_those_of_a_well_behaved_endpoint(
    tmp_path: Path, postgres_url: str, seed: int, format: str
):
    found = soak(tmp_path, postgres_url, Plan(seed, DOCUMENTS, SECONDS, PHASE, format=format))
    assert found.bill is not None
    assert len(found.faults) >= size(5, 15)
    assert found.killed > 0
