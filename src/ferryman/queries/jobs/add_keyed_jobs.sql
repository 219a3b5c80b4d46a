-- Add jobs that have keys, each key once, through the schema's own add_jobs.
--
-- :specs             a JSON array of job_spec records. One without a payload has JSON's null, which would be read as no payload
-- :delays            an array literal: for each job the seconds after now when it is due; null if no job has a delay
-- :preserve_run_at   whether waiting jobs that were never attempted keep their run_at
--
-- Locks: the rows that have these keys. Where add_jobs has its original body, a key whose job was claimed at the wrong moment
-- may be missing from the result; the caller asks again for those.
select
    -- include: parts/job_columns
from
    :schema.add_jobs(
        array(
            select cast(
                row(
                    spec.identifier, spec.payload, spec.queue_name,
                    coalesce(
                        spec.run_at,
                        pg_catalog.now() operator(pg_catalog.+) pg_catalog.make_interval(secs => spec.delay)
                    ),
                    spec.max_attempts, spec.job_key, spec.priority, spec.flags
                ) as :schema.job_spec
            )
            from
                rows from (
                    pg_catalog.json_populate_recordset(
                        cast(row(null, 'null', null, null, null, null, null, null) as :schema.job_spec),
                        cast(cast(:specs as pg_catalog.text) as pg_catalog.json)
                    ),
                    pg_catalog.unnest(cast(cast(:delays as pg_catalog.text) as pg_catalog.float8[]))
                ) as spec (
                    identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, delay
                )
        ),
        cast(:preserve_run_at as boolean)
    ) as job
    -- include: parts/job_names
;
