package message_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

// agentIDs makes the ids of the agent in these tests.
var agentIDs = message.IDs{
	Handle: "goulard3120", Address: "artificer3120@example.org", IDKey: message.IDKey{Secret: bytes.Repeat([]byte{7}, 32)},
}

func TestOwnIDsAndThreads(t *testing.T) {
	id := agentIDs.Make("reply.t1", "@goulard3120 status")
	if id != agentIDs.Make("reply.t1", "@goulard3120 status") {
		t.Error("the same effect has two ids")
	}
	if !strings.HasPrefix(id, "<reply.t1.") || !strings.HasSuffix(id, ".goulard3120@example.org>") || len(id) > 100 {
		t.Errorf("id %s of %d bytes", id, len(id))
	}
	moved := agentIDs
	moved.Address = "other@EXAMPLE.org"
	for name, got := range map[string]bool{
		"has the form":                      agentIDs.HasForm(id),
		"is ours":                           agentIDs.Ours(id),
		"is ours in capitals":               agentIDs.Ours(strings.ToUpper(id)),
		"is ours with blanks around it":     agentIDs.Ours("  " + id + "\t"),
		"is ours at another local part":     moved.Ours(id),
		"is of its thread":                  agentIDs.OfThread(id, "@goulard3120 status"),
		"is of its thread in capitals":      agentIDs.OfThread(strings.ToUpper(id), "RE: @GOULARD3120 STATUS"),
		"is of its thread for an answer":    agentIDs.OfThread(id, "Re: AW:  @goulard3120 status"),
		"is of its thread, folded anywhere": agentIDs.OfThread(id, "Re: @goulard3120  sta tus"),
	} {
		if !got {
			t.Errorf("%s: no", name)
		}
	}
	for name, got := range map[string]bool{
		"another subject": agentIDs.OfThread(id, "Re: lunch"),
		"more subject":    agentIDs.OfThread(id, "Re: @goulard3120 status of Friday"),
		"no subject":      agentIDs.OfThread(id, ""),
		"only Re":         agentIDs.OfThread(id, "Re: "),
		"a forward":       agentIDs.OfThread(id, "Fwd: @goulard3120 status"),
	} {
		if got {
			t.Errorf("%s is of the thread", name)
		}
	}
	if empty := agentIDs.Make("reply.t1", "Re:"); agentIDs.OfThread(empty, "") || !agentIDs.Ours(empty) {
		t.Error("an empty subject names a thread")
	}
}

// TestForgedIDs checks that each id that can be made without a mail of ours is rejected.
func TestForgedIDs(t *testing.T) {
	const effect, subject = "reply.t1", "status"
	id := agentIDs.Make(effect, subject)
	local := strings.TrimSuffix(strings.TrimPrefix(id, "<"+effect+"."), ".goulard3120@example.org>")

	neighbour, stranger, keyless, rekeyed, short := agentIDs, agentIDs, agentIDs, agentIDs, agentIDs
	neighbour.Handle = "dorlange3120"
	stranger.Secret = bytes.Repeat([]byte{8}, 32)
	keyless.Secret = nil
	rekeyed.Handle, rekeyed.Secret = "dorlange3120", stranger.Secret
	short.Secret = agentIDs.Secret[:15]
	elsewhere := agentIDs
	elsewhere.Address = "artificer3120@example.net"

	for name, forged := range map[string]string{
		"as before MACs":            "<reply.t1.goulard3120@example.org>",
		"with a guess":              "<reply.t1." + strings.Repeat("a", 32) + ".goulard3120@example.org>",
		"of another effect":         strings.Replace(id, "reply.t1", "reply.t2", 1),
		"with more before it":       strings.Replace(id, "<", "<x.", 1),
		"truncated":                 "<reply.t1." + local[:16] + ".goulard3120@example.org>",
		"one letter short":          "<reply.t1." + local[:31] + ".goulard3120@example.org>",
		"one letter long":           "<reply.t1." + local + "a.goulard3120@example.org>",
		"one letter changed":        "<reply.t1." + flip(local[0]) + local[1:] + ".goulard3120@example.org>",
		"with its halves swapped":   "<reply.t1." + local[16:] + local[:16] + ".goulard3120@example.org>",
		"without an effect":         "<" + local + ".goulard3120@example.org>",
		"with an empty effect":      "<." + local + ".goulard3120@example.org>",
		"of another agent":          neighbour.Make(effect, subject),
		"another agent's MAC":       strings.Replace(neighbour.Make(effect, subject), "dorlange", "goulard", 1),
		"another agent's, rekeyed":  strings.Replace(rekeyed.Make(effect, subject), "dorlange", "goulard", 1),
		"at another domain":         elsewhere.Make(effect, subject),
		"moved from another domain": strings.Replace(elsewhere.Make(effect, subject), "example.net", "example.org", 1),
		"with another key":          stranger.Make(effect, subject),
		"with an empty key":         keyless.Make(effect, subject),
		"without brackets":          strings.Trim(id, "<>"),
		"with a dotless i":          strings.Replace(id, "artificer", "artıficer", 1) + "x",
		"empty":                     "",
		"very long":                 "<" + strings.Repeat("x", 10_000) + id[1:],
	} {
		if agentIDs.Ours(forged) {
			t.Errorf("%s: %.100s is ours", name, forged)
		}
		if agentIDs.OfThread(forged, subject) {
			t.Errorf("%s: %.100s is of the thread", name, forged)
		}
	}
	for name, reader := range map[string]message.IDs{"no key": keyless, "a short key": short, "no agent": {IDKey: agentIDs.IDKey}} {
		made := reader.Make(effect, subject)
		if reader.Ours(made) || reader.OfThread(made, subject) {
			t.Errorf("with %s, %s is ours", name, made)
		}
	}
	// The second half of the MAC only proves the thread.
	half := "<reply.t1." + local[:31] + flip(local[31]) + ".goulard3120@example.org>"
	if !agentIDs.Ours(half) || agentIDs.OfThread(half, subject) {
		t.Errorf("with a wrong second half: ours %v, of the thread %v", agentIDs.Ours(half), agentIDs.OfThread(half, subject))
	}
}

