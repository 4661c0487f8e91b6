"""Ways to connect to Spark. `factory` has one line for each of our own; the embedded Spark is one.

```
 factory                 methods and how each connects; EMBEDDED, this process's Spark
 servers                 what connections to servers have in common
 frames                  dbt's connection to a PySpark session of any kind
 cursor, connect, thrift to the embedded Spark; to a Spark Connect server; to a Thrift server
 embedded                the session: EmbeddedSpark, which owns all of its state
 settings, formats, jars what Spark is started with, and the download of jars
 profile_settings        what a profile sets on the running session
 jvm, java, hadoop, home Spark's process, the Java it needs, its configuration, its directory
 class_archive, class_archive_maker  an archive of Java's classes, for a quick start
 metastore, metastore_lock  the embedded metastore and which process may use it
 progress, log_forwarding, error_text  what users read
```
"""
