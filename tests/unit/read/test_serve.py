"""The HTTP API over tables as Spark and Hudi wrote them, through FastAPI's own client."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.silver_tables import FORGOTTEN_AT, SILVER_FOLDER, SilverFolder, position_of, put_forgetting

from sluice_read.serve import api as served
from sluice_read.serve.answers import Answer, AnswerCache
from sluice_read.serve.api import ServeLimits, api
from sluice_read.serve.pages import Cursor, PageLimits
from sluice_read.serve.queries import saved_queries
from sluice_read.silver import Silver

WORKS = "/tables/moma.works/rows"


@pytest.fixture(scope="module")
def client():
    return TestClient(api(SilverFolder(SILVER_FOLDER)))


def ids(client, path, **query):
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["rows"]]


def problem(answer, status):
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    content = answer.json()
    assert (
        content["status"] == status
        and content["type"] == f"urn:sluice:error:{content['code']}"
        and content["next_step"]
    )
    return content


def test_tables_and_their_columns_are_listed(client):
    assert client.get("/tables").json() == {"tables": ["crm.user", "ecomm.date", "moma.artists", "moma.works"]}
    answer = client.get("/tables/moma.works").json()
    assert (answer["table"], answer["key"]) == ("moma.works", ["id"])
    types = {column["name"]: column["type"] for column in answer["columns"]}
    assert types["fee"].startswith("decimal128") and types["tags"].startswith("list")
    assert not [name for name in types if name.startswith(("_", "__"))]


def test_rows_are_those_of_the_library_as_json(client):
    answer = client.get(WORKS, params={"limit": 50}).json()
    assert sorted(row["id"] for row in answer["rows"]) == [1, 3, 4, 5, 6, 7] and answer["next"] is None
    six = next(row for row in answer["rows"] if row["id"] == 6)
    assert (six["born"], six["fee"], six["photo"]) == ("1906-01-02", "18.50", "AP8G")
    assert (six["seen"], six["tags"], six["note"]) == ("2024-01-01T10:00:06.123456Z", ["a", None], "n6")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id:eq:5", [5]), ("id:ne:5", [1, 3, 4, 6, 7]), ("id:ge:6", [6, 7]), ("id:lt:4", [1, 3]),
        ("nationality:eq:Côte/d Ivoire=x", [5]), ("nationality:eq:", [4]), ("nationality:is:null", [3]),
        ("id:eq:+5", [5]), ("id:eq:5.0", [5]), ("id:eq:0x5", [5]), ("born:eq:1906-01-02T00:00:00Z", [6]),
        ("born:eq:1906-01-02", [6]), ("fee:eq:18.5", [6]), ("fee:eq:18.500", [6]), ("photo:eq:AP8G", [6]),
        ("tags:is:null", []), ("born:eq:1906-01-02T00:00:00+02:00", [6]), ("born:eq: 1906-01-02", [6]),
        ("seen:eq:2024-01-01T10:00:06.123456Z", [6]), ("seen:ge:2024-01-01T12:00:06.123456+02:00", [6, 7]),
        ("note:is:set", [6, 7]), ("name:eq:x' or true --", []),
    ],
)  # fmt: skip
def test_a_condition_keeps_the_rows_that_meet_it(client, condition, expected):
    assert ids(client, WORKS, where=condition) == expected


def test_all_conditions_hold_together(client):
    assert ids(client, WORKS, where=["id:ge:4", "id:le:6", "nationality:ne:"]) == [5, 6]


@pytest.mark.parametrize(
    "condition",
    [
        *("id", "id:eq", "id:like:5", "id:is:5", "id:eq:five", "tags:eq:a", "born:ge:soon", "photo:eq:%"),
        *("id:eq:5.6", "id:gt:4.5", "fee:gt:18.505", "born:lt:1906-01-02T12:00:00"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(client, condition):
    assert problem(client.get(WORKS, params={"where": condition}), 400)["code"] == "invalid_condition"


@pytest.mark.parametrize(
    "query", [{"where": "_sluice_op:eq:u"}, {"column": "_hoodie_commit_time"}, {"column": "c0"}, {"where": "x:eq:1"}]
)
def test_a_hidden_or_unknown_column_can_not_be_named(client, query):
    assert problem(client.get(WORKS, params=query), 400)["code"] == "unknown_column"


def test_hidden_columns_and_deleted_rows_come_when_asked_for(client):
    rows = client.get(WORKS, params={"lineage": True, "with_deleted": True, "limit": 50}).json()["rows"]
    two = next(row for row in rows if row["id"] == 2)
    assert (two["__deleted"], two["_hoodie_record_key"]) == (True, "2")
    assert ids(client, WORKS, lineage=True, where="_sluice_offset:eq:11", column="id") == [1]


def test_pages_follow_each_other_without_gap_or_overlap(client):
    pages, cursor = [], None
    while True:
        page = client.get(WORKS, params={"limit": 2, "column": "id", **({"cursor": cursor} if cursor else {})}).json()
        pages.append([row["id"] for row in page["rows"]])
        cursor = page["next"]
        if cursor is None:
            break
    assert pages == [[1, 3], [4, 5], [6, 7]]


def test_a_key_that_is_no_value_of_its_column_finds_no_other_row(client):
    answer = client.get("/tables/moma.works/row", params={"key": "5.6"})
    assert problem(answer, 400)["code"] == "invalid_condition"


def test_a_row_is_found_by_its_key(client):
    answer = client.get("/tables/moma.works/row", params={"key": "6", "column": ["name", "id"]}).json()
    assert (answer["table"], answer["row"]) == ("moma.works", {"name": "six c", "id": 6})
    missing = problem(client.get("/tables/moma.works/row", params={"key": "2"}), 404)
    assert (missing["code"], missing["facts"]) == ("no_row", {"table": "moma.works", "key": ["2"]})
    shown = client.get("/tables/moma.works/row", params={"key": "2", "with_deleted": True})
    assert shown.json()["row"]["__deleted"] is True
    assert problem(client.get("/tables/moma.works/row", params={"key": ["2", "3"]}), 400)["code"] == "invalid_condition"


def test_rows_as_of_and_since_a_moment_are_those_of_the_library(client):
    silver = Silver(SilverFolder(SILVER_FOLDER))
    first, *_, last = (instant for instant, _ in silver.commits("moma.works"))
    for moment in (first, last):
        then = sorted(silver.as_of("moma.works", moment, columns=["id"]).read_all().column("id").to_pylist())
        assert sorted(ids(client, WORKS, as_of=moment)) == then
    changed = silver.changes("moma.works", since=first, columns=["id"]).read_all().column("id").to_pylist()
    assert sorted(ids(client, WORKS, since=first)) == sorted(changed)


def test_the_next_page_is_read_as_of_the_instant_of_the_first(client):
    silver = Silver(SilverFolder(SILVER_FOLDER))
    first = silver.commits("moma.works")[0][0]
    page = client.get(WORKS, params={"as_of": first, "limit": 1}).json()
    following = client.get(WORKS, params={"limit": 50, "cursor": page["next"]}).json()
    assert page["instant"] == following["instant"] == first
    then = silver.as_of("moma.works", first, columns=["id"]).read_all().num_rows
    assert len(following["rows"]) == then - 1


def silver_commits(silver):
    return [instant for instant, _ in Silver(silver).commits("moma.works")]


def test_a_listing_is_finished_after_a_row_was_forgotten(tmp_path):
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    silver = SilverFolder(tmp_path / "silver")
    put_forgetting(tmp_path / "silver", "moma.works", ["99"], position_of(1))
    client = TestClient(api(silver))
    page = client.get(WORKS, params={"limit": 1}).json()
    following = client.get(WORKS, params={"limit": 50, "cursor": page["next"]}).json()
    assert (page["instant"], len(page["rows"]), len(following["rows"])) == (FORGOTTEN_AT, 1, 5)


def test_base_files_alone_are_read_again_until_a_planned_compaction_is_done(tmp_path):
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    silver, timeline = SilverFolder(tmp_path / "silver"), tmp_path / "silver" / "moma" / "works" / ".hoodie"
    newest, planned = silver_commits(silver)[-1], silver_commits(silver)[-1][:-1] + "0"
    (tmp_path / "all.sql").write_text("SELECT count(*) AS n FROM moma.works_ro")
    client = TestClient(api(silver, queries=saved_queries(tmp_path)))

    def tags():
        return [client.get(path).headers["ETag"] for path in ("/tables/moma.works_ro/rows", "/all", WORKS)]

    (timeline / f"{planned}.compaction.requested").touch()
    assert tags() == tags() == ['""', '""', f'"{newest}"']
    (timeline / f"{planned}.compaction.requested").unlink()
    assert tags() == [f'"{newest}"'] * 3


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"as_of": "20200101000000000"}, 410, "not_retained"),
        ({"as_of": "2999-01-01T00:00:00Z"}, 400, "invalid_moment"),
        ({"as_of": "2h"}, 400, "invalid_moment"),
        ({"as_of": "20261121080015045", "since": "2h"}, 400, "invalid_moment"),
        ({"cursor": "zz"}, 400, "invalid_cursor"), ({"cursor": "WzEsMiwzXQ"}, 400, "invalid_cursor"),
        ({"cursor": "WyJ4IiwiIiwiIl0"}, 400, "invalid_cursor"), ({"cursor": "é"}, 400, "invalid_cursor"),
        ({"cursor": "WyIyMDI2MDUwMTEwMTUwMDEyMyIsIlx1ZDgwMCIsIiJd"}, 400, "invalid_cursor"),
        ({"limit": 0}, 400, "invalid_request"), ({"wher": "id:eq:1"}, 400, "invalid_request"),
    ],
)  # fmt: skip
def test_an_invalid_request_says_what_is_wrong(client, query, status, code):
    assert problem(client.get(WORKS, params=query), status)["code"] == code


@pytest.mark.parametrize(
    "name", ["moma.nothing", "..crm.user", "moma.works%00", "..%2fcrm.user", "moma.'; drop table x"]
)
def test_an_unknown_table_is_not_found(client, name):
    assert problem(client.get(f"/tables/{name}/rows"), 404)["code"] in ("unknown_table", "unknown_path")


def test_every_code_of_the_server_is_on_the_page_of_errors(client, monkeypatch):
    client = TestClient(client.app, raise_server_exceptions=False)
    answers = [client.get("/"), client.post("/tables"), client.get(WORKS, params={"limit": "abc"})]
    monkeypatch.setattr(served, "tables_in", lambda place: 1 / 0)
    answers.append(client.get("/tables"))
    codes = [answer.json()["code"] for answer in answers]
    assert codes == ["unknown_path", "read_only", "invalid_request", "unexpected"]
    page = (Path(__file__).resolve().parents[3] / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in codes if f"`{code}`" not in page] == []


def test_nothing_can_be_written(client):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert problem(client.request(method, WORKS), 405)["code"] == "read_only"
    assert all(set(path) == {"get"} for path in client.get("/openapi.json").json()["paths"].values())


def test_the_description_names_every_path_and_the_page_is_left_out_when_asked(client):
    paths = {"/health", "/metrics", "/tables", "/tables/{table}", "/tables/{table}/rows", "/tables/{table}/row"}
    assert set(client.get("/openapi.json").json()["paths"]) == paths
    assert client.get("/docs").status_code == 200
    bare = TestClient(api(SilverFolder(SILVER_FOLDER), page=False))
    assert bare.get("/docs").status_code == 404 and bare.get("/openapi.json").status_code == 200


def test_a_request_under_another_hosts_name_gets_no_answer():
    local = TestClient(
        api(SilverFolder(SILVER_FOLDER), hosts=("127.0.0.1", "localhost")), base_url="http://evil.example"
    )
    assert local.get("/tables").status_code == 400


class Reads:
    """Counts the tables that are opened."""

    def __init__(self, monkeypatch):
        self.count = 0
        opened = served.open_table

        def counting(*given, **more):
            self.count += 1
            return opened(*given, **more)

        monkeypatch.setattr(served, "open_table", counting)


def test_an_answer_is_kept_until_the_next_commit_of_its_table(tmp_path, monkeypatch):
    shutil.copytree(SILVER_FOLDER / "moma" / "works", tmp_path / "moma" / "works")
    timeline = tmp_path / "moma" / "works" / ".hoodie"
    commits = sorted(path for path in timeline.iterdir() if path.name.endswith((".commit", ".deltacommit")))
    newest, earlier = commits[-1], commits[-2].name.partition(".")[0]
    hidden = newest.rename(tmp_path / newest.name)
    client, reads = TestClient(api(SilverFolder(tmp_path))), Reads(monkeypatch)

    first = client.get(WORKS)
    assert first.headers["etag"] == f'"{earlier}"' and "no-cache" in first.headers["cache-control"]
    assert client.get(WORKS).content == first.content and reads.count == 1
    unchanged = client.get(WORKS, headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'})
    assert (unchanged.status_code, unchanged.content, reads.count) == (304, b"", 1)

    hidden.rename(newest)
    changed = client.get(WORKS, headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200 and changed.headers["etag"] == f'"{newest.name.partition(".")[0]}"'
    assert changed.content != first.content and reads.count == 2


def test_kept_answers_take_no_more_memory_than_allowed():
    cache = AnswerCache(12, 10)
    for name, size in (("a", 4), ("b", 4)):
        cache.keep((name,), Answer("1", b"x" * size))
    assert cache.get(("a",), "1") is not None and cache.get(("a",), "2") is None
    cache.keep(("c",), Answer("1", b"x" * 4))
    cache.keep(("d",), Answer("1", b"x" * 12))
    assert [name for name in "abcd" if cache.get((name,), "1")] == ["a", "c"]


def limited(**page):
    limits = ServeLimits(max_rows=2, at_once=1, page=replace(PageLimits(seconds=5), **page))
    return TestClient(api(SilverFolder(SILVER_FOLDER), limits), raise_server_exceptions=False)


def test_a_page_has_at_most_the_rows_and_bytes_of_the_server():
    assert len(limited().get(WORKS, params={"limit": 1_000}).json()["rows"]) == 2
    page = limited(max_bytes=1).get(WORKS).json()
    assert [row["id"] for row in page["rows"]] == [1] and page["next"]


def test_a_request_that_takes_too_long_is_ended():
    assert problem(limited(seconds=0).get(WORKS), 504)["code"] == "took_too_long"


def test_a_server_at_work_says_so_instead_of_waiting_on(monkeypatch):
    client = limited(seconds=0.05)
    served_tables = client.app.routes[-1].endpoint.__self__
    with served_tables._one_of_few():
        busy = client.get(WORKS)
    assert problem(busy, 503)["code"] == "server_busy" and busy.headers["retry-after"]


def test_an_unexpected_error_shows_no_more_than_its_kind(monkeypatch):
    def broken(*given, **more):
        raise RuntimeError("secret")

    monkeypatch.setattr(served, "find_table", broken)
    wrong = problem(limited().get(WORKS), 500)
    assert (wrong["code"], wrong["detail"]) == ("unexpected", "Unexpected: RuntimeError")
    assert "secret" not in json.dumps(wrong)


@pytest.mark.parametrize("key", ["", "a:b,c", "\x00\x1f", "Côte ☃"])
def test_a_cursor_reads_back(key):
    cursor = Cursor("20260501101500123", key, "p=1")
    assert Cursor.of(cursor.text) == cursor
