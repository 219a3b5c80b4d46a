left join :schema._private_tasks as task on task.id = job.task_id
left join :schema._private_job_queues as queue on queue.id = job.job_queue_id
