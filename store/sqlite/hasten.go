package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

const hastenSQL = `
UPDATE delivery SET available_at = ?1
 WHERE CASE WHEN ?2 IS NULL THEN attempts > 0 ELSE id IN (SELECT value FROM json_each(?2)) END AND status = 'failed' AND available_at > ?1`

// Hasten has failed rows not wait out their backoffs.
func (s *Store) Hasten(ctx context.Context, deliveries []int64) (int, error) {
	var hastened int64
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		result, err := tx.ExecContext(ctx, hastenSQL, now, orAllIDs(deliveries))
		if err != nil {
			return err
		}
		hastened, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("hasten failed deliveries: %w", err)
	}
	return int(hastened), nil
}
