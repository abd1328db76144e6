// Command worker runs the receivers of a declarations file on what a task queue
// brings.
package main

import (
	"os"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

func main() { os.Exit(cli.Run(cli.Worker(waybill.NewRegistry()))) }
