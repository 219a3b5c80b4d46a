-- needs: row job
-- gives: row task, row queue
-- The task and the queue of a job, or nulls.
left join :schema._private_tasks as task on task.id operator(pg_catalog.=) job.task_id
left join :schema._private_job_queues as queue on queue.id operator(pg_catalog.=) job.job_queue_id
