// Command worker is the shop's own bridge and worker: every subcommand, with the
// receivers that are written in Go. See ../README.md.
package main

import (
	"os"

	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/examples/separate/shop"
)

func main() { os.Exit(cli.Main(shop.Registry())) }
