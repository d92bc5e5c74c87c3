package doctor

import (
	"context"
	"net"
	"strings"

	"agentstateloop/cycle"
)

// sentCheck looks at the folder for copies of our mail ([replies] sent).
type sentCheck struct {
	mail   *cycle.Mail
	folder string // "" for no copies
}

// ownCopies are the domains of mail servers that save a copy to the folder for sent mail
// themselves.
var ownCopies = []string{
	"gmail.com", "googlemail.com", "office365.com", "outlook.com", "hotmail.com", "live.com", "yahoo.com", "aol.com", "zoho.com", "zoho.eu", "protonmail.com", "proton.me",
}

// makesCopies returns the name of the server if it saves copies itself, or "".
func makesCopies(smtp string) string {
	host, _, err := net.SplitHostPort(smtp)
	if err != nil {
		host = smtp
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, end := range ownCopies {
		if host == end || strings.HasSuffix(host, "."+end) {
			return host
		}
	}
	return ""
}

func (c sentCheck) run(ctx context.Context) []Finding {
	const name = "sent"
	itself := makesCopies(c.mail.SMTP.Addr)
	if c.folder == "" && itself != "" {
		return []Finding{good(name, "%s keeps copies of what it sends", itself)}
	}
	marked, there, err := c.mail.Mailbox.SentFolders(ctx, c.folder)
	switch {
	case err != nil:
		return []Finding{skip(name, "the folders could not be read", "see imap")}
	case c.folder == "":
		folder := "Sent"
		if len(marked) > 0 {
			folder = marked[0]
		}
		return []Finding{good(name, "the mailbox keeps no copies of what the agent sends: sent = %q in [replies] would", folder)}
	case !there:
		hint := "make the folder in your mail program, or name another one in [replies] sent"
		if len(marked) > 0 {
			hint = `set sent = "` + marked[0] + `" in [replies]: the server says that it is for sent mail`
		}
		return []Finding{bad(Warn, name, hint, "the mailbox has no folder %q, so no copy of a mail can be made", c.folder)}
	case itself != "":
		return []Finding{bad(Info, name, "you may leave out sent in [replies]: no mail is copied twice", "%s keeps copies of what it sends itself", itself)}
	}
	return []Finding{good(name, "copies of sent mail go to %q", c.folder)}
}
