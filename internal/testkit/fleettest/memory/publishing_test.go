package memory_test

import (
	"fmt"
	"strings"
)

// publishing are the exchanges about what is stored.
var publishing = []exchange{
	{name: "HALT was never set", play: func(d *dialogue) {
		d.say(d.connect("alice").ask("$JS.API.DIRECT.GET.KV_asl-mesh.$KV.asl-mesh.halt", ""))
	}, want: `
inbox [NATS/1.0 404 Message Not Found]`},
	{name: "a message is stored", play: func(d *dialogue) {
		alice := d.connect("alice")
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello"))
		d.say(alice.ask("asl.box."+d.bob+".alice", "", "Asl-Id: two"))
		d.say(alice.ask("evt.agent.alice.task", "done"))
		alice.publish("asl.box."+d.bob+".alice", "", "nobody waits for this")
		d.say(alice.synced())
		d.until("3 pending", d.connect(d.bob).counts)
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
inbox {"stream":"ASL_BOX","seq":#2}
inbox {"stream":"ASL_EVT","seq":#1}
nothing
3 pending, 0 unacknowledged`},
	{name: "a repeat with the same id", play: func(d *dialogue) {
		alice := d.connect("alice")
		id := "Nats-Msg-Id: " + d.bob
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello", id))
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello", id))
		d.say(alice.ask("asl.box."+d.bob+".alice", "another text", id))
		d.say(d.connect("carol").ask("asl.box."+d.bob+".carol", "hello", id))
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
inbox {"stream":"ASL_BOX","seq":#1,"duplicate": true}
inbox {"stream":"ASL_BOX","seq":#1,"duplicate": true}
inbox {"stream":"ASL_BOX","seq":#1,"duplicate": true}`},
	{name: "a repeat after the acknowledgement", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		id := "Nats-Msg-Id: " + d.bob
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello", id))
		d.until("1 pending", bob.counts)
		bob.acknowledge(bob.pull(`{"batch":1,"no_wait":true}`)[0])
		d.until("0 pending, 0 unacknowledged", bob.counts)
		d.say(alice.ask("asl.box."+d.bob+".alice", "hello", id))
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
1 pending, 0 unacknowledged
0 pending, 0 unacknowledged
inbox {"stream":"ASL_BOX","seq":#1,"duplicate": true}`},
	{name: "a repeat with the same id and expectation",
		// One server looks at the expectation first, and a cluster at the id.
		play: func(d *dialogue) {
			alice := d.connect("alice")
			d.chunk(alice, "0", "Nats-Msg-Id: "+d.bob, "Nats-Expected-Last-Subject-Sequence: 0")
			d.chunk(alice, "0", "Nats-Msg-Id: "+d.bob, "Nats-Expected-Last-Subject-Sequence: 0")
		}, want: `
inbox {"stream":"ASL_BLOB","seq":#1}
inbox {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: #1"},"stream":"ASL_BLOB","seq":0}`, ofR3: `
inbox {"stream":"ASL_BLOB","seq":#1}
inbox {"stream":"ASL_BLOB","seq":#1,"duplicate": true}`},
	{name: "expectations", play: func(d *dialogue) {
		alice := d.connect("alice")
		d.chunk(alice, "0", "Nats-Expected-Last-Subject-Sequence: 7777777")
		d.chunk(alice, "0", "Nats-Expected-Last-Subject-Sequence: 0")
		d.chunk(alice, "0", "Nats-Expected-Last-Subject-Sequence: 0")
		d.chunk(alice, "0", d.expects(1))
		d.chunk(alice, "0", d.expects(1))
		d.chunk(alice, "1", "Nats-Expected-Last-Subject-Sequence: 0")
		d.chunk(alice, "1")
	}, want: `
inbox {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"},"stream":"ASL_BLOB","seq":0}
inbox {"stream":"ASL_BLOB","seq":#1}
inbox {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: #1"},"stream":"ASL_BLOB","seq":0}
inbox {"stream":"ASL_BLOB","seq":#2}
inbox {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: #2"},"stream":"ASL_BLOB","seq":0}
inbox {"stream":"ASL_BLOB","seq":#3}
inbox {"stream":"ASL_BLOB","seq":#4}`},
	{name: "the 101st message of a sender", play: func(d *dialogue) {
		alice := d.connect("alice")
		for range 99 {
			alice.ask("asl.box."+d.bob+".alice", "hello")
		}
		d.say(alice.ask("asl.box."+d.bob+".alice", "the last one"))
		d.say(alice.ask("asl.box."+d.bob+".alice", "one too many"))
		d.say(d.connect("carol").ask("asl.box."+d.bob+".carol", "hello"))
		bob := d.connect(d.bob)
		d.until("101 pending", bob.counts)
		bob.acknowledge(bob.pull(`{"batch":1,"no_wait":true}`)[0])
		d.until(`"seq":#102`, func() string { return alice.ask("asl.box."+d.bob+".alice", "there is room again") })
	}, want: `
inbox {"stream":"ASL_BOX","seq":#100}
inbox {"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"stream":"ASL_BOX","seq":0}
inbox {"stream":"ASL_BOX","seq":#101}
101 pending, 0 unacknowledged
inbox {"stream":"ASL_BOX","seq":#102}`},
	{name: "too large for its stream", play: func(d *dialogue) {
		alice := d.connect("alice")
		d.say(alice.ask("asl.box."+d.bob+".alice", strings.Repeat("x", 69<<10)))
		d.say(alice.ask("asl.box."+d.bob+".alice", strings.Repeat("x", 70<<10+1)))
		d.say(alice.ask("asl.box."+d.bob+".alice", strings.Repeat("x", 70<<10), "Asl-Id: one"))
		d.say(alice.ask("$KV.asl-who.alice", strings.Repeat("x", 16<<10+1)))
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
inbox {"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"ASL_BOX","seq":0}
inbox {"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"ASL_BOX","seq":0}
inbox {"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"KV_asl-who","seq":0}`},
	{name: "too large for the server", play: func(d *dialogue) {
		alice := d.connect("alice")
		alice.write(fmt.Sprintf("PUB asl.box.%s.alice %d\r\n", d.bob, 1<<20+1))
		d.say(alice.next())
		d.say(alice.next())
	}, want: `
-ERR 'Maximum Payload Violation'
the connection ended`},
	{name: "a time to live", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		d.chunk(alice, "0")
		d.chunk(alice, "1", "Nats-TTL: 500ms")
		d.chunk(alice, "1", "Nats-TTL: soon")
		d.chunk(alice, "1", "Nats-TTL: never")
		d.chunk(alice, "1", "Nats-TTL: 3600")
		d.say(alice.ask("$KV.asl-who.alice", "{}", "Nats-TTL: 1s"))
		d.say(bob.ask("asl.blob."+d.bob+".alice.sum.0", "", "Nats-TTL: 1s", d.expects(1)))
		get := func() string { return bob.ask("$JS.API.DIRECT.GET.ASL_BLOB.asl.blob."+d.bob+".alice.sum.0", "") }
		d.until("Nats-TTL", get)
		d.until("404", get)
	}, want: `
inbox {"stream":"ASL_BLOB","seq":#1}
inbox {"error":{"code":400,"err_code":10165,"description":"invalid per-message TTL"},"stream":"ASL_BLOB","seq":0}
inbox {"error":{"code":400,"err_code":10165,"description":"invalid per-message TTL"},"stream":"ASL_BLOB","seq":0}
inbox {"stream":"ASL_BLOB","seq":#2}
inbox {"stream":"ASL_BLOB","seq":#3}
inbox {"error":{"code":400,"err_code":10166,"description":"per-message TTL is disabled"},"stream":"KV_asl-who","seq":0}
inbox {"stream":"ASL_BLOB","seq":#4}
inbox [NATS/1.0; Nats-TTL: 1s; Nats-Expected-Last-Subject-Sequence: #1; Nats-Stream: ASL_BLOB; Nats-Subject: asl.blob.bob.alice.sum.0; Nats-Sequence: #4; Nats-Time-Stamp: T]
inbox [NATS/1.0 404 Message Not Found]`},
	{name: "a message in pieces", play: func(d *dialogue) {
		alice := d.connect("alice")
		for _, piece := range []string{"PU", "B asl.box." + d.bob + ".alice ", alice.answers(), " 5\r", "\nhel", "lo", "\r", "\n"} {
			alice.write(piece)
		}
		d.say(alice.next())
		alice.write("PUB asl.box." + d.bob + ".alice 5\r\nhel")
		alice.conn.Close()
		d.say(d.connect("alice").ask("asl.box."+d.bob+".alice", "the next one"))
	}, want: `
inbox {"stream":"ASL_BOX","seq":#1}
inbox {"stream":"ASL_BOX","seq":#2}`},
	{name: "nobody is there", play: func(d *dialogue) {
		admin := d.connect("")
		d.say(admin.ask("cmd.agent."+d.bob+".wakeup", "who?"))
		d.say(admin.ask("$JS.API.DIRECT.GET.NONE.subject", ""))
		d.say(admin.ask("$JS.API.CONSUMER.MSG.NEXT.ASL_BOX.nobody", ""))
		d.say(admin.ask("$JS.ACK.ASL_BOX.nobody.1.0.1.1.0", "+ACK"))
		d.say(admin.ask("$JS.API.STREAM.INFO.NONE", ""))
		d.say(admin.ask("$JS.API.CONSUMER.INFO.NONE.bob", ""))
		d.say(admin.ask("$JS.API.CONSUMER.INFO.ASL_BOX.nobody", ""))
	}, want: `
inbox [NATS/1.0 503; Nats-Subject: cmd.agent.bob.wakeup]
inbox [NATS/1.0 503; Nats-Subject: $JS.API.DIRECT.GET.NONE.subject]
inbox [NATS/1.0 503; Nats-Subject: $JS.API.CONSUMER.MSG.NEXT.ASL_BOX.nobody]
inbox [NATS/1.0 503; Nats-Subject: $JS.ACK.ASL_BOX.nobody.1.0.1.T.0]
inbox {"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,"err_code":10059,"description":"stream not found"}}
inbox {"type":"io.nats.jetstream.api.v1.consumer_info_response","error":{"code":404,"err_code":10059,"description":"stream not found"}}
inbox {"type":"io.nats.jetstream.api.v1.consumer_info_response","error":{"code":404,"err_code":10014,"description":"consumer not found"}}`},
}

// expects returns the field of a header that expects a message of this exchange to be the
// newest chunk.
func (d *dialogue) expects(message uint64) string {
	return fmt.Sprintf("Nats-Expected-Last-Subject-Sequence: %d", d.base["ASL_BLOB"]+message)
}

// chunk publishes one chunk of a file for bob, and says what comes of it.
func (d *dialogue) chunk(w *wire, number string, header ...string) {
	d.t.Helper()
	d.say(w.ask("asl.blob."+d.bob+".alice.sum."+number, "chunk", header...))
}
