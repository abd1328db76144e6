package services

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestOwnRabbitMQKeepsWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	node := OwnRabbitMQ(t)
	publishConfirmed(t, node.URL)
	node.Ctl("eval", "mnesia:sync_log().") // a queue is declared in memory first, and 3.10 answers before it is on the disk
	node.Kill()
	if err := pingRabbitMQ(node.URL); err == nil {
		t.Error("after Kill the server still answers")
	}
	node.Start()
	if list := node.Ctl("list_queues", "name", "messages"); !strings.Contains(list, "mark\t1") {
		t.Errorf("after Kill and Start the queues are %q, want one message in mark", list)
	}
}

func publishConfirmed(t *testing.T, url string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("mark", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := channel.PublishWithDeferredConfirm("", "mark", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
		t.Fatalf("not confirmed: %v", err)
	}
}
