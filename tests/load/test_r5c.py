import sys
from tests.load.test_r5 import q


def test_types(neo4j):
    s = neo4j()
    q(s, "CREATE (:Entity {workspace:$w, id:'a'}), (:Entity {workspace:$w, id:'b'})")
    import time

    t0 = time.time()
    for k in range(0, 70000, 1000):
        try:
            q(
                s,
                "MATCH (a:Entity {workspace:$w, id:'a'}), (b:Entity {workspace:$w, id:'b'}) UNWIND range($from, $from+999) AS i CREATE (a)-[:$('T' + toString(i))]->(b)",
                **{"from": k},
            )
            q(s, "MATCH (:Entity {workspace:$w})-[r]->() DELETE r")
            if k % 10000 == 0:
                print(k, "ok", round(time.time() - t0), flush=True)
        except Exception as e:
            print(k, type(e).__name__, str(e)[:400], flush=True)
            break
