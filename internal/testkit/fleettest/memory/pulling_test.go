package memory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentstateloop/fleet"
)

// pulling are the exchanges about how a mailbox is read.
var pulling = []exchange{
	{name: "a pull of nothing", play: func(d *dialogue) {
		bob := d.connect(d.bob)
		d.sayAll(bob.pull(`{"batch":5,"no_wait":true}`))
		d.sayAll(bob.pull(`{"batch":5,"max_bytes":1000,"no_wait":true}`))
		d.sayAll(bob.pull(`{"batch":5,"expires":50000000}`))
		d.sayAll(bob.pull(`{"batch":5,"no_wait":true,"expires":50000000}`))
		d.sayAll(bob.pull(`{"batch":`))
	}, want: `
inbox [NATS/1.0 404 No Messages]
inbox [NATS/1.0 404 No Messages]
inbox [NATS/1.0 408 Request Timeout; Nats-Pending-Messages: 5; Nats-Pending-Bytes: 0]
inbox [NATS/1.0 408 Request Timeout; Nats-Pending-Messages: 5; Nats-Pending-Bytes: 0]
inbox [NATS/1.0 400 Bad Request - unexpected end of JSON input]`},
	{name: "a pull of some",
		// A server of a cluster notes that the pull is over once the others have agreed to what
		// it delivers, and then says so in other words.
		play: func(d *dialogue) {
			d.fill(3)
			d.sayAll(d.connect(d.bob).pull(`{"batch":5,"no_wait":true}`))
		}, want: `
3 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.2 [NATS/1.0; Asl-Id: 1] text 1
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#2.2.T.1 [NATS/1.0; Asl-Id: 2] text 2
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#3.3.T.0 [NATS/1.0; Asl-Id: 3] text 3
inbox [NATS/1.0 404 No Messages]`, ofR3: `
3 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.2 [NATS/1.0; Asl-Id: 1] text 1
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#2.2.T.1 [NATS/1.0; Asl-Id: 2] text 2
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#3.3.T.0 [NATS/1.0; Asl-Id: 3] text 3
inbox [NATS/1.0 408 Request Timeout; Nats-Pending-Messages: 2; Nats-Pending-Bytes: 0]`},
	{name: "a pull of less than there is", play: func(d *dialogue) {
		d.fill(3)
		bob := d.connect(d.bob)
		d.sayAll(bob.pull(`{"batch":2,"no_wait":true}`))
		d.sayAll(bob.pull(``))
		d.sayAll(bob.pull(`{"batch":2,"no_wait":true}`))
	}, want: `
3 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.2 [NATS/1.0; Asl-Id: 1] text 1
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#2.2.T.1 [NATS/1.0; Asl-Id: 2] text 2
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#3.3.T.0 [NATS/1.0; Asl-Id: 3] text 3
inbox [NATS/1.0 404 No Messages]`},
	{name: "a pull by bytes", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		for range 3 {
			alice.ask("asl.box."+d.bob+".alice", strings.Repeat("x", 1000))
		}
		d.until("3 pending", bob.counts)
		// The status may come before the messages from a cluster.
		d.sayAll(sorted(bob.pull(`{"batch":5,"max_bytes":2500,"no_wait":true}`, 2, 1)))
		d.sayAll(bob.pull(`{"batch":5,"max_bytes":500,"no_wait":true}`))
		d.sayAll(sorted(bob.pull(`{"batch":1,"max_bytes":2500,"no_wait":true}`, 1, 1)))
	}, want: `
3 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.2 x...x
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#2.2.T.1 x...x
inbox [NATS/1.0 409 Message Size Exceeds MaxBytes; Nats-Pending-Messages: 3; Nats-Pending-Bytes: 360]
inbox [NATS/1.0 409 Message Size Exceeds MaxBytes; Nats-Pending-Messages: 5; Nats-Pending-Bytes: 500]
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#3.3.T.0 x...x
inbox [NATS/1.0 409 Batch Completed; Nats-Pending-Messages: 0; Nats-Pending-Bytes: 1430]`},
	{name: "a pull that waits", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		bob.publish("$JS.API.CONSUMER.MSG.NEXT.ASL_BOX."+d.bob, bob.answers(), `{"batch":1,"expires":5000000000}`)
		d.say(bob.synced())
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello"))
		d.say(bob.next())
	}, want: `
nothing
inbox {"stream":"ASL_BOX","seq":#1}
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.0 hello`},
	{name: "it comes again", play: func(d *dialogue) {
		d.ackWait(100 * time.Millisecond)
		d.fill(2)
		bob, other := d.connect(d.bob), d.connect(d.bob)
		d.sayAll(bob.pull(`{"batch":2,"no_wait":true}`))
		d.say(bob.counts())
		d.until("asl.box", func() string { return other.pull(`{"batch":1,"no_wait":true}`)[0] })
		other.acknowledge(d.until("asl.box", func() string { return other.pull(`{"batch":1,"no_wait":true}`)[0] }))
		d.until(" 1 unacknowledged", bob.counts)
		d.until("asl.box", func() string { return bob.pull(`{"batch":1,"no_wait":true}`)[0] })
	}, want: `
2 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.1 [NATS/1.0; Asl-Id: 1] text 1
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#2.2.T.0 [NATS/1.0; Asl-Id: 2] text 2
0 pending, 2 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.2.#1.3.T.0 [NATS/1.0; Asl-Id: 1] text 1
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.2.#2.4.T.0 [NATS/1.0; Asl-Id: 2] text 2
0 pending, 1 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.3.#1.5.T.0 [NATS/1.0; Asl-Id: 1] text 1`},
	{name: "it is given back", play: func(d *dialogue) {
		d.fill(3)
		bob := d.connect(d.bob)
		all := bob.pull(`{"batch":3,"no_wait":true}`)
		for _, n := range []int{1, 0} {
			bob.publish(ackOf(all[n]), "", "-NAK")
			bob.synced()
			d.until("unacknowledged", bob.counts)
		}
		d.until("asl.box", func() string { return bob.pull(`{"batch":1,"no_wait":true}`)[0] })
		d.until("asl.box", func() string { return bob.pull(`{"batch":1,"no_wait":true}`)[0] })
		d.sayAll(bob.pull(`{"batch":1,"no_wait":true}`))
	}, want: `
3 pending, 0 unacknowledged
0 pending, 3 unacknowledged
0 pending, 3 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.2.#2.4.T.0 [NATS/1.0; Asl-Id: 2] text 2
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.2.#1.5.T.0 [NATS/1.0; Asl-Id: 1] text 1
inbox [NATS/1.0 404 No Messages]`},
	{name: "acknowledgements", play: func(d *dialogue) {
		d.fill(4)
		bob, other := d.connect(d.bob), d.connect(d.bob)
		d.say(bob.counts())
		all := bob.pull(`{"batch":3,"no_wait":true}`)
		d.until("1 pending, 3 unacknowledged", bob.counts)
		other.acknowledge(all[1])
		d.until("2 unacknowledged", bob.counts)
		other.acknowledge(all[1]) // again
		other.publish(ackOf(all[0]), "", "what is this?")
		other.publish(ackOf(all[0]), "", "")
		d.until("1 unacknowledged", bob.counts)
		// A message that was not delivered cannot be acknowledged.
		other.publish(strings.Replace(ackOf(all[2]), fmt.Sprintf(".%d.3.", d.base[fleet.MailboxStream]+3), fmt.Sprintf(".%d.4.", d.base[fleet.MailboxStream]+4), 1), "", "+ACK")
		other.acknowledge(all[2])
		d.until("1 pending, 0 unacknowledged", bob.counts)
		d.sayAll(bob.pull(`{"batch":1,"no_wait":true}`))
	}, want: `
4 pending, 0 unacknowledged
4 pending, 0 unacknowledged
1 pending, 3 unacknowledged
1 pending, 2 unacknowledged
1 pending, 1 unacknowledged
1 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#4.4.T.0 [NATS/1.0; Asl-Id: 4] text 4`},
	{name: "mailboxes apart", play: func(d *dialogue) {
		alice, carol := d.connect("alice"), d.connect("carol")
		d.say(alice.ask("asl.box.carol.alice", "for carol"))
		d.say(carol.ask("asl.box."+d.bob+".carol", "for bob"))
		bob := d.connect(d.bob)
		d.until("1 pending", carol.counts)
		d.until("1 pending", bob.counts)
		first := carol.pull(`{"batch":1,"no_wait":true}`)[0]
		d.say(first)
		second := bob.pull(`{"batch":1,"no_wait":true}`)[0]
		d.say(second)
		// Bob acknowledges what is carol's, as a delivery to bob.
		bob.publish(strings.Replace(ackOf(second), fmt.Sprintf(".%d.1.", d.base[fleet.MailboxStream]+2), fmt.Sprintf(".%d.1.", d.base[fleet.MailboxStream]+1), 1), "", "+ACK")
		d.say(bob.synced())
		bob.acknowledge(second)
		d.until("0 unacknowledged", bob.counts)
		d.say(carol.counts())
		carol.acknowledge(first)
		d.until("0 unacknowledged", carol.counts)
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
inbox {"stream":"ASL_BOX","seq":#2}
1 pending, 0 unacknowledged
1 pending, 0 unacknowledged
asl.box.carol.alice reply $JS.ACK.ASL_BOX.carol.1.#1.1.T.0 for carol
asl.box.bob.carol reply $JS.ACK.ASL_BOX.bob.1.#2.1.T.0 for bob
nothing
0 pending, 0 unacknowledged
0 pending, 1 unacknowledged
0 pending, 0 unacknowledged`},
}

func (d *dialogue) sayAll(frames []string) {
	for _, f := range frames {
		d.say(f)
	}
}

// fill puts messages into bob's mailbox.
func (d *dialogue) fill(n int) {
	d.t.Helper()
	alice := d.connect("alice")
	for i := range n {
		alice.ask("asl.box."+d.bob+".alice", fmt.Sprint("text ", i+1), fmt.Sprint("Asl-Id: ", i+1))
	}
	d.until(fmt.Sprint(n, " pending"), d.connect(d.bob).counts)
}

// ackWait sets how long the engine waits for an acknowledgement of bob's.
func (d *dialogue) ackWait(wait time.Duration) {
	d.t.Helper()
	c := fleet.Mailbox(d.bob)
	c.AckWait = wait
	body, err := json.Marshal(map[string]any{"stream_name": fleet.MailboxStream, "config": c, "action": "update"})
	if err != nil {
		d.t.Fatal(err)
	}
	if got := d.connect("").ask("$JS.API.CONSUMER.DURABLE.CREATE."+fleet.MailboxStream+"."+d.bob, string(body)); strings.Contains(got, `"error"`) {
		d.t.Fatal(got)
	}
}

// pull asks for messages of our mailbox, and returns them and the status that ends the
// pull. If least is given, it waits for so many messages and then so many statuses.
func (w *wire) pull(request string, least ...int) (frames []string) {
	w.d.t.Helper()
	batch := 1
	var r struct {
		Batch int `json:"batch"`
	}
	if json.Unmarshal([]byte(request), &r) == nil && r.Batch > 0 {
		batch = r.Batch
	}
	w.publish("$JS.API.CONSUMER.MSG.NEXT.ASL_BOX."+w.handle, w.answers(), request)
	messages, statuses := 0, 0
	enough := func() bool {
		if len(least) > 0 {
			return messages >= least[0] && statuses >= least[1]
		}
		return messages == batch || statuses > 0
	}
	for !enough() {
		f := w.next()
		frames = append(frames, f)
		switch {
		case strings.HasPrefix(f, "asl.box."):
			messages++
		case f == "nothing came", f == "the connection ended":
			return frames
		default:
			statuses++
		}
	}
	return frames
}

// sorted puts messages before statuses.
func sorted(frames []string) (all []string) {
	for _, messages := range []bool{true, false} {
		for _, f := range frames {
			if strings.HasPrefix(f, "asl.box.") == messages {
				all = append(all, f)
			}
		}
	}
	return all
}

// ackOf returns where a delivery is acknowledged.
func ackOf(frame string) string {
	_, reply, _ := strings.Cut(frame, " reply ")
	reply, _, _ = strings.Cut(reply, " ")
	return reply
}

func (w *wire) acknowledge(frame string) {
	w.d.t.Helper()
	w.publish(ackOf(frame), "", "+ACK")
}

// counts returns what the engine counts in our mailbox.
func (w *wire) counts() string {
	w.d.t.Helper()
	_, data, _ := strings.Cut(w.ask("$JS.API.CONSUMER.INFO.ASL_BOX."+w.handle, ""), " ")
	var info struct {
		Pending        int `json:"num_pending"`
		Unacknowledged int `json:"num_ack_pending"`
	}
	if err := json.Unmarshal([]byte(data), &info); err != nil {
		w.d.t.Fatalf("%v: %s", err, data)
	}
	return fmt.Sprintf("%d pending, %d unacknowledged", info.Pending, info.Unacknowledged)
}
