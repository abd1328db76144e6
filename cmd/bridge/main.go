// Command bridge hands what an outbox owes to a task queue, and looks after the
// outbox. The receivers are those of a declarations file.
package main

import (
	"os"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

func main() { os.Exit(cli.Run(cli.Bridge(waybill.NewRegistry()))) }
