"""Ways to connect to Spark. `factory` has one line for each of our own. That of method session is
to the embedded Spark, or to a warm session.

```
 factory                 methods and how each connects; EMBEDDED, this process's Spark
 servers                 what connections to servers have in common
 frames                  dbt's connection to a PySpark session of any kind; its errors in words
 cursor, connect, thrift to the embedded Spark; to a Spark Connect server; to a Thrift server
 embedded                the session: EmbeddedSpark, which owns all of its state and its directory
 warm_sessions           the warm sessions of a project: found, started, stopped, and who uses them
 warm                    dbt's connection to one
 warm_server             the process of one, with the embedded Spark in it
 settings                what Spark is started with, also for formats of tables
 jvm                     Spark's process, and the files by which settings reach it
 java                    the Java it needs, and an archive of its classes for a quick start
 class_archive_maker     makes that archive, in a process of its own
 metastore               the embedded metastore and which process may use it
 job_progress            what users read of slow work and of the log
```
"""
