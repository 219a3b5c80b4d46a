-- Return the numbers of these tasks, and give one to each that has none. Tasks are inserted in the order of their names, so
-- that two workers that start together never wait for each other in a circle.
--
-- :identifiers   the tasks
--
-- Locks: no row that exists already. A task that another worker adds at the same moment is missing from the result.
with known as (
    select task.id, task.identifier
    from :schema._private_tasks as task
    where task.identifier = any (cast(:identifiers as text[]))
),
added as (
    insert into :schema._private_tasks (identifier)
    select wanted.identifier
    from unnest(cast(:identifiers as text[])) as wanted (identifier)
    where wanted.identifier not in (select known.identifier from known)
    order by wanted.identifier
    on conflict (identifier) do nothing
    returning id, identifier
)
select id, identifier from known
union all
select id, identifier from added;
