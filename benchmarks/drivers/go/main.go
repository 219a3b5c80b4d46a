// River under the contract of benchmarks/drivers/contract.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type Settings struct {
	Concurrency   int `json:"concurrency"`
	FetchCooldown int `json:"fetch_cooldown"`
	PollInterval  int `json:"poll_interval"`
}

type Order struct {
	Count int     `json:"count"`
	Size  int     `json:"size"`
	Rate  float64 `json:"rate"`
	Ms    int     `json:"ms"`
}

type BenchArgs struct {
	N  int     `json:"n"`
	T  float64 `json:"t,omitempty"`
	Ms int     `json:"ms,omitempty"`
}

func (BenchArgs) Kind() string { return "bench" }

type BenchWorker struct {
	river.WorkerDefaults[BenchArgs]
}

var (
	guard  sync.Mutex
	delays = []float64{}
)

func (*BenchWorker) Work(_ context.Context, job *river.Job[BenchArgs]) error {
	if job.Args.T > 0 {
		delay := now() - job.Args.T
		guard.Lock()
		delays = append(delays, delay)
		guard.Unlock()
	}
	if job.Args.Ms > 0 {
		time.Sleep(time.Duration(job.Args.Ms) * time.Millisecond)
	}
	return nil
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e6 }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func say(value map[string]any) { fmt.Println(string(must(json.Marshal(value)))) }

func prepare(ctx context.Context, pool *pgxpool.Pool) {
	migrator := must(rivermigrate.New(riverpgxv5.New(pool), nil))
	must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
}

func work(ctx context.Context, pool *pgxpool.Pool, settings Settings, lines *bufio.Scanner) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &BenchWorker{})
	config := &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: settings.Concurrency}},
		Workers:           workers,
		FetchCooldown:     time.Duration(settings.FetchCooldown) * time.Millisecond,
		FetchPollInterval: time.Duration(settings.PollInterval) * time.Millisecond,
	}
	say(map[string]any{"ready": true})
	if !lines.Scan() {
		return
	}
	client := must(river.NewClient(riverpgxv5.New(pool), config))
	if err := client.Start(ctx); err != nil {
		panic(err)
	}
	for lines.Scan() {
		guard.Lock()
		say(map[string]any{"delays": delays})
		delays = []float64{}
		guard.Unlock()
	}
}

func add(ctx context.Context, pool *pgxpool.Pool, lines *bufio.Scanner) {
	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{}))
	say(map[string]any{"ready": true})
	for lines.Scan() {
		var order Order
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			panic(err)
		}
		start := time.Now()
		addAsOrdered(ctx, client, order, start)
		say(map[string]any{"seconds": time.Since(start).Seconds()})
	}
}

func addAsOrdered(ctx context.Context, client *river.Client[pgx.Tx], order Order, start time.Time) {
	if order.Size == 0 {
		for n := range order.Count {
			args := BenchArgs{N: n, Ms: order.Ms}
			if order.Rate > 0 {
				time.Sleep(time.Until(start.Add(time.Duration(float64(n) / order.Rate * 1e9))))
				args.T = now()
			}
			must(client.Insert(ctx, args, nil))
		}
		return
	}
	for first := 0; first < order.Count; first += order.Size {
		params := []river.InsertManyParams{}
		for n := first; n < min(first+order.Size, order.Count); n++ {
			params = append(params, river.InsertManyParams{Args: BenchArgs{N: n}})
		}
		must(client.InsertManyFast(ctx, params))
	}
}

func main() {
	var settings Settings
	if err := json.Unmarshal([]byte(os.Args[2]), &settings); err != nil {
		panic(err)
	}
	ctx := context.Background()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	lines := bufio.NewScanner(os.Stdin)
	switch os.Args[1] {
	case "prepare":
		prepare(ctx, pool)
	case "work":
		work(ctx, pool, settings, lines)
	case "add":
		add(ctx, pool, lines)
	default:
		panic("unknown role " + os.Args[1])
	}
}
