package mail_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// The servers of these tests try to exhaust the memory or the time of a poll.

// maxAttackMemory is the maximum number of bytes that an attack may make us allocate in total, most
// of it only briefly. The attacks themselves send gigabytes.
const maxAttackMemory = 512 << 20

// lie is a false response of a server at one point of a session.
type lie struct {
	at  string // greeting, login, select, search, header or body
	say func(w io.Writer, tag string)
}

// once returns a lie that consists of one text. TAG in it stands for the tag of the command.
func once(at, text string) lie {
	return lie{at, func(w io.Writer, tag string) { io.WriteString(w, strings.ReplaceAll(text, "TAG", tag)) }}
}

// endless returns a lie that consists of begin and repeated text. It ends when we hang up or have
// read 256 MiB.
func endless(at, begin, text string) lie {
	return lie{at, func(w io.Writer, _ string) {
		io.WriteString(w, begin)
		block := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
		for sent := 0; sent < 256<<20; sent += len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}}
}

// numbered is endless with a growing number in the text.
func numbered(at, begin, format string) lie {
	return lie{at, func(w io.Writer, _ string) {
		io.WriteString(w, begin)
		bw := bufio.NewWriterSize(w, 64<<10)
		for n := range 20_000_000 {
			if _, err := fmt.Fprintf(bw, format, n+1); err != nil {
				return
			}
		}
		bw.Flush()
	}}
}

