-- needs: nothing
-- gives: a query
-- The identifiers of tasks that Ferryman workers have registered. Other workers may write anything into their metadata.
select task.identifier
from
    :schema._private_workers as worker
    cross join lateral jsonb_array_elements_text(
        case jsonb_typeof(worker.metadata -> 'tasks') when 'array' then worker.metadata -> 'tasks' else '[]' end
    ) as task (identifier)
where worker.id like 'ferryman-%'
