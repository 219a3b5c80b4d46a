-- Queues that are locked although their holder has no job in them; see parts/wedged.sql for the parameters.
--
-- Columns: queue, holder, fate, seconds since it was locked, a statement that frees it as long as nothing has changed, and
-- how many there are with the same fate. Reads all locked queues and jobs. Locks nothing.
with
-- include: parts/wedged
select
    found.queue_name,
    found.locked_by,
    found.fate,
    found.seconds,
    found.statement,
    found.number
from (
    select
        wedged.queue_name,
        wedged.locked_by,
        wedged.fate,
        cast(extract(epoch from now() - wedged.locked_at) as float8) as seconds,
        format(
            'update %I._private_job_queues set locked_by = null, locked_at = null'
            ' where id = %s and locked_by = %L and locked_at = %L;',
            cast(:name as text), wedged.id, wedged.locked_by, wedged.locked_at
        ) as statement,
        count(*) over (partition by wedged.fate) as number,
        row_number() over (partition by wedged.fate order by wedged.locked_at, wedged.id) as place
    from wedged
) as found
where found.place <= 10
order by found.fate, found.place;
