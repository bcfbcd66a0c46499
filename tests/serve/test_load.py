"""Many clients at once, for a moment; `./dev load` is the long form, with its figures in bench/LOAD.md."""

import load


def test_many_clients_get_what_is_promised(scry, tmp_path):
    outcome = load.run(scry, tmp_path / "data", clients=40, seconds=4, recordings=12)
    result, recordings = outcome["result"], outcome["recordings"]
    assert result.errors == []
    assert recordings["done"] == recordings["asked"] == 12
    assert recordings["in_turn"] and recordings["at_once"] <= recordings["limit"]
    assert len(result.times[load.LISTING]) > 20 and result.statuses[200] > 100
    assert {400, 404} <= set(result.statuses)
