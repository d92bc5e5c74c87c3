package config

import "testing"

// BenchmarkLoad measures the load of a configuration at each start, for an agent with a
// mailbox and a mesh: reading its file and wiring the agent.
func BenchmarkLoad(b *testing.B) {
	path := writeConfig(b, `
[agent]
handle = "goulard"
operator = ["operator@example.org"]

[mail]
address = "agent@example.org"
imap = { host = "imap.example.org:993", username = "goulard", password_file = "imap.pw" }
smtp = { host = "smtp.example.org:465" }

[trust]
verify = "server"
authserv_id = "mx.example.org"

[mesh]
url = "http://127.0.0.1:8801"
token_file = "mesh.token"
peers = ["dorlange"]

[turn]
command = ["./agent"]
`)
	l := newTestLoader()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
