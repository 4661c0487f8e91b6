"""What a local session carries of Hadoop's configuration.

Spark sends the whole of it along with every scan and every look at a table of files: 1,079
settings, of which 715 are the defaults of YARN and MapReduce, which nothing in a local session
reads. Without them a small statement over files takes a seventh less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# in this order: values of the former name settings of the latter
CLUSTERS = ("mapreduce.", "yarn.")
DEFAULTS = ("core-default.xml", "mapred-default.xml", "yarn-default.xml")


def drop_cluster_defaults(started: SparkSession) -> None:
    """Settings of a cluster go, as long as they are what Hadoop ships: what anybody chose otherwise
    stays.

    Hadoop's code knows the same defaults by itself; should it load its files again they are back,
    and nothing else has changed.
    """
    context: Any = started.sparkContext
    java = context._jvm
    # with the first job at the latest: not after this
    java.org.apache.hadoop.mapreduce.util.ConfigUtil.loadResources()
    shipped = java.org.apache.hadoop.conf.Configuration(False)
    for file in DEFAULTS:
        shipped.addResource(file)
    held = context._jsc.hadoopConfiguration()
    for prefix in CLUSTERS:
        same = held.getPropsWithPrefix(prefix)
        same.entrySet().retainAll(shipped.getPropsWithPrefix(prefix).entrySet())
        names = java.java.lang.String.join(",", same.keySet())  # one call, not one for each
        for name in filter(None, names.split(",")):
            held.unset(prefix + name)
