package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

// OrderPlaced is the event of the examples.
type OrderPlaced struct {
	ID int `json:"id"`
}

// declared returns what most examples declare.
func declared() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(context.Context, OrderPlaced) error { return nil }, waybill.Options{})
	return reg
}

type (
	inShop    func(ctx context.Context, pool *pgxpool.Pool, schema string) error
	inShopSQL func(ctx context.Context, db *sql.DB, schema string) error
)

// shop runs an example on a pool of pgx. The schema is the example's own, and has what an
// application has there already: its own tables, and those of Waybill. An error is an
// output that nobody expects.
func shop(example inShop) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address, err := server()
	if err == nil {
		err = inSchema(ctx, address, "example_"+strings.ToLower(rand.Text()), example)
	}
	if err != nil {
		fmt.Println("error:", err)
	}
}

// shopSQL is shop over database/sql.
func shopSQL(example inShopSQL) {
	shop(overSQL(example))
}

func overSQL(example inShopSQL) inShop {
	return func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		db, err := sql.Open("pgx", pool.Config().ConnString())
		if err != nil {
			return err
		}
		return errors.Join(example(ctx, db, schema), db.Close())
	}
}

// ownDatabase is shop in a database of the example's own, where the schema is "waybill":
// for Open and OpenDB, which ask for no other. It takes the server ten times as long.
func ownDatabase(example inShop) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := inDatabase(ctx, example); err != nil {
		fmt.Println("error:", err)
	}
}

func inDatabase(ctx context.Context, example inShop) error {
	address, err := server()
	if err != nil {
		return err
	}
	admin, err := pgx.Connect(ctx, address.String())
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	name := "waybill_test_" + strconv.FormatInt(time.Now().Unix(), 36) + "_" + strings.ToLower(rand.Text()) // as those of package services
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	address.Path = "/" + name
	err = inSchema(ctx, address, postgres.DefaultSchema, example)
	_, dropErr := admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	return errors.Join(err, dropErr)
}

func server() (*url.URL, error) {
	address, err := url.Parse(os.Getenv("WAYBILL_TEST_POSTGRES"))
	if err != nil || address.Host == "" {
		return nil, errors.New(`WAYBILL_TEST_POSTGRES is not the URL of a server: run eval "$(make -s services)" first`)
	}
	return address, nil
}

func inSchema(ctx context.Context, address *url.URL, schema string, example inShop) error {
	query := address.Query()
	query.Set("search_path", schema)
	address.RawQuery = query.Encode()
	pool, err := pgxpool.New(ctx, address.String())
	if err != nil {
		return err
	}
	defer pool.Close()
	if err = setUp(ctx, pool, schema); err == nil {
		err = example(ctx, pool, schema)
	}
	_, dropErr := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+", "+schema+"_billing CASCADE")
	return errors.Join(err, dropErr)
}

// setUp does what `bridge migrate` and the application's own migrations do.
func setUp(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, migrator.SQL()+`;
		CREATE TABLE orders (id integer PRIMARY KEY);
		CREATE TABLE stock (items integer); INSERT INTO stock VALUES (10);
		CREATE TABLE subscriber (url text PRIMARY KEY)`)
	return err
}

// deliver hands off what is due, and runs a worker until that many receivers have run.
func deliver(ctx context.Context, store waybill.Store, runs int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	counted := func(next worker.RunFunc) worker.RunFunc {
		return func(ctx context.Context, d *waybill.Delivery) error {
			if runs--; runs == 0 {
				defer stop() // the worker lets the run finish, and records its outcome
			}
			return next(ctx, d)
		}
	}
	quiet := slog.New(slog.DiscardHandler)
	queue, err := local.New(local.Config{})
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Store: store, Backend: queue, Slots: 1, Middleware: []worker.Middleware{counted}, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := r.Once(ctx, 0); err != nil {
		return err
	}
	return w.Run(ctx)
}
