package commands

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

// verifyOutput is the JSON output of history --verify.
type verifyOutput struct {
	Agent    string `json:"agent"`
	Serial   uint64 `json:"serial"` // of the line named in the mail
	Sum      string `json:"sum"`    // of that line
	Verified bool   `json:"verified"`
	Reason   string `json:"reason"` // the reason if Verified is false, or ""
}

// compare compares the history with the history head in one of the agent's mails.
func (o *historyOptions) compare(c *call) error {
	if flag := c.given(&o.cost, &o.by, &o.follow, &o.search, &o.n, &o.all); flag != "" {
		return terminal.Usagef("", "--verify checks the history against a mail: --%s does not work with it", flag)
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	head, err := c.readHead(a.Handle, o.verify)
	if err != nil {
		return err
	}
	audit, err := a.Store.Audit()
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	wrong := audit.Holds(head)
	if c.json {
		out := verifyOutput{Agent: a.Handle, Serial: head.Serial, Sum: head.Sum, Verified: wrong == nil}
		if wrong != nil {
			out.Reason = wrong.Error()
		}
		if err := c.out.JSON(out); err != nil {
			return err
		}
	} else if wrong == nil {
		c.out.Printf("the history matches this mail: no line up to serial %d was changed\n", head.Serial)
	}
	if wrong != nil {
		return terminal.WithHint(
			fmt.Errorf("the history does not match this mail: lines up to serial %d were changed (%w)", head.Serial, wrong),
			"try an older mail to see how far the history can be trusted; `"+name+" doctor` lists the damaged places")
	}
	return nil
}

// readHead returns the head from the argument of --verify: "SERIAL.SUM" itself, or the mail in a
// file or, for "-", on standard input.
func (c *call) readHead(handle, arg string) (store.Head, error) {
	if head, ok := store.ParseHead(strings.TrimSpace(arg)); ok {
		return head, nil
	}
	raw, err := c.readMail(arg)
	if err != nil {
		return store.Head{}, err
	}
	return headOf(handle, raw)
}

// readMail returns the header of the mail in a file, or on standard input for "-".
func (c *call) readMail(arg string) ([]byte, error) {
	from := c.stdin
	if arg != "-" {
		f, err := os.Open(arg)
		if errors.Is(err, fs.ErrNotExist) {
			missing := fmt.Errorf("%s: %w", plain.Shorten(plain.Line(arg), 100), fs.ErrNotExist)
			return nil, coded(codeNotFound, terminal.WithHint(missing, "give the file of a saved mail, - for standard input, or the value of its field "+message.HistoryField))
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, message.MaxHeader))
	if err != nil {
		return nil, fmt.Errorf("read mail: %w", err)
	}
	return raw, nil
}

// headOf returns the head in a mail of the agent with this handle.
func headOf(handle string, raw []byte) (store.Head, error) {
	var values []string
	for _, f := range message.Fields(raw) {
		if strings.EqualFold(f.Name, message.HistoryField) {
			values = append(values, f.Value)
		}
	}
	agent := message.ParseHeader(raw).Agent
	switch {
	case agent != "" && agent != handle:
		return store.Head{}, fmt.Errorf("this mail is from the agent %q, not from %s", plain.Shorten(plain.Line(agent), 40), handle)
	case len(values) == 0:
		return store.Head{}, terminal.WithHint(fmt.Errorf("this mail has no field %s", message.HistoryField),
			"save the mail with its full header; mails of older versions, and the first mail of an agent, do not have the field")
	case len(values) > 1:
		return store.Head{}, fmt.Errorf("this mail has %d fields named %s: someone added one", len(values), message.HistoryField)
	}
	head, ok := store.ParseHead(values[0])
	if !ok {
		return store.Head{}, fmt.Errorf("the field %s of this mail is not SERIAL.SUM: %q", message.HistoryField, plain.Shorten(plain.Line(values[0]), 60))
	}
	return head, nil
}
