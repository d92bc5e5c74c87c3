package memory_test

import (
	"fmt"
	"strings"
)

// getting are the exchanges about what is read without a mailbox.
var getting = []exchange{
	{name: "a file", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		get := func(n string) func() string {
			return func() string { return bob.ask("$JS.API.DIRECT.GET.ASL_BLOB.asl.blob."+d.bob+".alice.sum."+n, "") }
		}
		d.say(get("0")())
		d.chunk(alice, "0")
		d.chunk(alice, "1", "Asl-Chunks: 2", "Asl-Size: 10")
		d.until("#1", get("0"))
		d.until("#2", get("1"))
		d.chunk(alice, "0", "Asl-Chunks: 1")
		d.until("#3", get("0"))
	}, want: `
inbox [NATS/1.0 404 Message Not Found]
inbox {"stream":"ASL_BLOB","seq":#1}
inbox {"stream":"ASL_BLOB","seq":#2}
inbox [NATS/1.0; Nats-Stream: ASL_BLOB; Nats-Subject: asl.blob.bob.alice.sum.0; Nats-Sequence: #1; Nats-Time-Stamp: T] chunk
inbox [NATS/1.0; Asl-Chunks: 2; Asl-Size: 10; Nats-Stream: ASL_BLOB; Nats-Subject: asl.blob.bob.alice.sum.1; Nats-Sequence: #2; Nats-Time-Stamp: T] chunk
inbox {"stream":"ASL_BLOB","seq":#3}
inbox [NATS/1.0; Asl-Chunks: 1; Nats-Stream: ASL_BLOB; Nats-Subject: asl.blob.bob.alice.sum.0; Nats-Sequence: #3; Nats-Time-Stamp: T] chunk`},
	{name: "rows in pages", play: func(d *dialogue) {
		bob := d.connect(d.bob)
		page := func(from uint64, rest string) []string {
			return bob.page(fmt.Sprintf(`{"seq":%d,"next_by_subj":"$KV.asl-who.%s.>"%s}`, from, d.bob, rest))
		}
		first := d.base["KV_asl-who"] + 1
		d.sayAll(page(1, `,"batch":2`))
		for _, host := range []string{"alpha", "beta", "gamma", "alpha"} {
			d.say(bob.ask("$KV.asl-who."+d.bob+"."+host, "{}", "Asl-At: "+host))
		}
		// The servers of a cluster answer by turns, and some may lag.
		pageUntil := func(part string, from uint64, rest string) {
			d.until(part, func() string { return strings.Join(page(from, rest), "\n") })
		}
		pageUntil("Nats-Sequence: #3", 1, `,"batch":2`)
		pageUntil("Nats-Num-Pending: 0", first+3, `,"batch":2`)
		d.sayAll(page(first+4, `,"batch":2`))
		pageUntil("EOB; Nats-Num-Pending: 2; Nats-Last-Sequence: #2", first, `,"batch":5,"max_bytes":20`)
		pageUntil("Nats-Sequence: #2", first, ``)
	}, want: `
inbox [NATS/1.0 404 Message Not Found]
inbox {"stream":"KV_asl-who","seq":#1}
inbox {"stream":"KV_asl-who","seq":#2}
inbox {"stream":"KV_asl-who","seq":#3}
inbox {"stream":"KV_asl-who","seq":#4}
inbox [NATS/1.0; Asl-At: beta; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.bob.beta; Nats-Sequence: #2; Nats-Time-Stamp: T; Nats-Num-Pending: 2; Nats-Last-Sequence: 0] {}
inbox [NATS/1.0; Asl-At: gamma; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.bob.gamma; Nats-Sequence: #3; Nats-Time-Stamp: T; Nats-Num-Pending: 1; Nats-Last-Sequence: #2] {}
inbox [NATS/1.0 204 EOB; Nats-Num-Pending: 1; Nats-Last-Sequence: #3]
inbox [NATS/1.0; Asl-At: alpha; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.bob.alpha; Nats-Sequence: #4; Nats-Time-Stamp: T; Nats-Num-Pending: 0; Nats-Last-Sequence: 0] {}
inbox [NATS/1.0 204 EOB; Nats-Num-Pending: 0; Nats-Last-Sequence: #4]
inbox [NATS/1.0 404 Message Not Found]
inbox [NATS/1.0; Asl-At: beta; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.bob.beta; Nats-Sequence: #2; Nats-Time-Stamp: T; Nats-Num-Pending: 2; Nats-Last-Sequence: 0] {}
inbox [NATS/1.0 204 EOB; Nats-Num-Pending: 2; Nats-Last-Sequence: #2]
inbox [NATS/1.0; Asl-At: beta; Nats-Stream: KV_asl-who; Nats-Subject: $KV.asl-who.bob.beta; Nats-Sequence: #2; Nats-Time-Stamp: T] {}`},
	{name: "requests that are wrong", play: func(d *dialogue) {
		bob := d.connect(d.bob)
		for _, body := range []string{"", "{}", "{", `{"seq":1,"last_by_subj":"x"}`, `{"last_by_subj":"$KV.asl-who.nobody"}`, `{"seq":7777777}`, `{"last_by_subj":"x","batch":2}`} {
			d.say(bob.ask("$JS.API.DIRECT.GET.KV_asl-who", body))
		}
		for _, body := range []string{"{", `{"batch":2}`, "{}"} {
			d.say(bob.ask("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.nobody", body))
		}
	}, want: `
inbox [NATS/1.0 408 Empty Request]
inbox [NATS/1.0 408 Empty Request]
inbox [NATS/1.0 408 Malformed Request]
inbox [NATS/1.0 408 Bad Request]
inbox [NATS/1.0 404 Message Not Found]
inbox [NATS/1.0 404 Message Not Found]
inbox [NATS/1.0 408 Bad Request]
inbox [NATS/1.0 408 Malformed Request]
inbox [NATS/1.0 408 Bad Request]
inbox [NATS/1.0 404 Message Not Found]`},
	{name: "HALT", play: func(d *dialogue) {
		alice, bob := d.connect("alice"), d.connect(d.bob)
		bob.write("SUB $KV.asl-mesh.halt 7\r\n")
		d.say(bob.synced())
		for n := range 6 {
			d.say(alice.ask("$KV.asl-mesh.halt", fmt.Sprintf(`{"halted":%v}`, n%2 == 0)))
			d.say(strings.Replace(bob.next(), "reply "+alice.inbox, "reply alice", 1))
		}
		d.until("Nats-Sequence: #6", func() string { return bob.ask("$JS.API.DIRECT.GET.KV_asl-mesh.$KV.asl-mesh.halt", "") })
		admin := d.connect("")
		d.until("#6", func() string {
			return strings.Join(admin.pageOf("KV_asl-mesh", fmt.Sprintf(`{"seq":%d,"batch":9}`, d.base["KV_asl-mesh"]+1)), "\n")
		})
	}, want: `
nothing
inbox {"stream":"KV_asl-mesh","seq":#1}
$KV.asl-mesh.halt reply alice.1 {"halted":true}
inbox {"stream":"KV_asl-mesh","seq":#2}
$KV.asl-mesh.halt reply alice.2 {"halted":false}
inbox {"stream":"KV_asl-mesh","seq":#3}
$KV.asl-mesh.halt reply alice.3 {"halted":true}
inbox {"stream":"KV_asl-mesh","seq":#4}
$KV.asl-mesh.halt reply alice.4 {"halted":false}
inbox {"stream":"KV_asl-mesh","seq":#5}
$KV.asl-mesh.halt reply alice.5 {"halted":true}
inbox {"stream":"KV_asl-mesh","seq":#6}
$KV.asl-mesh.halt reply alice.6 {"halted":false}
inbox [NATS/1.0; Nats-Stream: KV_asl-mesh; Nats-Subject: $KV.asl-mesh.halt; Nats-Sequence: #6; Nats-Time-Stamp: T] {"halted":false}
inbox [NATS/1.0; Nats-Stream: KV_asl-mesh; Nats-Subject: $KV.asl-mesh.halt; Nats-Sequence: #3; Nats-Time-Stamp: T; Nats-Num-Pending: 3; Nats-Last-Sequence: 0] {"halted":true}
inbox [NATS/1.0; Nats-Stream: KV_asl-mesh; Nats-Subject: $KV.asl-mesh.halt; Nats-Sequence: #4; Nats-Time-Stamp: T; Nats-Num-Pending: 2; Nats-Last-Sequence: #3] {"halted":false}
inbox [NATS/1.0; Nats-Stream: KV_asl-mesh; Nats-Subject: $KV.asl-mesh.halt; Nats-Sequence: #5; Nats-Time-Stamp: T; Nats-Num-Pending: 1; Nats-Last-Sequence: #4] {"halted":true}
inbox [NATS/1.0; Nats-Stream: KV_asl-mesh; Nats-Subject: $KV.asl-mesh.halt; Nats-Sequence: #6; Nats-Time-Stamp: T; Nats-Num-Pending: 0; Nats-Last-Sequence: #5] {"halted":false}
inbox [NATS/1.0 204 EOB; Nats-Num-Pending: 0; Nats-Last-Sequence: #2]`},
}

// page returns a page of the registry, with what ends it.
func (w *wire) page(request string) []string { return w.pageOf("KV_asl-who", request) }

func (w *wire) pageOf(stream, request string) (frames []string) {
	w.d.t.Helper()
	w.publish("$JS.API.DIRECT.GET."+stream, w.answers(), request)
	for {
		f := w.next()
		frames = append(frames, f)
		if strings.Contains(f, "[NATS/1.0 ") || !strings.Contains(f, "NATS/1.0") || !strings.Contains(request, "batch") {
			return frames
		}
	}
}
