-- Add jobs that have keys, each key once, through the schema's own add_jobs.
--
-- :specs  a JSON array of job_spec records. One without a payload has JSON's null, which would be read as no payload
-- :preserve_run_at  whether waiting jobs that were never attempted keep their run_at
--
-- Locks: the rows that have these keys. A key whose job was claimed at the wrong moment may be missing from the result
-- where add_jobs has its original body; the caller asks again for those.
select
    -- include: job_columns
from
    :schema.add_jobs(
        array(
            select json_populate_recordset(
                cast(row(null, 'null', null, null, null, null, null, null) as :schema.job_spec),
                cast(cast(:specs as text) as json)
            )
        ),
        cast(:preserve_run_at as boolean)
    ) as job
    -- include: job_names
;
