package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// These carry the orders to a child process of the test's own program.
const (
	specVariable  = "WAYBILL_BACKENDTEST_CONSUMER"
	limitVariable = "WAYBILL_BACKENDTEST_LIMIT"
)

// ConsumerProcess makes the test program fit for CrashConsumer. TestMain calls it
// first; in a child it consumes, and never returns. open opens the consumer that
// the spec names.
func ConsumerProcess(open func(spec string) (waybill.Consumer, error)) {
	spec, isChild := os.LookupEnv(specVariable)
	if !isChild {
		return
	}
	consumer, err := open(spec)
	limit, limitErr := strconv.Atoi(os.Getenv(limitVariable))
	if err = errors.Join(err, limitErr); err == nil {
		err = consumer.Consume(context.Background(), limit, func(_ context.Context, m waybill.Message) error {
			line, err := json.Marshal(m)
			if err != nil {
				return err
			}
			fmt.Println(string(line))
			select {} // until killed
		})
	}
	fmt.Fprintln(os.Stderr, "consumer process:", err)
	os.Exit(1)
}

// CrashConsumer starts a process that consumes what the spec names, at most n
// messages at a time, and kills it when it has received n and finished none. It
// returns the messages.
func CrashConsumer(t *testing.T, spec string, n int) []waybill.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0]) // killed with the context
	child.Env = append(os.Environ(), specVariable+"="+spec, limitVariable+"="+strconv.Itoa(n))
	child.Stderr = os.Stderr
	child.WaitDelay = time.Second
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var messages []waybill.Message
	lines := bufio.NewScanner(output)
	for len(messages) < n && lines.Scan() {
		var m waybill.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Errorf("consumer process said %q: %v", lines.Text(), err)
			break
		}
		messages = append(messages, m)
	}
	_ = child.Process.Kill()
	_ = child.Wait() // it was killed, which is an error to the command
	if len(messages) < n {
		t.Fatalf("the consumer process received %d messages, want %d", len(messages), n)
	}
	return messages
}