// lies are the attacks on a scan, by name. The mailbox has one mail with UID 5, and the cursor is
// at 3.
var lies = map[string]lie{
	"an endless greeting":                 {"greeting", endless("", "", "x").say},
	"endless lines for a greeting":        {"greeting", endless("", "", "* OK x\r\n").say},
	"endless capabilities for a greeting": {"greeting", numbered("", "* OK [CAPABILITY", " X%d").say},
	"an endless answer to the login":      endless("login", "L1 NO ", "sorry "),
	"endless lines before the login":      endless("login", "", "* CAPABILITY IMAP4rev1\r\n"),
	"an endless refusal of SELECT":        endless("select", "T1 NO ", "sorry "),
	"endless flags":                       numbered("select", "* FLAGS (x", " f%d"),
	"endless permanent flags":             numbered("select", "* OK [PERMANENTFLAGS (x", " f%d"),
	"endless capabilities":                numbered("select", "* CAPABILITY IMAP4rev1", " X%d"),
	"an endless response code":            endless("select", "* OK [X ", "y"),
	"endless lists":                       endless("select", "", "* LIST () \"/\" x\r\n"),
	"a mailbox name that is a literal":    endless("select", "* LIST () \"/\" {99999999999}\r\n", "x"),
	"deep namespaces":                     endless("select", "* NAMESPACE ", "("),
	"deep threads":                        endless("select", "* THREAD ", "("),
	"deep body structures":                endless("select", "* 1 FETCH (BODYSTRUCTURE ", "("),
	"deep extensions":                     endless("select", "* 1 FETCH (BODYSTRUCTURE (\"a\" \"b\" NIL NIL NIL \"c\" 1 ", "("),
	"nested envelopes":                    endless("select", "* 1 FETCH (BODYSTRUCTURE ", `("message" "rfc822" NIL NIL NIL "7bit" 1 (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) `),
	"an envelope that is a literal":       endless("select", "* 1 FETCH (ENVELOPE ({99999999999}\r\n", "x"),
	"an endless quoted string":            endless("select", "* 1 FETCH (ENVELOPE (\"", "x"),
	"an endless atom":                     endless("select", "* ", "x"),
	"endless digits":                      endless("select", "* OK [UIDNEXT ", "9"),
	"endless continuations":               endless("select", "", "+ go on\r\n"),
	"endless EXISTS":                      numbered("select", "", "* %d EXISTS\r\n"),
	"endless expunges":                    endless("select", "", "* 1 EXPUNGE\r\n"),
	"UIDVALIDITY 0":                       once("select", "* OK [UIDVALIDITY 0] x\r\nTAG OK\r\n"),
	"UIDVALIDITY over 32 bits":            once("select", "* OK [UIDVALIDITY 4294967296] x\r\nTAG OK\r\n"),
	"UIDNEXT over 32 bits":                once("select", "* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 99999999999999999999] x\r\nTAG OK\r\n"),
	"a negative UIDNEXT":                  once("select", "* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT -1] x\r\nTAG OK\r\n"),
	"EXISTS over 32 bits":                 once("select", "* 99999999999999999999 EXISTS\r\nTAG OK\r\n"),

	"the last UID found":               once("search", "* SEARCH 4294967295\r\nTAG OK\r\n"),
	"the last UID found in a range":    once("search", "* ESEARCH (TAG \"TAG\") UID ALL 4294967290:4294967295\r\nTAG OK\r\n"),
	"every UID found":                  once("search", "* ESEARCH (TAG \"TAG\") UID ALL 1:4294967294\r\nTAG OK\r\n"),
	"900,000,000 UIDs found":           once("search", "* ESEARCH (TAG \"TAG\") UID ALL 1:900000000\r\nTAG OK\r\n"),
	"reversed ranges found":            once("search", "* ESEARCH UID ALL 900000000:1\r\nTAG OK\r\n"),
	"overlapping ranges found":         once("search", "* ESEARCH UID ALL 1:300000000,2:400000000,3:500000000\r\nTAG OK\r\n"),
	"no UIDs found but numbers":        once("search", "* ESEARCH ALL 1:900000000\r\nTAG OK\r\n"),
	"UID 0 found":                      once("search", "* SEARCH 0\r\nTAG OK\r\n"),
	"a star found":                     once("search", "* ESEARCH UID ALL *\r\nTAG OK\r\n"),
	"everything from 5 on found":       once("search", "* ESEARCH UID ALL 5:*\r\nTAG OK\r\n"),
	"a UID over 32 bits found":         once("search", "* SEARCH 4294967296\r\nTAG OK\r\n"),
	"a negative UID found":             once("search", "* SEARCH -1\r\nTAG OK\r\n"),
	"endless UIDs found":               numbered("search", "* SEARCH", " %d"),
	"endless UIDs found, one each":     numbered("search", "", "* SEARCH %d\r\n"),
	"an endless set":                   numbered("search", "* ESEARCH UID ALL 1", ",%d"),
	"an endless search":                endless("search", "* SEARCH", " 1"),
	"an EXISTS that excuses too much":  once("search", "* 4294967295 EXISTS\r\n* ESEARCH UID ALL 1:4294967295\r\nTAG OK\r\n"),
	"an endless extension of a search": endless("search", "* ESEARCH UID X ", "("),

	"headers that nobody asked for":   numbered("header", "", "* 1 FETCH (UID 1%d BODY[HEADER] {3}\r\nA:b)\r\n"),
	"endless answers without a UID":   endless("header", "", "* 1 FETCH (FLAGS ())\r\n"),
	"endless flags of a mail":         numbered("header", "* 1 FETCH (UID 5 FLAGS (x", " f%d"),
	"endless sizes of a mail":         endless("header", "* 1 FETCH (UID 5", " RFC822.SIZE 1"),
	"a negative size":                 once("header", "* 1 FETCH (UID 5 RFC822.SIZE -1)\r\nTAG OK\r\n"),
	"a size of 2^63":                  once("header", "* 1 FETCH (UID 5 RFC822.SIZE 9223372036854775808)\r\nTAG OK\r\n"),
	"a header of 99999999999 bytes":   endless("header", "* 1 FETCH (UID 5 BODY[HEADER] {99999999999}\r\n", "A: b\r\n"),
	"a header of 2^63 bytes":          endless("header", "* 1 FETCH (UID 5 BODY[HEADER] {9223372036854775808}\r\n", "A: b\r\n"),
	"a header of -1 bytes":            endless("header", "* 1 FETCH (UID 5 BODY[HEADER] {-1}\r\n", "A: b\r\n"),
	"a header in a quoted string":     endless("header", "* 1 FETCH (UID 5 BODY[HEADER] \"", "A"),
	"a section without end":           endless("header", "* 1 FETCH (UID 5 BODY[1", ".1"),
	"endless fields in the section":   endless("header", "* 1 FETCH (UID 5 BODY[HEADER.FIELDS (X", " X"),
	"an endless date":                 endless("header", "* 1 FETCH (UID 5 INTERNALDATE \"", "1"),
	"endless headers of one mail":     endless("header", "* 1 FETCH (UID 5", " BODY[HEADER] {3}\r\nA:b"),
	"an endless name of an attribute": endless("header", "* 1 FETCH (UID 5 ", "X"),
	"an answer to a header, never OK": endless("header", "* 1 FETCH (UID 5 BODY[HEADER] {3}\r\nA:b)\r\n", "* 1 FETCH (UID 5 BODY[HEADER] {3}\r\nA:b)\r\n"),

	"a body of 99999999999 bytes":  endless("body", "* 1 FETCH (UID 5 BODY[] {99999999999}\r\n", "A: b\r\n"),
	"a body in a quoted string":    endless("body", "* 1 FETCH (UID 5 BODY[] \"", "A"),
	"bodies that nobody asked for": numbered("body", "", "* 1 FETCH (UID 1%d BODY[] {3}\r\nA:b)\r\n"),
	"endless bodies of one mail":   endless("body", "* 1 FETCH (UID 5 BODY[] {6}\r\nA: b\r\n", " BODY[] {6}\r\nA: b\r\n"),
	"a body, and endless EXISTS":   numbered("body", "* 1 FETCH (UID 5 BODY[] {6}\r\nA: b\r\n)\r\n", "* %d EXISTS\r\n"),
	"a header for a body, endless": endless("body", "* 1 FETCH (UID 5 FLAGS (", "x "),
	"an endless refusal of a body": endless("body", "T3 NO ", "sorry "),
	"an endless alert":             endless("body", "* OK [ALERT] ", "sorry "),
	"bodies of all sections":       endless("body", "* 1 FETCH (UID 5", " BODY[1.2] {1}\r\nx"),
	"binary sections":              endless("body", "* 1 FETCH (UID 5", " BINARY[1] {1}\r\nx"),
	"the size of a binary section": endless("body", "* 1 FETCH (UID 5", " BINARY.SIZE[1] 4294967295"),
	"mod-sequences":                endless("body", "* 1 FETCH (UID 5", " MODSEQ (18446744073709551615)"),
	"a mod-sequence over 64 bits":  once("body", "* 1 FETCH (UID 5 MODSEQ (18446744073709551616))\r\nTAG OK\r\n"),
}

