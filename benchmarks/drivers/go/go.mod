module driver

go 1.25

require (
	github.com/jackc/pgx/v5 v5.11.0
	github.com/riverqueue/river v0.50.0
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.50.0
)
