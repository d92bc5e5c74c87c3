package mail_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// talk is the script of the server in FuzzScan: after login and SELECT one part for each command,
// in which only TAG is replaced. After the last part the server hangs up or is silent.
type talk struct {
	parts  [][]byte
	silent bool
}

// talkEnd separates the parts of a talk.
const talkEnd = "\x00"

// serve answers on conn. It does not read for ever.
func (k talk) serve(conn net.Conn, uidNext uint32) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	br := answerLogin(conn, fmt.Sprintf("* 4 EXISTS\r\n* OK [UIDNEXT %d] x\r\n", uidNext))
	for _, part := range k.parts {
		line, err := br.ReadString('\n')
		if err != nil {
			return
		}
		tag, _, _ := strings.Cut(line, " ")
		conn.Write(bytes.ReplaceAll(part, []byte("TAG"), []byte(tag)))
	}
	if k.silent {
		io.Copy(io.Discard, br)
	}
}

// shownUIDs returns the UIDs that the server has named anywhere.
func (k talk) shownUIDs() map[uint32]bool {
	uids := map[uint32]bool{}
	for _, m := range namedUID.FindAllSubmatch(bytes.Join(k.parts, []byte(" ")), -1) {
		if n, err := strconv.ParseUint(string(m[1]), 10, 32); err == nil {
			uids[uint32(n)] = true
		}
	}
	return uids
}

// namedUID matches a UID in a response to FETCH.
var namedUID = regexp.MustCompile(`(?i)UID +0*([0-9]+)`)

// FuzzScan scans a mailbox with arbitrary responses of the server. The input sets the number of new
// UIDs, whether one mail is fetched or all are scanned, and every byte of the responses. The scan
// ends and uses little memory. It keeps no mail twice and passes no UID that the server has not
// shown.
func FuzzScan(f *testing.F) {
	mailOf := func(uid int, section string) string {
		return fmt.Sprintf("* 1 FETCH (UID %d RFC822.SIZE 60 BODY[%s] {%d}\r\n%s)\r\n", uid, section, len(operatorHeader), operatorHeader)
	}
	ok := "TAG OK\r\n"
	join := func(parts ...string) []byte { return []byte(strings.Join(parts, talkEnd)) }
	f.Add(uint16(3), false, false, join(mailOf(1, "HEADER")+ok, mailOf(1, "")+ok, mailOf(5, "HEADER")+mailOf(6, "HEADER")+ok, mailOf(6, "")+mailOf(5, "")+ok))
	f.Add(uint16(2), true, false, join(mailOf(2, "HEADER")+ok, mailOf(2, "")+ok))
	f.Add(uint16(3), false, true, join(mailOf(1, "HEADER")+ok, mailOf(1, "")+mailOf(1, "")+ok, ok, mailOf(5, "")+ok))
	f.Add(uint16(5000), false, false, join(ok, "* SEARCH 7 9 9 7\r\n"+ok, mailOf(9, "HEADER")+mailOf(7, "HEADER")+mailOf(9, "HEADER")+ok, "TAG NO no\r\n", mailOf(7, "")+ok, mailOf(9, "")+"* 2 FETCH (FLAGS (x))\r\n"+ok))
	f.Add(uint16(4), false, false, join("* 1 FETCH (UID 1 BODY[HEADER] {999999}\r\nFrom: operator", ok))
	f.Add(uint16(4), false, false, join("* 1 FETCH (BODY[HEADER] {5}\r\nA: b\n UID 5)\r\n"+ok, "* 1 FETCH (UID 5 BODY[] NIL)\r\n"+ok, "* BYE\r\n"))
	f.Add(uint16(9), false, true, join("* 1 FETCH (UID 4 BODY[HEADER] \"\")\r\n* 3 EXPUNGE\r\n* ESEARCH (TAG \"x\") UID ALL 1:*\r\nTAG BAD x\r\n"))
	f.Fuzz(func(t *testing.T, news uint16, apart, silent bool, answers []byte) {
		if len(answers) > 16<<10 {
			return
		}
		k := talk{bytes.Split(answers, []byte(talkEnd)), silent}
		cur := state.Cursor{Validity: 7, Next: 4, Owed: []uint32{1, 2}, Large: []uint32{2}, Complete: noon}
		uidNext := cur.Next + uint32(news)
		b := plainMailbox(startServer(t, func(c net.Conn) { k.serve(c, uidNext) }))
		b.Timeout, b.Large = 100*time.Millisecond, 10<<10
		cur.Mailbox = b.ID()
		s, err := b.Open(t.Context())
		if err != nil {
			return // the machine is busy
		}
		defer s.Close()

		deliveries := map[uint32]int{}
		keep := func(m *mail.Message, raw io.Reader) error {
			_, err := io.Copy(io.Discard, raw)
			if err == nil {
				deliveries[m.UID]++
			}
			return err
		}
		var got mail.Scan
		ended := make(chan struct{})
		before := allocated()
		go func() {
			defer close(ended)
			if apart {
				got, err = s.FetchLarge(t.Context(), cur, 2, filter, keep)
			} else {
				got, err = s.Scan(t.Context(), cur, filter, 10, keep)
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			stacks := make([]byte, 1<<20)
			t.Fatalf("it hangs:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		if n := allocated() - before; n > 64<<20 {
			t.Errorf("it took %d MiB", n>>20)
		}
		if apart {
			cur = state.Cursor{Next: cur.Next, Owed: []uint32{2}}
		}
		checkScan(t, cur, got, deliveries, k.shownUIDs())
	})
}

// allocated returns the number of bytes that this process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// checkScan checks the result of a scan that began with cur: deliveries counts the mails
// by UID, shown are the UIDs that the server has named.
func checkScan(t *testing.T, cur state.Cursor, got mail.Scan, deliveries map[uint32]int, shown map[uint32]bool) {
	for uid, n := range deliveries {
		if n > 1 || !shown[uid] {
			t.Errorf("UID %d was kept %d times", uid, n)
		}
	}
	for i, m := range got.Messages {
		if deliveries[m.UID] == 0 || i > 0 && m.UID == got.Messages[i-1].UID {
			t.Errorf("UID %d among the mails %v was kept %d times", m.UID, uids(got), deliveries[m.UID])
		}
	}
	c := got.Cursor
	if c.Next < cur.Next || !slices.IsSorted(c.Owed) || !slices.IsSorted(c.Large) {
		t.Errorf("the cursor is %+v", c)
	}
	due := slices.Clone(cur.Owed)
	for uid := cur.Next; uid < c.Next; uid++ {
		due = append(due, uid)
	}
	for _, uid := range due {
		if !shown[uid] && !slices.Contains(c.Owed, uid) && !c.Unseen.Contains(uid) {
			t.Fatalf("UID %d was passed unseen: the cursor is %+v", uid, c)
		}
	}
	for _, uid := range c.Large {
		if !slices.Contains(c.Owed, uid) {
			t.Errorf("UID %d is large and not owed", uid)
		}
	}
}
