"""What a local session carries of Hadoop's configuration, and what it keeps."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.connection.embedded import CLUSTERS, drop_cluster_defaults

pytestmark = pytest.mark.embedded("the configuration of the Spark in this process")


def carried(spark):
    """Of a statement's own configuration, the settings of clusters."""
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    return {prefix + name for prefix in CLUSTERS for name in hadoop.getPropsWithPrefix(prefix)}


def test_no_statement_carries_the_defaults_of_a_cluster(spark):
    spark.sql("select count(*) from range(3)").collect()  # after jobs as before them
    assert carried(spark) == {  # what Spark and we set otherwise than Hadoop ships it
        "mapreduce.fileoutputcommitter.algorithm.version",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs",
    }


def test_a_user_s_settings_and_all_other_defaults_stay(spark):
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    chosen = {"yarn.resourcemanager.hostname": "far", "mapreduce.task.timeout": "7", "yarn.unknown.name": "x"}
    others = hadoop.getPropsWithPrefix("fs.").size()
    for name, value in chosen.items():
        hadoop.set(name, value)
    try:
        drop_cluster_defaults(spark)
        assert {name: hadoop.get(name) for name in chosen} == chosen
        assert chosen.keys() <= carried(spark)
        assert hadoop.getPropsWithPrefix("fs.").size() == others > 100
    finally:
        for name in chosen:
            hadoop.unset(name)
