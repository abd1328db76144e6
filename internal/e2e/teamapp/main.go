// Command teamapp is a program of the kind that a team builds over Waybill: all of
// the commands, over receivers of its own. Each run of a receiver leaves a line in
// a table that nobody else writes, so that a test can count runs without asking
// what it tests. Its command load fires at a steady rate.
//
//	teamapp relay --all-lanes
//	teamapp worker --slots 20
//	teamapp load --rate 25 --for 10m --ahead 1000
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// app is one process of the program.
type app struct {
	pool     *pgxpool.Pool // of the team's own tables
	registry *waybill.Registry
}

func main() { os.Exit(run()) }

func run() int {
	lease, err := time.ParseDuration(os.Getenv("TEAMAPP_LEASE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "teamapp: TEAMAPP_LEASE:", err)
		return 1
	}
	// It connects when it is first used. It is not closed: the process ends.
	pool, err := pgxpool.New(context.Background(), os.Getenv("WAYBILL_STORE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "teamapp: WAYBILL_STORE:", err)
		return 1
	}
	a := &app{pool: pool}
	a.registry = a.receivers(lease)
	root := cli.Program(a.registry)
	root.Use = "teamapp"
	root.AddCommand(a.loadCommand())
	return cli.Run(root)
}
