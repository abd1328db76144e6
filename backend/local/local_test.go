package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		b, err := local.New(local.Config{Logger: setup.Log})
		if err != nil {
			t.Fatal(err)
		}
		return backendtest.Harness{Backend: b, FIFO: true, Large: 1000}
	})
}

func TestNewRefusesNegativeCapacity(t *testing.T) {
	t.Parallel()
	if _, err := local.New(local.Config{Capacity: -1}); err == nil {
		t.Error("no error")
	}
}
