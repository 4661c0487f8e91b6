"""The files from which Spark's Java takes its settings: who reads them, and when they are gone."""

from __future__ import annotations

import os
import stat

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.jvm import java_options, launch_files, properties, quoted

SECRET = "hunter22"
SETTINGS = {
    "spark.sql.catalog.prod.credential": SECRET,
    "spark.driver.defaultJavaOptions": "-Da=1",
    "spark.driver.extraJavaOptions": f"-Dpassword={SECRET} '-Db=x y' \"-Dc=z\" -Xmx1g",
}


def test_row_j_only_this_user_can_read_them_and_afterwards_they_are_gone(tmp_path):
    with launch_files(tmp_path, SETTINGS) as files:
        for path in (files.properties, files.options):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert f"spark.sql.catalog.prod.credential={SECRET}\n" in files.properties.read_text()
        assert files.options.read_text().splitlines() == [
            '"-Da=1"',
            f'"-Dpassword={SECRET}"',
            '"-Db=x y"',
            '"-Dc=z"',
        ]
        assert SECRET not in files.arguments("pyspark-shell") and "-Xmx1g" in files.properties.read_text()
        assert f"-Dpassword={SECRET}" not in files.properties.read_text()
    assert os.listdir(tmp_path) == []


def test_row_j_a_failed_start_leaves_nothing(tmp_path):
    with pytest.raises(OSError), launch_files(tmp_path, SETTINGS):
        raise OSError
    assert os.listdir(tmp_path) == []


def test_row_j_the_files_of_a_killed_process_go_with_the_next_start(tmp_path):
    ended = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(ended, 0)
    mine = f"java-{os.getppid()}.options"
    for name in (f"java-{ended}.properties", f"java-{ended}.options", mine, "java-other"):
        (tmp_path / name).write_text(SECRET)
    with launch_files(tmp_path, {}):
        pass
    assert sorted(os.listdir(tmp_path)) == sorted([mine, "java-other"])


def test_row_j_a_file_that_another_user_put_there_is_not_written_to(tmp_path):
    other = tmp_path / "elsewhere"
    (tmp_path / f"java-{os.getpid()}.properties").symlink_to(other)
    with launch_files(tmp_path, SETTINGS):
        assert not other.exists()


@pytest.mark.parametrize(
    ("own", "arguments"),
    [
        ("pyspark-shell", "--properties-file {} --load-spark-defaults pyspark-shell"),
        (
            "--jars 'a b' pyspark-shell",
            "--properties-file {} --load-spark-defaults --jars 'a b' pyspark-shell",
        ),
        ("--jars a --properties-file {own} x", "--jars a --properties-file {} x"),
        ("--properties-file={own} x", "--properties-file {} x"),
    ],
)
def test_row_j_the_user_s_own_arguments_stay(tmp_path, own, arguments):
    (tmp_path / "own").write_text("spark.own=1")
    own = own.format("", own=tmp_path / "own")
    with launch_files(tmp_path, {"spark.x": "2"}, own) as files:
        assert files.arguments(own) == arguments.format(files.properties)
        assert ("spark.own=1" in files.properties.read_text()) == ("properties" in own)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", "a\\u0020b"),
        ("C:\\x", "C\\u003a\\u005cx"),
        ("a\nb", "a\\u000ab"),
        ("ü", "\\u00fc"),
        ("😀", "\\ud83d\\ude00"),
        ("#!", "\\u0023\\u0021"),
        ("", ""),
    ],
)
def test_row_j_a_property_is_written_as_java_reads_it(value, written):
    assert properties({"k": value}) == f"k={written}\n"


def test_row_j_an_option_with_quotes_and_backslashes_is_one_option():
    assert quoted('-Da="b\\c"') == '"-Da=\\"b\\\\c\\""'


def test_row_j_options_that_no_quote_ends_are_named():
    with pytest.raises(DbtRuntimeError, match="spark.driver.extraJavaOptions: No closing quotation"):
        java_options({"spark.driver.extraJavaOptions": "-Da='x"})