// lyingServer answers as an IMAP server with one mail does, except for its lie.
func lyingServer(t *testing.T, l lie) (addr string) {
	head := operatorHeader
	uidNext := "* OK [UIDNEXT 6] x\r\n"
	if l.at == "search" {
		uidNext = "* OK [UIDNEXT 4000000000] x\r\n" // too far to read all headers
	}
	honest := map[string]string{
		"LOGIN": "L1 OK in\r\n", "SELECT": "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n" + uidNext + "TAG OK\r\n",
		"SEARCH": "* SEARCH 5\r\nTAG OK\r\n",
		"HEADER": fmt.Sprintf("* 1 FETCH (UID 5 RFC822.SIZE 60 BODY[HEADER] {%d}\r\n%s)\r\nTAG OK\r\n", len(head), head),
		"BODY[]": fmt.Sprintf("* 1 FETCH (UID 5 BODY[] {%d}\r\n%s)\r\nTAG OK\r\n", len(head), head),
	}
	return startServer(t, func(c net.Conn) {
		if l.at == "greeting" {
			l.say(c, "")
			return
		}
		io.WriteString(c, "* OK hi\r\n")
		for tag, command := range commands(bufio.NewReader(c)) {
			for _, point := range []string{"LOGIN", "SELECT", "SEARCH", "HEADER", "BODY[]"} {
				switch command = strings.ReplaceAll(command, ".PEEK", ""); {
				case !strings.Contains(command, point):
				case strings.EqualFold(strings.Trim(point, "[]"), l.at):
					l.say(c, tag)
				default:
					io.WriteString(c, strings.ReplaceAll(honest[point], "TAG", tag))
				}
			}
		}
	})
}

// TestHostileServers checks that a scan of a lying server ends, uses little memory, and leaves a
// valid cursor.
func TestHostileServers(t *testing.T) {
	t.Logf("%d attacks", len(lies))
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			b := plainMailbox(lyingServer(t, l))
			cur := state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 3}
			b.Ahead = cur
			var got mail.Scan
			wantLittleMemory(t, func() {
				s, err := b.Open(t.Context())
				if err == nil {
					defer s.Close()
					got, err = s.Scan(t.Context(), cur, filter, 10, discard)
					cur = got.Cursor
				}
				t.Logf("%v", err)
				if err == nil && l.at != "body" && l.at != "header" {
					t.Error("no error")
				}
			})
			if cur.Next < 3 || cur.Next > 6 || len(cur.Owed) > 1 || l.at == "search" && cur.Next != 3 {
				t.Errorf("the cursor is %+v", cur)
			}
			for _, m := range got.Messages {
				if m.UID != 5 {
					t.Errorf("UID %d came in", m.UID)
				}
			}
		})
	}
}

// wantLittleMemory fails if f takes more memory than an attack may take.
func wantLittleMemory(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if heap := after.TotalAlloc - before.TotalAlloc; heap > maxAttackMemory {
		t.Errorf("it took %d MiB", heap>>20)
	}
	if stack := max(after.StackSys, before.StackSys) - before.StackSys; stack > maxAttackMemory {
		t.Errorf("its stacks took %d MiB", stack>>20)
	}
}

