package wire

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

type sqliteStore struct{ *sqlite.Store }

func openSQLite(config StoreConfig) (Store, error) {
	path, err := sqlitePath(config.URL)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: config.Registry, Logger: config.Logger})
	if err != nil {
		return nil, err
	}
	return &sqliteStore{store}, nil
}

// sqlitePath reads sqlite:PATH, and sqlite:///PATH for an absolute one.
func sqlitePath(rawURL string) (string, error) {
	_, path, _ := strings.Cut(rawURL, ":")
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "":
		return "", errors.New("the URL names no file: want sqlite:waybill.db or sqlite:/var/lib/waybill.db")
	case path == sqlite.Memory:
		return "", errors.New("a database in memory would be gone with this command: want a file, such as sqlite:waybill.db")
	case strings.Contains(path, "?"):
		return "", errors.New("a sqlite: URL has no options: leave out what follows the question mark")
	}
	return path, nil
}

func (s *sqliteStore) Migrator() (waybill.Migrator, error) { return s.Store.Migrator(), nil }

// Close loses nothing when it fails: what was committed is in the file or its log.
func (s *sqliteStore) Close() { _ = s.Store.Close() }

func (s *sqliteStore) FireAll(ctx context.Context, chunks func(fire Fire) error) error {
	return s.InTx(ctx, func(tx *sql.Tx) error {
		return chunks(func(ctx context.Context, events []Event) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
			defer cancel()
			n, err := countDeliveries(ctx, s.Registry(), tx, events)
			if err != nil {
				return 0, err
			}
			_, err = s.Store.FireAll(ctx, tx, asAny(events))
			return n, err
		})
	})
}

// Reach has nothing to ask: the file need not be there before it is migrated.
func (s *sqliteStore) Reach(context.Context) error { return nil }

// CheckListen has nothing to ask: no server is in between.
func (s *sqliteStore) CheckListen(context.Context) error { return nil }

// checkFolder says of the file's folder what SQLite would word as "out of memory".
func checkFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no folder %s: create it, or correct the path of the sqlite: URL", folder)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: correct the path of the sqlite: URL", folder)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file in it, such as sqlite:%s", path, filepath.Join(path, "waybill.db"))
	}
	return nil
}
