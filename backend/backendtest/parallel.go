package backendtest

import (
	"flag"
	"fmt"
	"os"
)

// Parallel lets many tests of the program run at the same time: those of a queue wait
// for servers, and not for a processor. TestMain calls it before it runs them.
func Parallel() {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