// TestHugeSelect checks a mailbox with the largest numbers.
func TestHugeSelect(t *testing.T) {
	for _, selected := range []string{
		"* 4294967295 EXISTS\r\n* OK [UIDVALIDITY 4294967295] x\r\n* OK [UIDNEXT 4294967295] x\r\nTAG OK\r\n",
		"* 4294967295 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK\r\n",
	} {
		b := plainMailbox(lyingServer(t, once("select", selected)))
		wantLittleMemory(t, func() {
			l, err := scan(t, b, state.Cursor{}, 10, discard)
			if err != nil || l.Cursor.Next == 0 || !slices.Equal(uids(l), []uint32{5}) {
				t.Errorf("the cursor is %+v, taken %v, %v", l.Cursor, uids(l), err)
			}
		})
	}
}

// TestHostileIdle checks that a watch ends if its server floods us with news of any kind.
func TestHostileIdle(t *testing.T) {
	for name, l := range map[string]lie{
		"EXISTS":   numbered("", "", "* %d EXISTS\r\n"),
		"chatter":  endless("", "", "* OK still here\r\n"),
		"no line":  endless("", "* OK ", "x"),
		"unasked":  endless("", "", "* 1 FETCH (FLAGS ())\r\n"),
		"literals": endless("", "* 1 FETCH (UID 5 BODY[] {99999999999}\r\n", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			addr := startServer(t, func(c net.Conn) {
				br := answerLogin(c, "* OK [UIDNEXT 6] x\r\n")
				br.ReadString('\n')
				io.WriteString(c, "+ idling\r\n")
				l.say(c, "")
			})
			wantLittleMemory(t, func() {
				w, err := plainMailbox(addr).Watch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				for n := 0; err == nil; n++ {
					if err = w.Wait(t.Context()); n > 100_000 {
						t.Fatal("still at it")
					}
				}
				t.Log(err)
			})
		})
	}
}

// TestHostileSMTP checks that a mail server with endless replies does not block a delivery.
func TestHostileSMTP(t *testing.T) {
	replies := map[string]lie{
		"an endless greeting": endless("greeting", "220 ", "x"), "endless lines of greeting": endless("greeting", "", "220-x\r\n"),
		"an endless refusal": endless("greeting", "554 ", "x"), "no SMTP": endless("greeting", "", "\x00"),
		"endless extensions": numbered("EHLO", "", "250-X%d\r\n"), "an endless extension": endless("EHLO", "250-", "X"),
		"an endless reply to MAIL": endless("MAIL", "", "250-x\r\n"), "an endless refusal of MAIL": endless("MAIL", "", "550-x\r\n"),
		"an endless reply to RCPT": endless("RCPT", "", "250-x\r\n"), "an endless line to RCPT": endless("RCPT", "550 ", "x"),
		"an endless reply to DATA": endless("DATA", "", "354-x\r\n"), "an endless reply to the dot": endless(".", "", "250-x\r\n"),
		"an endless refusal of the dot": endless(".", "", "554-x\r\n"), "an endless line after the dot": endless(".", "554 ", "x"),
	}
	t.Logf("%d attacks", len(replies))
	for name, l := range replies {
		t.Run(name, func(t *testing.T) {
			addr := startServer(t, func(c net.Conn) {
				if l.at == "greeting" {
					l.say(c, "")
					return
				}
				io.WriteString(c, "220 hi\r\n")
				for verb := range commands(bufio.NewReader(c)) {
					switch verb {
					case l.at:
						l.say(c, "")
					case "DATA":
						io.WriteString(c, "354 go\r\n")
					case "EHLO", "MAIL", "RCPT", ".":
						io.WriteString(c, "250 ok\r\n")
					}
				}
			})
			server := mail.Server{Addr: addr, TLS: mail.TLSNone, Timeout: time.Minute}
			wantLittleMemory(t, func() {
				err := sendTo(t.Context(), server)
				if err == nil {
					t.Error("no error")
				} else if len(err.Error()) > 1000 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
				t.Logf("%.200v", err)
			})
		})
	}
}

// sendTo sends a mail through a server without a login.
func sendTo(ctx context.Context, server mail.Server) error {
	c, err := server.OpenSender(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Send(ctx, "a@example.com", []string{"b@example.com"}, strings.NewReader("Subject: x\r\n\r\nx\r\n"), nil)
}
