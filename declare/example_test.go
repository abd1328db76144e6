package declare_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
)

const receivers = `
receivers:
  - key: crm.sync
    event: order.placed
    lane: crm
    lease: 60s
    give_up_after: 24h
    http:
      url: https://crm.example.com/hooks/waybill
      headers:
        Authorization: Bearer ${CRM_TOKEN}
`

// An application that fires has to know every receiver, and needs none of their secrets.
// Those of the file stand beside those that it declares in Go.
func ExampleLoad() {
	path, remove, err := written(receivers)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()

	reg := waybill.NewRegistry()
	if err := declare.Load(reg, path); err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range reg.Receivers() {
		fmt.Println(r.Key, "of", r.Event, "in lane", r.Lane, "with a lease of", r.Lease)
	}
	// Output:
	// crm.sync of order.placed in lane crm with a lease of 1m0s
}

// What runs receivers names their sites, and is told at its start what they lack.
func ExampleLoadFor() {
	path, remove, err := written(receivers)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()

	err = declare.LoadFor(waybill.NewRegistry(), path, waybill.SiteTask) // a worker
	fmt.Println(strings.TrimPrefix(fmt.Sprint(err), filepath.Dir(path)+"/"))
	// Output:
	// receivers.yaml:11: receiver "crm.sync": http.headers.Authorization: environment variable CRM_TOKEN is not set
}

// Read names everything that is wrong with a file, and then declares nothing of it.
func ExampleRead() {
	reg := waybill.NewRegistry()
	err := declare.Read(reg, "receivers.yaml", strings.NewReader(`
receivers:
  - key: crm.sync
    event: order.placed
    leese: 60s
    http: {url: crm.example.com}
  - key: mail.receipt
    event: order.placed
    max_attempts: -1
    http: {url: "https://mail.example.com"}
`))
	fmt.Println(err)
	fmt.Println(len(reg.Receivers()), "receivers are declared")
	// Output:
	// receivers.yaml:5: receiver "crm.sync": leese: unknown field; did you mean lease?
	// receivers.yaml:6: receiver "crm.sync": http.url: url has the scheme ""; want http or https
	// receivers.yaml:9: receiver "mail.receipt": max_attempts: -1 must be a whole number, 1 or more
	// 0 receivers are declared
}

// written writes a file, and says how it is removed.
func written(text string) (path string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(folder, "receivers.yaml")
	return path, func() { os.RemoveAll(folder) }, os.WriteFile(path, []byte(text), 0o600)
}
