package memory

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// errGoodbye ends a connection for a reason that the client was told.
var errGoodbye = errors.New("the client was sent away")

// listen handles the commands of a client until its connection ends, which may be in the
// middle of one.
func (e *Engine) listen(c *client) {
	from := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		line, err := command(from)
		if err != nil {
			return
		}
		if err := e.handle(c, line, from); err != nil {
			return
		}
	}
}

// command reads the line of a command.
func command(from *bufio.Reader) (string, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) > maxLine {
		return "", errGoodbye
	}
	return strings.TrimRight(string(line), lineEnd), nil
}

func (e *Engine) handle(c *client, line string, from *bufio.Reader) error {
	name, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch strings.ToUpper(name) {
	case "":
		return nil
	case "CONNECT":
		return e.connect(c, rest)
	case "PUB", "HPUB":
		return e.readMessage(c, args, strings.EqualFold(name, "HPUB"), from)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch strings.ToUpper(name) {
	case "PING":
		c.out.add([]byte("PONG" + lineEnd))
	case "PONG":
	case "SUB":
		return e.subscribe(c, args)
	case "UNSUB":
		return e.unsubscribe(c, args)
	default:
		c.refuse("Unknown Protocol Operation")
		return errGoodbye
	}
	return nil
}

// connect lets a user in whose key made the signature.
func (e *Engine) connect(c *client, options string) error {
	var o struct {
		Key          string `json:"nkey"`
		Signature    string `json:"sig"`
		Verbose      bool   `json:"verbose"`
		NoResponders bool   `json:"no_responders"`
	}
	err := json.Unmarshal([]byte(options), &o)
	e.mu.Lock()
	defer e.mu.Unlock()
	who := e.users[o.Key]
	if err != nil || who == nil || !signed(o.Key, o.Signature, c.nonce) {
		c.refuse("Authorization Violation")
		return errGoodbye
	}
	c.user, c.verbose, c.noResponders = who, o.Verbose, o.NoResponders
	c.ok()
	return nil
}

// ok confirms a command to a client that wants it.
func (c *client) ok() {
	if c.verbose {
		c.out.add([]byte("+OK" + lineEnd))
	}
}

// readMessage reads what a client publishes.
func (e *Engine) readMessage(c *client, args []string, withHeader bool, from *bufio.Reader) error {
	m, headerSize, size, ok := published(args, withHeader)
	if !ok {
		c.refuse("Parser Error")
		return errGoodbye
	}
	if size > maxPayload {
		c.refuse("Maximum Payload Violation")
		return errGoodbye
	}
	data := make([]byte, size+len(lineEnd))
	if _, err := io.ReadFull(from, data); err != nil {
		return err // what came of it counts for nothing
	}
	if withHeader {
		m.header = data[:headerSize:headerSize]
	}
	m.body = data[headerSize:size:size]
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.user == nil {
		c.refuse("Authorization Violation")
		return errGoodbye
	}
	if !c.user.mayPublish(m.subject) {
		c.refuse("Permissions Violation for Publish to " + strconv.Quote(m.subject))
		return nil
	}
	if reserved(m.reply) {
		c.refuse("Permissions Violation for Publish with Reply of " + strconv.Quote(m.reply))
		return nil
	}
	c.ok()
	m.agents = c.user.isAgent()
	if !e.publish(m) {
		c.nobodyThere(m)
	}
	return nil
}

// reserved reports whether a subject is one that no client may name as its reply. An answer
// there could count as an acknowledgement.
func reserved(reply string) bool {
	for _, prefix := range []string{"$JS.ACK.", "_R_.", "_GR_.", "$GR."} {
		if strings.HasPrefix(reply, prefix) {
			return true
		}
	}
	return false
}

// published reads the arguments of PUB or HPUB.
func published(args []string, withHeader bool) (m message, header, size int, ok bool) {
	sizes := 1
	if withHeader {
		sizes = 2
	}
	if len(args) != 1+sizes && len(args) != 2+sizes {
		return m, 0, 0, false
	}
	m.subject = args[0]
	if len(args) == 2+sizes {
		m.reply = args[1]
	}
	var err error
	if size, err = strconv.Atoi(args[len(args)-1]); err != nil || size < 0 {
		return m, 0, 0, false
	}
	if withHeader {
		if header, err = strconv.Atoi(args[len(args)-2]); err != nil || header < 0 || header > size {
			return m, 0, 0, false
		}
	}
	return m, header, size, true
}

// nobodyThere tells a client that waits for an answer that none will come.
func (c *client) nobodyThere(m message) {
	if m.reply == "" || !c.noResponders {
		return
	}
	if s := c.subscription(m.reply); s != nil {
		none := status(503, "", "Nats-Subject", m.subject)
		none.subject = m.reply
		c.send(s.id, none)
	}
}

func (e *Engine) subscribe(c *client, args []string) error {
	if len(args) != 2 { // with a queue group there are three, which nobody here uses
		c.refuse("Parser Error")
		return errGoodbye
	}
	subject, id := args[0], args[1]
	switch {
	case c.user == nil:
		c.refuse("Authorization Violation")
		return errGoodbye
	case !valid(subject):
		c.refuse("Invalid Subject")
		return nil
	case !c.user.maySubscribe(subject):
		c.refuse("Permissions Violation for Subscription to " + strconv.Quote(subject))
		return nil
	}
	c.subscriptions = append(c.subscriptions, &subscription{subject: subject, id: id, left: -1})
	c.ok()
	return nil
}

func (e *Engine) unsubscribe(c *client, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		c.refuse("Parser Error")
		return errGoodbye
	}
	c.ok()
	if len(args) == 1 {
		c.unsubscribe(args[0])
		return nil
	}
	left, err := strconv.Atoi(args[1])
	if err != nil {
		c.refuse("Parser Error")
		return errGoodbye
	}
	for _, s := range c.subscriptions {
		if s.id == args[0] {
			s.left = left
		}
	}
	return nil
}
