// Package e2e tests Waybill as it is used: the bridge and worker binaries, and an
// application that embeds the library, each in processes of its own, on a real
// PostgreSQL and a real Redis. Processes are killed and told to stop, a Redis
// loses everything, and what counts is what is left in the database.
//
// There is nothing here but tests, and testapp, the application.
package e2e
