package memory_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// patience is how long an answer may take that must come.
const patience = 10 * time.Second

// wire is one connection of a user, of which each frame is seen.
type wire struct {
	d      *dialogue
	handle string
	conn   net.Conn
	inbox  string
	asked  int
	frames chan string // as text; is closed when the connection ends
}

// connect connects with the key of a handle, "" for the administrator, and listens to its
// own inbox.
func (d *dialogue) connect(handle string) *wire {
	d.t.Helper()
	w := d.open(d.keys[handle].Seed, d.keys[handle].Public)
	if got := w.next(); got != "PONG" {
		d.t.Fatalf("connect as %q: %s", handle, got)
	}
	w.write("SUB " + w.inbox + ".* 1\r\n")
	return w
}

// open connects with the seed of one key and says that it has another.
func (d *dialogue) open(seed, public string) *wire {
	d.t.Helper()
	conn, err := d.dial()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	d.opened++
	w := &wire{d: d, handle: d.handleOf(public), conn: conn, frames: make(chan string, 1000)}
	w.inbox = fmt.Sprintf("_INBOX_%s.%s%d", w.handle, d.bob, d.opened)
	from := bufio.NewReader(conn)
	greeting, err := from.ReadString('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(greeting, "INFO ")), &info); err != nil {
		d.t.Fatal(err)
	}
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		d.t.Fatal(err)
	}
	signature, err := pair.Sign([]byte(info.Nonce))
	if err != nil {
		d.t.Fatal(err)
	}
	go w.read(from)
	w.write(fmt.Sprintf("CONNECT {\"nkey\":%q,\"sig\":%q,\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1,\"lang\":\"go\",\"version\":\"1\"}\r\nPING\r\n",
		public, base64.RawURLEncoding.EncodeToString(signature)))
	return w
}

func (w *wire) write(text string) {
	w.d.t.Helper()
	if _, err := io.WriteString(w.conn, text); err != nil {
		w.d.t.Fatal(err)
	}
}

// read reads frames until the connection ends.
func (w *wire) read(from *bufio.Reader) {
	defer close(w.frames)
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		args := strings.Fields(line)
		switch {
		case len(args) == 0, args[0] == "INFO":
			continue
		case args[0] == "PING":
			_, _ = io.WriteString(w.conn, "PONG\r\n")
			continue
		case args[0] != "MSG" && args[0] != "HMSG":
			w.frames <- line
			continue
		}
		size, err := strconv.Atoi(args[len(args)-1])
		if err != nil {
			return
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(from, data); err != nil {
			return
		}
		w.frames <- frame(args, string(data[:size]))
	}
}

// frame returns a message as text: its subjects, its header, its body.
func frame(args []string, data string) string {
	text, header := args[1], ""
	args, sizes := args[3:], 1
	if strings.HasPrefix(data, "NATS/1.0") {
		header, data, _ = strings.Cut(data, "\r\n\r\n")
		sizes = 2
	}
	if len(args) > sizes {
		text += " reply " + args[0]
	}
	if header != "" {
		text += " [" + strings.ReplaceAll(header, "\r\n", "; ") + "]"
	}
	return strings.TrimRight(text+" "+data, " ")
}

// next returns the next frame.
func (w *wire) next() string {
	select {
	case f, ok := <-w.frames:
		if !ok {
			return "the connection ended"
		}
		return f
	case <-time.After(patience):
		return "nothing came"
	}
}

// publish publishes a message, with header fields as lines.
func (w *wire) publish(subject, reply, body string, header ...string) {
	w.d.t.Helper()
	address := subject + " "
	if reply != "" {
		address += reply + " "
	}
	if len(header) == 0 {
		w.write(fmt.Sprintf("PUB %s%d\r\n%s\r\n", address, len(body), body))
		return
	}
	fields := "NATS/1.0\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n"
	w.write(fmt.Sprintf("HPUB %s%d %d\r\n%s%s\r\n", address, len(fields), len(fields)+len(body), fields, body))
}

// ask publishes a request and returns the next frame.
func (w *wire) ask(subject, body string, header ...string) string {
	w.d.t.Helper()
	w.publish(subject, w.answers(), body, header...)
	return w.next()
}

// answers returns a subject of our own for the answers to one request.
func (w *wire) answers() string {
	w.asked++
	return fmt.Sprintf("%s.%d", w.inbox, w.asked)
}

// synced returns what came until the server had handled all that was sent.
func (w *wire) synced() string {
	w.d.t.Helper()
	w.write("PING\r\n")
	var all []string
	for {
		f := w.next()
		if f == "PONG" {
			break
		}
		all = append(all, f)
		if f == "nothing came" || f == "the connection ended" {
			break
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "\n")
}
