package commands

import "testing"

func TestListenLoopback(t *testing.T) {
	for _, bad := range []string{"", "8801", "0.0.0.0:0", ":0", "example.com:0", "192.0.2.1:0"} {
		if l, err := listenLoopback(bad); err == nil {
			l.Close()
			t.Errorf("--addr %q was taken", bad)
		}
	}
	l, err := listenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenLoopback(l.Addr().String()); exitCode(err) != exitError || hintOf(err) == "" {
		t.Errorf("a port that is taken: %v", err)
	}
}
