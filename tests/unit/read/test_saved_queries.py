"""Saved queries, the token, metrics and health of the HTTP API, over tables as Spark and Hudi wrote them."""

import shutil

import pytest
from fastapi.testclient import TestClient
from support.silver_tables import SILVER_FOLDER, SilverFolder

from sluice.errors import UsageError
from sluice_read.place import TableFolder
from sluice_read.serve import queries as saved
from sluice_read.serve.api import ServeLimits, api
from sluice_read.serve.queries import saved_queries

JOINED = "moma.works w JOIN moma.artists a USING (id)"
BY_ARTIST = f"SELECT w.id, w.name, a.name AS artist FROM {JOINED} WHERE w.id >= $least ORDER BY 1"
FILES = {
    "works_by_artist": BY_ARTIST,
    "named": "SELECT id FROM moma.works WHERE name = $name OR nationality = $name ORDER BY id",
    "both": "SELECT $second AS b, $first AS a, count(*) AS n FROM moma.works WHERE id > $first",
    "names": f"SELECT w.name, a.name FROM {JOINED} WHERE w.id = 6",
    "paid": "SELECT id FROM moma.artists WHERE fee = $fee",
    "born": "SELECT id FROM moma.artists WHERE name = $day OR born >= $day ORDER BY id",
    "all_works": "SELECT count(*) AS n FROM moma.works",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    for name, sql in FILES.items():
        (folder / f"{name}.sql").write_text(sql)
    return folder


@pytest.fixture(scope="module")
def client(folder):
    return TestClient(api(SilverFolder(SILVER_FOLDER), queries=saved_queries(folder)))


def rows(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


@pytest.mark.parametrize("path", ["/worksbyartist/6", "/works_by_artist/6", "/worksbyartist?least=6"])
def test_a_path_gives_the_parameters_of_a_join(client, path):
    answer = client.get(path)
    assert [row["id"] for row in rows(answer)] == [6] and rows(answer)[0]["artist"]
    content = answer.json()
    assert (content["query"], set(content["instants"])) == ("works_by_artist", {"moma.works", "moma.artists"})
    assert not content["more"] and answer.headers["ETag"] == f'"{"-".join(content["instants"].values())}"'
    assert client.get(path, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_parameters_come_in_the_order_of_the_statement(client):
    assert rows(client.get("/both/x/5")) == rows(client.get("/both?first=5&second=x")) == [{"b": "x", "a": "5", "n": 2}]
    assert rows(client.get("/allworks"))[0]["n"] == 6


def test_columns_of_one_name_are_all_in_the_answer(client):
    (row,) = rows(client.get("/names"))
    assert list(row) == ["name", "name_1"] and row["name"] == "six c" != row["name_1"]


@pytest.mark.parametrize("value", ["x' OR true --", "'; DROP TABLE moma.works", "$least", 'six c" OR 1=1'])
def test_a_value_is_bound_and_is_never_part_of_the_statement(client, value):
    assert rows(client.get("/named", params={"name": value})) == []
    assert rows(client.get("/named", params={"name": "six c"})) == [{"id": 6}]


@pytest.mark.parametrize(
    "path",
    [
        "/worksbyartist/six",
        "/worksbyartist",
        "/worksbyartist?least=1&more=2",
        "/worksbyartist/1?least=1",
        "/allworks?x=1",
        "/worksbyartist/5.6",
        "/worksbyartist/56e-1",
        "/paid/17.504",
        "/born/1900-01-01T12:00",
    ],
)
def test_a_value_of_another_form_or_number_is_refused(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("path", ["/paid/15.500", "/paid/155e-1", "/worksbyartist/3.0", "/born/1903-01-02T00:00:00Z"])
def test_a_value_in_another_form_of_its_type_finds_its_rows(client, path):
    assert rows(client.get(path))[0]["id"] == 3
    assert rows(client.get("/paid/15.4")) == rows(client.get("/named?name=5.5")) == []


def test_an_answer_is_kept_until_one_of_its_tables_has_a_commit(folder, tmp_path, monkeypatch):
    silver = tmp_path / "silver"
    shutil.copytree(SILVER_FOLDER, silver)
    client, runs = TestClient(api(SilverFolder(silver), queries=saved_queries(folder))), []
    whole = saved.run_query
    monkeypatch.setattr(saved, "run_query", lambda *given, **more: runs.append(1) or whole(*given, **more))
    before = client.get("/worksbyartist/6")
    assert client.get("/worksbyartist/6").content == before.content and len(runs) == 1
    assert client.get("/works_by_artist/6").content == before.content and len(runs) == 1
    client.get("/worksbyartist/7")
    assert len(runs) == 2
    timeline = silver / "moma" / "artists" / ".hoodie"
    newest = max(path.name[:17] for path in timeline.rglob("*.commit") if path.name[:17].isdigit())
    (instant,) = [path for path in timeline.rglob(f"{newest}*.commit")]
    later = instant.with_name(instant.name.replace(newest, str(int(newest) + 1), 1))
    shutil.copy(instant, later)
    after = client.get("/worksbyartist/6")
    assert len(runs) == 3 and after.headers["ETag"] != before.headers["ETag"]


def test_within_the_freshness_an_answer_costs_no_look_at_the_tables(folder, monkeypatch):
    client = TestClient(api(SilverFolder(SILVER_FOLDER), ServeLimits(fresh_s=3600), queries=saved_queries(folder)))
    first = client.get("/worksbyartist/6")

    def looked(self):
        raise AssertionError("looked at a table")

    monkeypatch.setattr(TableFolder, "timeline", looked)
    monkeypatch.setattr(TableFolder, "exists", looked)
    assert client.get("/worksbyartist/6").content == first.content


def test_the_description_has_each_query_and_its_parameters(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/worksbyartist/{least}", "/named/{name}", "/both/{second}/{first}", "/allworks"} <= set(paths)
    described = paths["/both/{second}/{first}"]["get"]
    in_path = [one["name"] for one in described["parameters"] if one["in"] == "path"]
    assert in_path == ["second", "first"] and "moma.works" in described["description"]
    assert "/works_by_artist/{least}" not in paths


@pytest.mark.parametrize(
    ("name", "sql", "said"),
    [
        ("x", "DELETE FROM moma.works", "not a SELECT"),
        ("x", "SELECT 1; SELECT 2", "2 statements"),
        ("x", "SELECT ?", "has no name"),
        ("x", "SELEC 1", "x.sql"),
        ("tables", "SELECT 1", "taken"),
        ("health_", "SELECT 1", "taken"),
        ("all-works", "SELECT 1", "/allworks is taken: all-works.sql has it"),
        ("Bad name", "SELECT 1", "a-z"),
    ],
)
def test_a_file_that_is_no_query_is_refused_by_name(folder, tmp_path, name, sql, said):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / f"{name}.sql").write_text(sql)
    with pytest.raises(UsageError) as refused:
        saved_queries(tmp_path)
    assert said in str(refused.value)


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("given", [None, "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer é"])
def test_without_the_token_nothing_but_health_is_answered(folder, given):
    client = TestClient(api(SilverFolder(SILVER_FOLDER), queries=saved_queries(folder), token=TOKEN))
    headers = {} if given is None else {"Authorization": given.encode()}
    for path in ("/tables", "/allworks", "/metrics", "/openapi.json", "/docs", "/nothing"):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "no_token"), path
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert client.get("/health").json() == {"status": "ok"}
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    assert rows(client.get("/allworks", headers=allowed))
    document = client.get("/openapi.json", headers=allowed).json()
    assert document["security"] == [{"token": []}] and document["paths"]["/health"]["get"]["security"] == []


def test_metrics_count_requests_by_path_and_answers_by_source(folder):
    client = TestClient(api(SilverFolder(SILVER_FOLDER), queries=saved_queries(folder)))
    for path in ("/allworks", "/allworks", "/worksbyartist/x", "/no/such/path", "/tables/moma.artists"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    for line in (
        'sluice_serve_requests_total{path="/allworks",status="200"} 2',
        'sluice_serve_requests_total{path="/worksbyartist/{least}",status="400"} 1',
        'sluice_serve_requests_total{path="unknown",status="404"} 1',
        'sluice_serve_request_seconds_count{path="/allworks"} 2',
        'sluice_serve_request_seconds_bucket{path="/allworks",le="+Inf"} 2',
        'sluice_serve_answers_total{source="memory"} 1',
        'sluice_serve_answers_total{source="read"} 2',
        "# TYPE sluice_serve_request_seconds histogram",
    ):
        assert line in lines
    assert any(line.startswith('sluice_serve_table_newest_seconds{table="moma.works"} 1') for line in lines)