// flip returns another letter of the MAC alphabet.
func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// FuzzIDs checks that reading an id never panics and that only an id from Make is ours.
func FuzzIDs(f *testing.F) {
	made := agentIDs.Make("reply.t1", "status")
	f.Add(made, "Re: status")
	f.Add(strings.ToUpper(made), "[EXT] AW: sta tus")
	f.Add("<reply.t1.goulard3120@example.org>", "x")
	f.Add("<..goulard3120@example.org>", "\xff(fwd)")
	f.Add(" <a>\x00", "[fwd: [fwd:")
	f.Fuzz(func(t *testing.T, id, subject string) {
		ours, ofThread := agentIDs.Ours(id), agentIDs.OfThread(id, subject)
		if ofThread && !ours || ours && !agentIDs.HasForm(id) {
			t.Errorf("%q: form %v, ours %v, of the thread %v", id, agentIDs.HasForm(id), ours, ofThread)
		}
		if ours && !strings.EqualFold(strings.TrimSpace(id)[:26], made[:26]) {
			t.Errorf("%q is ours", id)
		}
		// An id from Make is read back, for any subject.
		again := agentIDs.Make("ack.1", subject)
		answer := message.ReplySubject(subject)
		if !agentIDs.Ours(again) {
			t.Errorf("our own id %q is not ours", again)
		}
		if agentIDs.OfThread(again, subject) && len(subject) < 900 && !agentIDs.OfThread(again, answer) {
			t.Errorf("the answer %q to %q is of another thread", answer, subject)
		}
	})
}

// TestAnsweredIn checks which mails the References of a later mail show as answered.
func TestAnsweredIn(t *testing.T) {
	ids, other := agentIDs, agentIDs
	other.Secret = bytes.Repeat([]byte{8}, 32)
	answer, ack := ids.Make("reply.t1+abc", "weather"), ids.Make("ack.a1+abc", "weather")
	long := []string{"<one@x>", answer}
	for n := range 20 {
		long = append(long, fmt.Sprintf("<n%d@x>", n))
	}
	for _, c := range []struct {
		name string
		refs []string
		want string
	}{
		{"answered", []string{"<one@x>", "<two@x>", answer}, "<two@x>"},
		{"two answers", []string{"<one@x>", answer, "<two@x>", ids.Make("reply.t2", "lunch")}, "<one@x> <two@x>"},
		{"another case", []string{"<one@x>", strings.ToUpper(answer)}, "<one@x>"},
		{"an ack", []string{"<one@x>", ack}, ""},
		{"an answer after the ack", []string{"<one@x>", ack, "<two@x>", answer}, "<two@x>"},
		{"another key", []string{"<one@x>", other.Make("reply.t1+abc", "weather")}, ""},
		{"no MAC", []string{"<one@x>", "<reply.t1.goulard3120@example.org>"}, ""},
		{"only the answer", []string{answer}, ""},
		{"the id is behind the answer", []string{answer, "<one@x>"}, ""},
		{"ids are left out behind the first", long, ""},
	} {
		if got := strings.Join(ids.AnsweredIn(message.Header{References: c.refs}), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
