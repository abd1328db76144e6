//go:build soak

package protocoltest

import (
	"path/filepath"
	"testing"
)

// Minutes.
const (
	checksOnSQLite    = 20000
	checksOnPostgres  = 1000
	checksOnReference = 20000
	checksOnWeak      = 20000
	stepsOnAverage    = "120"
)

func TestProtocolOnSQLiteFile(t *testing.T) {
	checkProtocol(t, openSQLite(t, filepath.Join(t.TempDir(), "waybill.db")), checksOnPostgres)
}
