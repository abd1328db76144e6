package waybilltest_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
)

// exampleT is the t of the examples, which a test has and an example has not.
type exampleT struct {
	testing.TB
	ctx      context.Context
	stop     context.CancelFunc
	cleanups []func()
}

func newT() *exampleT {
	ctx, stop := context.WithCancel(context.Background())
	return &exampleT{ctx: ctx, stop: stop}
}

// end does what the end of a test does.
func (t *exampleT) end() {
	t.stop()
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
}

func (t *exampleT) Cleanup(cleanup func())            { t.cleanups = append(t.cleanups, cleanup) }
func (t *exampleT) Context() context.Context          { return t.ctx }
func (t *exampleT) Error(args ...any)                 { fmt.Println(args...) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Helper()                           {}
func (t *exampleT) Name() string                      { return "TestShop" }
func (t *exampleT) Output() io.Writer                 { return io.Discard } // go test shows it of a test that fails
