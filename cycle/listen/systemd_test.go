package listen_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/cycle/listen"
)

// Notify writes to the socket of systemd.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(t, err)
	defer conn.Close()
	check(t, listen.Notify(path, listen.Ready))
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	check(t, err)
	if got := string(buf[:n]); got != "READY=1" {
		t.Errorf("logged %q", got)
	}
	check(t, listen.Notify("", listen.Ready))
	if err := listen.Notify(filepath.Join(t.TempDir(), "nobody"), listen.Ready); err == nil {
		t.Error("no error without a socket")
	}
}

func TestUnit(t *testing.T) {
	unit := listen.Unit([]string{"/opt/a $b/agentstateloop", "listen", `50%"$x`})
	for _, want := range []string{
		`ExecStart="/opt/a $b/agentstateloop" "listen" "50%%\"$$x"`, "KillMode=process", "Type=notify", "WantedBy=default.target",
	} {
		if !strings.Contains(unit, want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, unit)
		}
	}
}
