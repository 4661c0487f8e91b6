"""A project over a Thrift server over HTTPS, as dbt-spark's method `http` asks it."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path

import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import responses
from tests.support.spark_servers import thrift_server

PASSWORD, TOKEN = "of-the-keys", "hunter2"
MODEL = (
    "{{{{ config(materialized='self_correcting_mv') }}}} select id, date'2026-01-01' as day from range({})"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The server's keys, and its certificate as clients read it."""
    place = tmp_path_factory.mktemp("certificate")
    keys, certificate = place / "keys.p12", place / "certificate.pem"
    store = ["-alias", "server", "-keystore", str(keys), "-storepass", PASSWORD]
    pair = ["-keyalg", "RSA", "-storetype", "PKCS12", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
    subprocess.run(["keytool", "-genkeypair", *pair, *store], check=True)
    subprocess.run(["keytool", "-exportcert", "-rfc", "-file", str(certificate), *store], check=True)
    return keys, certificate


@pytest.fixture(scope="module")
def server(tmp_path_factory, certificate):
    """It is trusted until a test says otherwise."""
    http = {
        "hive.server2.thrift.http.path": "sql/protocolv1/o/0/local",
        "hive.server2.use.SSL": "true",
        "hive.server2.keystore.path": str(certificate[0]),
        "hive.server2.keystore.password": PASSWORD,
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        thrift_server(tmp_path_factory.mktemp("http") / "server", http=http) as running,
    ):
        patch.setenv("SSL_CERT_FILE", str(certificate[1]))
        yield running


@pytest.fixture(scope="module")
def dbt_profile_target(server, tmp_path_factory):
    place = {"method": "http", "host": "127.0.0.1", "port": server.port, "token": TOKEN}
    place |= {"organization": "0", "cluster": "local"}
    return {"type": "mvsink", **place, "threads": 1, "shard_root": str(tmp_path_factory.mktemp("shards"))}


class TestOverHttp:
    @pytest.fixture(scope="class")
    def models(self):
        return {"mv.sql": MODEL.format(5)}

    def test_a_view(self, project):
        run_dbt(["run"])
        write_file(MODEL.format(3), project.project_root, "models", "mv.sql")
        run_dbt(["run"])
        changed = responses(project)["mv"]
        assert (changed["rows_inserted"], changed["rows_deleted"]) == (0, 2)
        rows = project.run_sql(f"select id from {project.test_schema}.mv order by id", fetch="all")
        assert [row[0] for row in rows] == [0, 1, 2]

    @pytest.mark.parametrize(("key", "value"), [("cluster", "another"), ("organization", "7")])
    def test_a_path_that_the_server_does_not_have(self, project, profiles_root, server, key, value):
        path = Path(profiles_root, "profiles.yml")
        right = yaml.safe_load(path.read_text())
        wrong = copy.deepcopy(right)
        [target] = wrong["test"]["outputs"].values()
        target[key] = value
        path.write_text(yaml.safe_dump(wrong))
        try:
            _, out = run_dbt_and_capture(["debug"], expect_pass=False)
        finally:
            path.write_text(yaml.safe_dump(right))
        message = f"no connection to the Thrift server 127.0.0.1:{server.port}: the answer is not that of a Thrift server"
        assert message in out, out
        assert "`organization` and `cluster`" in out and TOKEN not in out and "Traceback" not in out

    def test_a_certificate_that_is_not_trusted(self, project, server, monkeypatch):
        monkeypatch.delenv("SSL_CERT_FILE")
        _, out = run_dbt_and_capture(["debug"], expect_pass=False)
        assert f"no connection to the Thrift server 127.0.0.1:{server.port}" in out
        assert "CERTIFICATE_VERIFY_FAILED" in out and TOKEN not in out
