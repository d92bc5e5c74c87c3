package listen

import (
	"fmt"
	"net"
	"strings"
)

// The states reported to systemd (sd_notify(3)).
const (
	Ready    = "READY=1"
	Alive    = "WATCHDOG=1"
	Stopping = "STOPPING=1"
)

// Notify reports state to systemd. socket is the value of $NOTIFY_SOCKET; if it is "", Notify
// does nothing.
func Notify(socket, state string) error {
	if socket == "" {
		return nil
	}
	if name, abstract := strings.CutPrefix(socket, "@"); abstract {
		socket = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Unit returns a systemd user unit that runs argv. Stopping the unit ends only the listener's
// own process, so turns survive a restart.
func Unit(argv []string) string {
	var words []string
	for _, w := range argv {
		words = append(words, quote(w))
	}
	return `[Unit]
Description=agentStateLoop: wake agents at once
After=network-online.target

[Service]
Type=notify
ExecStart=` + strings.Join(words, " ") + `
Restart=always
RestartSec=5
WatchdogSec=60
KillMode=process

[Install]
WantedBy=default.target
`
}

// quote returns s as a single word of ExecStart (systemd.service(5), COMMAND LINES).
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(s)
	return `"` + s + `"`
}
