package memory_test

import (
	"fmt"
	"strings"

	"agentstateloop/internal/testkit/fleettest"
)

// rights are the exchanges about who may do what.
var rights = []exchange{
	{name: "wrong keys", play: func(d *dialogue) {
		other := d.open(d.keys["carol"].Seed, d.keys["alice"].Public)
		d.say(other.next())
		d.say(other.next())
		nobody := fleettest.NewKey(d.t)
		unknown := d.open(nobody.Seed, nobody.Public)
		d.say(unknown.next())
		d.say(unknown.next())
	}, want: `
-ERR 'Authorization Violation'
the connection ended
-ERR 'Authorization Violation'
the connection ended`},
	{name: "what may not be published", play: func(d *dialogue) {
		bob := d.connect(d.bob)
		for _, subject := range []string{
			"asl.box.alice.carol", "asl.box." + d.bob + ".alice", "asl.box.alice", "asl.blob.carol.alice.sum.0", "evt.agent.alice.task",
			"$KV.asl-who.alice", "$KV.asl-who.alice.alpha", "$KV.asl-who." + d.bob + ".alpha.beta", "$KV.asl-mesh.other",
			"$JS.API.DIRECT.GET.ASL_BLOB.asl.blob.alice.carol.sum.0", "$JS.API.DIRECT.GET.ASL_BLOB", "$JS.API.DIRECT.GET.ASL_BOX.asl.box." + d.bob + ".alice",
			"$JS.API.CONSUMER.MSG.NEXT.ASL_BOX.alice", "$JS.API.CONSUMER.INFO.ASL_BOX.alice", "$JS.API.CONSUMER.DURABLE.CREATE.ASL_BOX." + d.bob,
			"$JS.API.STREAM.INFO.ASL_BOX", "$JS.API.STREAM.DELETE.ASL_BOX", "$JS.API.STREAM.MSG.GET.ASL_BOX", "$JS.ACK.ASL_BOX.alice.1.0.1.1.0", "_INBOX_alice.x", "anything",
		} {
			bob.publish(subject, bob.answers(), "")
			d.say(bob.synced())
		}
	}, want: `
-ERR 'Permissions Violation for Publish to "asl.box.alice.carol"'
-ERR 'Permissions Violation for Publish to "asl.box.bob.alice"'
-ERR 'Permissions Violation for Publish to "asl.box.alice"'
-ERR 'Permissions Violation for Publish to "asl.blob.carol.alice.sum.0"'
-ERR 'Permissions Violation for Publish to "evt.agent.alice.task"'
-ERR 'Permissions Violation for Publish to "$KV.asl-who.alice"'
-ERR 'Permissions Violation for Publish to "$KV.asl-who.alice.alpha"'
-ERR 'Permissions Violation for Publish to "$KV.asl-who.bob.alpha.beta"'
-ERR 'Permissions Violation for Publish to "$KV.asl-mesh.other"'
-ERR 'Permissions Violation for Publish to "$JS.API.DIRECT.GET.ASL_BLOB.asl.blob.alice.carol.sum.0"'
-ERR 'Permissions Violation for Publish to "$JS.API.DIRECT.GET.ASL_BLOB"'
-ERR 'Permissions Violation for Publish to "$JS.API.DIRECT.GET.ASL_BOX.asl.box.bob.alice"'
-ERR 'Permissions Violation for Publish to "$JS.API.CONSUMER.MSG.NEXT.ASL_BOX.alice"'
-ERR 'Permissions Violation for Publish to "$JS.API.CONSUMER.INFO.ASL_BOX.alice"'
-ERR 'Permissions Violation for Publish to "$JS.API.CONSUMER.DURABLE.CREATE.ASL_BOX.bob"'
-ERR 'Permissions Violation for Publish to "$JS.API.STREAM.INFO.ASL_BOX"'
-ERR 'Permissions Violation for Publish to "$JS.API.STREAM.DELETE.ASL_BOX"'
-ERR 'Permissions Violation for Publish to "$JS.API.STREAM.MSG.GET.ASL_BOX"'
-ERR 'Permissions Violation for Publish to "$JS.ACK.ASL_BOX.alice.1.0.1.T.0"'
-ERR 'Permissions Violation for Publish to "_INBOX_alice.x"'
-ERR 'Permissions Violation for Publish to "anything"'`},
	{name: "what may not be heard", play: func(d *dialogue) {
		bob := d.connect(d.bob)
		for n, subject := range []string{
			"cmd.agent.alice.wakeup", "cmd.agent.*.wakeup", "cmd.agent." + d.bob + ".*", "_INBOX_alice.>", "_INBOX.>", "asl.box." + d.bob + ".*", ">", "$KV.asl-who.>",
			"$KV.asl-mesh.>", "_INBOX_" + d.bob + ".a.b", "_INBOX_" + d.bob + ".>", "_INBOX_" + d.bob, "cmd.agent." + d.bob + ".wakeup",
		} {
			bob.write(fmt.Sprintf("SUB %s %d\r\n", subject, n+10))
			d.say(bob.synced())
		}
	}, want: `
-ERR 'Permissions Violation for Subscription to "cmd.agent.alice.wakeup"'
-ERR 'Permissions Violation for Subscription to "cmd.agent.*.wakeup"'
-ERR 'Permissions Violation for Subscription to "cmd.agent.bob.*"'
-ERR 'Permissions Violation for Subscription to "_INBOX_alice.>"'
-ERR 'Permissions Violation for Subscription to "_INBOX.>"'
-ERR 'Permissions Violation for Subscription to "asl.box.bob.*"'
-ERR 'Permissions Violation for Subscription to ">"'
-ERR 'Permissions Violation for Subscription to "$KV.asl-who.>"'
-ERR 'Permissions Violation for Subscription to "$KV.asl-mesh.>"'
nothing
nothing
-ERR 'Permissions Violation for Subscription to "_INBOX_bob"'
nothing`},
	{name: "doorbells", play: func(d *dialogue) {
		alice, bob, other := d.connect("alice"), d.connect(d.bob), d.connect(d.bob)
		bob.write("SUB cmd.agent." + d.bob + ".wakeup 7\r\n")
		bob.synced()
		alice.publish("cmd.agent."+d.bob+".wakeup", "", "alice", "Asl-Sig: signature")
		d.say(alice.synced())
		d.say(bob.next())
		d.say(other.synced())
		bob.write("UNSUB 7\r\n")
		other.write("SUB cmd.agent." + d.bob + ".wakeup 8\r\nUNSUB 8 2\r\n")
		other.synced()
		for n := range 3 {
			alice.publish("cmd.agent."+d.bob+".wakeup", "", fmt.Sprint("alice ", n))
		}
		alice.synced()
		d.say(other.next())
		d.say(other.next())
		d.say(other.synced())
		d.say(bob.synced())
	}, want: `
nothing
cmd.agent.bob.wakeup [NATS/1.0; Asl-Sig: signature] alice
nothing
cmd.agent.bob.wakeup alice 0
cmd.agent.bob.wakeup alice 1
nothing
nothing`},
	// The server publishes answers with rights of its own, in the account of who asked.
	{name: "forged replies", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		d.say(alice.ask("$KV.asl-who.alice", "written by alice", "Nats-Msg-Id: "+d.bob, "Asl-Id: forged"))
		d.until("Nats-Sequence: #1;", func() string { return alice.ask("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.alice", "") })
		alice.publish("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.alice", "asl.box."+d.bob+".carol", "")
		alice.publish("asl.box."+d.bob+".alice", "asl.box."+d.bob+".carol", "with a reply")
		alice.publish("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.nobody", "asl.box."+d.bob+".carol", "")
		d.until("1 pending", bob.counts)
		d.sayAll(bob.pull(`{"batch":1,"no_wait":true}`))
		d.say(bob.counts())
	}, want: `
inbox {"stream":"KV_asl-who","seq":#1}
inbox [NATS/1.0; Nats-Msg-Id: bob; Asl-Id: forged; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.alice; Nats-Sequence: #1; Nats-Time-Stamp: T] written by alice
1 pending, 0 unacknowledged
asl.box.bob.alice reply $JS.ACK.ASL_BOX.bob.1.#1.1.T.0 with a reply
0 pending, 1 unacknowledged`},
	{name: "a pull into another's mailbox", play: func(d *dialogue) {
		d.fill(1)
		bob := d.connect(d.bob)
		bob.publish("$JS.API.CONSUMER.MSG.NEXT.ASL_BOX."+d.bob, "asl.box.alice."+d.bob+"x", `{"batch":1,"no_wait":true}`)
		d.until("0 pending, 1 unacknowledged", bob.counts)
		alice := d.connect("alice")
		d.say(alice.counts())
	}, want: `
1 pending, 0 unacknowledged
0 pending, 1 unacknowledged
0 pending, 0 unacknowledged`},
	{name: "a forged acknowledgement", play: func(d *dialogue) {
		d.fill(1)
		alice, bob := d.connect("alice"), d.connect(d.bob)
		all := bob.pull(`{"batch":1,"no_wait":true}`)
		d.until("1 unacknowledged", bob.counts)
		// A status has no body, as an acknowledgement may have none.
		alice.publish("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.nobody", ackOf(all[0]), "")
		d.say(alice.synced())
		alice.publish("anything", ackOf(all[0]), "")
		d.say(alice.synced())
		d.say(bob.counts())
	}, want: `
1 pending, 0 unacknowledged
0 pending, 1 unacknowledged
-ERR 'Permissions Violation for Publish with Reply of "$JS.ACK.ASL_BOX.bob.1.#1.1.T.0"'
-ERR 'Permissions Violation for Publish to "anything"'
0 pending, 1 unacknowledged`},
	{name: "nonsense", play: func(d *dialogue) {
		alice := d.connect("alice")
		alice.write("NONSENSE\r\n")
		d.say(strings.ToLower(alice.next()))
		d.say(alice.next())
	}, want: `
-err 'unknown protocol operation'
the connection ended`},
}
