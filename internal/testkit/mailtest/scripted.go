package mailtest

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Scripted is an IMAP server on loopback, in clear text, with one mailbox. It answers
// truthfully unless Lie or Answer says otherwise. Its fields may be changed under Lock; the
// functions are called with the lock held.
type Scripted struct {
	Addr string // host:port

	sync.Mutex
	Validity uint32
	Next     uint32                   // UIDNEXT; 0 if the server does not send it
	Mails    map[uint32]*ScriptedMail // by UID
	Sessions int                      // number of logins so far
	Commands []string                 // commands after SELECT, without their tags

	// Lie, if not nil, replaces the answer to FETCH for one mail. It returns "" for the true
	// answer, Nothing, HangUp, or a line without its end.
	Lie func(session int, uid uint32, body bool) string

	// Answer, if not nil, replaces the answer to a whole command. It returns the answer with
	// TAG for its tag at the start of a line, or "" for the true answer.
	Answer func(session int, command string) string
}

// ScriptedMail is one mail of a Scripted server.
type ScriptedMail struct {
	Raw  string
	Seen bool
	At   time.Time // INTERNALDATE
}

// The values that Lie may return besides a line.
const (
	Nothing = "nothing"
	HangUp  = "hang up"
)

// StartScripted starts a server for one test. Any login is accepted.
func StartScripted(t T) *Scripted {
	t.Helper()
	s := &Scripted{Validity: 7, Next: 1, Mails: map[uint32]*ScriptedMail{}}
	s.Addr = Listen(t, s.serve)
	return s
}

// Put adds an unread mail under the next UID, and returns the UID.
func (s *Scripted) Put(raw string, at time.Time) uint32 {
	s.Lock()
	defer s.Unlock()
	uid := s.Next
	s.Mails[uid] = &ScriptedMail{Raw: raw, At: at}
	s.Next++
	return uid
}

// Do changes the server under its lock, and forgets the commands so far.
func (s *Scripted) Do(change func(*Scripted)) {
	s.Lock()
	defer s.Unlock()
	s.Commands = nil
	change(s)
}

func (s *Scripted) serve(c net.Conn) {
	s.Lock()
	s.Sessions++
	session := s.Sessions
	s.Unlock()
	fmt.Fprint(c, "* OK hi\r\n")
	br := bufio.NewReader(c)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return
		}
		tag, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		answer := s.answer(session, command)
		if answer == HangUp {
			return
		}
		before, _, cut := strings.Cut(answer, HangUp)
		if _, err := fmt.Fprint(c, strings.ReplaceAll("\n"+before, "\nTAG ", "\n"+tag+" ")[1:]); err != nil || cut {
			return
		}
	}
}

func (s *Scripted) answer(session int, command string) string {
	s.Lock()
	defer s.Unlock()
	verb, rest, _ := strings.Cut(command, " ")
	if verb == "UID" {
		verb, rest, _ = strings.Cut(rest, " ")
	}
	if verb == "FETCH" || verb == "SEARCH" || verb == "STORE" {
		s.Commands = append(s.Commands, command)
	}
	if s.Answer != nil {
		if said := s.Answer(session, command); said != "" {
			return said
		}
	}
	switch verb {
	case "SELECT":
		next := ""
		if s.Next != 0 {
			next = fmt.Sprintf("* OK [UIDNEXT %d] x\r\n", s.Next)
		}
		return fmt.Sprintf("* %d EXISTS\r\n* OK [UIDVALIDITY %d] x\r\n%sTAG OK done\r\n", len(s.Mails), s.Validity, next)
	case "SEARCH":
		return s.search(rest)
	case "STORE":
		for _, uid := range s.named(rest) {
			s.Mails[uid].Seen = true
		}
	case "FETCH":
		return s.fetch(session, rest)
	case "CAPABILITY":
		return "* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n"
	}
	return "TAG OK done\r\n"
}

// fetch answers FETCH, of headers or whole mails.
func (s *Scripted) fetch(session int, rest string) string {
	var b strings.Builder
	body := !strings.Contains(rest, "HEADER")
	for i, uid := range s.named(rest) {
		said := ""
		if s.Lie != nil {
			said = s.Lie(session, uid, body)
		}
		switch m := s.Mails[uid]; {
		case said == HangUp:
			return b.String() + HangUp
		case said == Nothing:
		case said != "":
			b.WriteString(said + "\r\n")
		case body:
			fmt.Fprintf(&b, "* %d FETCH (UID %d BODY[] {%d}\r\n%s)\r\n", i+1, uid, len(m.Raw), m.Raw)
		default:
			head, _, _ := strings.Cut(m.Raw, "\r\n\r\n")
			head += "\r\n\r\n"
			fmt.Fprintf(&b, "* %d FETCH (UID %d RFC822.SIZE %d INTERNALDATE \"%s\" BODY[HEADER] {%d}\r\n%s)\r\n",
				i+1, uid, len(m.Raw), m.At.Format("02-Jan-2006 15:04:05 -0700"), len(head), head)
		}
	}
	return b.String() + "TAG OK done\r\n"
}

// search answers SEARCH. It supports UID, UNSEEN, SINCE and FROM. It ignores UNSEEN and SINCE
// on the two sides of an OR.
func (s *Scripted) search(rest string) string {
	uids := s.all()
	since := time.Time{}
	words := strings.Fields(rest)
	for i, word := range words {
		switch {
		case word == "UID":
			uids = s.named(words[i+1])
		case word == "SINCE": // within an OR it is "(SINCE"
			since, _ = time.Parse("2-Jan-2006", strings.Trim(words[i+1], `"`))
		}
	}
	found := "* SEARCH"
	for _, uid := range uids {
		m := s.Mails[uid]
		_, from, _ := strings.Cut(m.Raw, "<")
		from, _, _ = strings.Cut(from, ">")
		unwanted := strings.Contains(rest, "@") && !strings.Contains(rest, from) || m.At.Before(since) ||
			m.Seen && slices.Contains(words, "UNSEEN")
		if !unwanted {
			found += " " + strconv.Itoa(int(uid))
		}
	}
	return found + "\r\nTAG OK done\r\n"
}

func (s *Scripted) all() []uint32 { return slices.Sorted(maps.Keys(s.Mails)) }

// named returns the existing UIDs in the set at the beginning of rest.
func (s *Scripted) named(rest string) []uint32 {
	word, _, _ := strings.Cut(rest, " ")
	var named []uint32
	for _, r := range ranges(word) {
		for _, uid := range s.all() {
			if uint64(uid) >= r.first && uint64(uid) <= r.last {
				named = append(named, uid)
			}
		}
	}
	return named
}
