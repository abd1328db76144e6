package cli_test

import (
	"context"
	"fmt"
	"os"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// A team's own program has every subcommand over its own receivers. Its main is
//
//	func main() { os.Exit(cli.Main(declared())) }
//
// where declared returns the registry; Program is for one that adds commands of its own.
func ExampleProgram() {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(context.Context, orderPlaced) error { return nil }, waybill.Options{Lane: "mail"})

	program := cli.Program(reg)
	program.Use = "shop"
	for _, command := range program.Commands() {
		fmt.Println(program.Name(), command.Name())
	}
	// Output:
	// shop demo
	// shop fire
	// shop health
	// shop lanes
	// shop migrate
	// shop pause
	// shop relay
	// shop resume
	// shop simulate
	// shop size
	// shop status
	// shop version
	// shop worker
}

// Execute runs a command with arguments of one's own. A failure is one line on the
// command's standard error, and an exit code. Main and Run take the arguments of the
// process, and its signals.
func ExampleExecute() {
	program := cli.Program(waybill.NewRegistry())
	program.SetErr(os.Stdout)
	code := cli.Execute(context.Background(), program, []string{"statsu"})
	fmt.Println("exit code", code)
	// Output:
	// bridge: unknown command "statsu" for "bridge" Did you mean this? status: see 'bridge --help'
	// exit code 2
}
