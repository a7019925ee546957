-- open_archive: see to it that the archive takes what is written into it this week and the next.
-- params: now timestamptz
-- returns: opened integer
-- concurrency: whoever opens it at the same time is waited for; partitions are attached, which lets others read.
-- locks: the archive, against changes of its partitions, where one is missing.
SELECT /*schema.*/open_archive(/*moment*/statement_timestamp()) AS opened;
