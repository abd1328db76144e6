// Package outages lets deliveries flow through each kind of queue while its server
// is killed and started again, cut off, struck dumb, and robbed of all it held. What
// has to come of it is the same each time: every delivery settles, none of them
// twice, and the wait for it is a lease and a few polls at most.
//
// Relay and worker run in the test's process, each with its own clients; the servers
// are real, and the test's own where they are killed.
package outages
