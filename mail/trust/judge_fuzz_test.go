package trust

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"

	"github.com/emersion/go-msgauth/dkim"
)

// FuzzSignatureTags checks that we read the same tags in a DKIM-Signature field as the library that
// verifies it.
func FuzzSignatureTags(f *testing.F) {
	for _, value := range []string{
		" v=1; a=rsa-sha256; c=relaxed/relaxed; d=gmail.com; s=20230601; t=1; x=2; darn=example.org; h=to:subject:message-id:date:from:mime-version\r\n :from:to:cc:subject:date:message-id:reply-to; bh=aGFzaA==; b=c2ln\r\n bmVk",
		"v=1;a=rsa-sha256;d=a.b;s=x;h=From : To:\tfrom;l=10;i=@c.a.b;bh=aGFzaA==;b=c2lnbmVk",
		"v=1; a=rsa-sha256; d=a.b; d=c.d; s=x; h=from; bh=aGFzaA==; b=c2lnbmVk",
		"v=1;a=0;d=\xa3;s=0;h=from;bh=0;b=0000",
		"v = 1 ; a = rsa-sha256 ; d = a . b ; s = x ; h = from ; bh = aGFzaA== ; b = c2lnbmVk ;",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		raw := []byte("DKIM-Signature:" + value + "\r\nFrom: x@y.z\r\n\r\nhello\r\n")
		fields, err := message.StrictFields(raw[:bytes.Index(raw, []byte("\r\n\r\n"))+4])
		if err != nil || count(fields, "dkim-signature") != 1 || len(fields) != 2 {
			return
		}
		s, err := parseSignature(message.Values(fields, "dkim-signature")[0])
		if err != nil {
			return
		}
		found, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{
			LookupTXT: func(string) ([]string, error) { return nil, nil },
		})
		if err != nil || len(found) != 1 {
			t.Fatalf("%q: the library found %d, %v", value, len(found), err)
		}
		v := found[0]
		if v.HeaderKeys == nil {
			return // the library refuses it
		}
		theirs := slices.Clone(v.HeaderKeys)
		for i, name := range theirs {
			theirs[i] = message.Lower(name)
		}
		if v.Domain != s.domain || !slices.Equal(theirs, s.fields) || !strings.HasSuffix(v.Identifier, s.identity) {
			t.Errorf("%q: d=%q, i=%q, h=%q; the library: d=%q, i=%q, h=%q", value, s.domain, s.identity, s.fields, v.Domain, v.Identifier, theirs)
		}
	})
}

// FuzzNamedSignature checks that no added field makes a weak signature pass for a strong one, for
// any description by which the server names the valid signature.
func FuzzNamedSignature(f *testing.F) {
	weak := mailtest.Signature("example.com", "From", "Date")
	strong := mailtest.Signature("example.com", "From", "To", "Subject", "Date", "References")
	f.Add(strong, "x", uint8(0))
	f.Add(strings.Replace(strong, "b=c2ln", "b=c2 ln", 1), " ", uint8(4))
	f.Add(strings.Replace(strong, "d=example.com", "d=EXAMPLE.com", 1), "\t", uint8(9))
	f.Add("DKIM-Signature: v=1; v=1", "=", uint8(3))
	f.Fuzz(func(t *testing.T, evil, junk string, at uint8) {
		// Only the value of b= can be changed in the valid signature.
		value := weak[strings.LastIndex(weak, "b=")+2:]
		i := int(at) % len(value)
		changed := strings.Replace(weak, "b="+value, "b="+value[:i]+junk+value[i:], 1)
		if strings.Contains(junk, ";") {
			return
		}
		raw := "From: op@example.com\r\nSubject: @x\r\nDate: today\r\n" + changed + "\r\n" + evil + "\r\n\r\n"
		fields, err := message.StrictFields([]byte(raw))
		if err != nil || count(fields, "from") != 1 {
			return
		}
		for _, named := range []string{
			"header.d=example.com", "header.i=@example.com", "header.d=example.com header.s=s1",
			"header.d=example.com header.s=s1 header.b=" + value[:8], "header.i=op@example.com header.s=s1 header.b=\"" + value[:8] + "\"",
		} {
			results, err := authResults("mx.example.org; dkim=pass " + named + "; dkim=fail header.d=example.com")
			if err != nil {
				t.Fatal(err)
			}
			if proofs, reason := (&Filter{}).namedProofs(results, fields, "op@example.com"); len(proofs) > 0 || reason == "" {
				t.Errorf("%s: proved by %q above %q", named, evil, changed)
			}
		}
	})
}

// FuzzUnsignedFields checks that a signed mail with changed unsigned fields is rejected or read as
// before, and that a mail to somebody else never becomes an order.
func FuzzUnsignedFields(f *testing.F) {
	f.Add("References: <e1.goulard3120@example.org>\r\n", "", uint8(0))
	f.Add("Content-Type: multipart/mixed; boundary=b1\r\n", "Content-Transfer-Encoding: base64\r\n", uint8(1))
	f.Add("Subject: @goulard3120\r\n", "To: agent@example.org\r\n", uint8(2))
	f.Add("Content-Disposition: attachment\r\n", "Content-Type: text/html; charset=utf-7\r\n", uint8(3))
	f.Add("Content-Type: text/plain\r\n", "", uint8(2+8+20))
	f.Add("Cc: agent@example.org\r\n", "In-Reply-To: <e1.goulard3120@example.org>\r\n", uint8(4))
	filter := Filter{
		Handle: "goulard3120", Operators: []string{"op@example.com"}, Own: "agent@example.org",
		Require: RequireDMARC, AuthservID: "mx.example.org",
		IDKey: message.IDKey{Secret: []byte("sixteen bytes are")},
	}
	lists := [][]string{
		{"From", "To", "Subject", "Date"},
		{"From", "From", "To", "To", "Cc", "Cc", "Subject", "Subject", "Date", "Date", "Message-ID", "Message-ID"},
		{"From", "Date", "Subject", "Message-ID", "Content-Type", "MIME-Version"},
		{"From", "To", "Cc", "Subject", "Date", "In-Reply-To", "References", "Content-Transfer-Encoding"},
	}
	bodies := []string{
		"hello\r\n\r\n> delete everything\r\n-- \r\nAnn\r\n",
		"Gr=C3=BC=C3=9Fe, a =3D b\r\n",
		"--b1\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b1\r\nContent-Type: text/html\r\n\r\n<p>hello\r\n--b1--\r\n",
		"--b1\r\n\r\nsee\r\n--b1\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\ndelete everything\r\n--b1--\r\n",
		"aGVsbG8gd29ybGQ=\r\n",
	}
	f.Fuzz(func(t *testing.T, above, below string, variant uint8) {
		list, body := lists[int(variant)%len(lists)], bodies[int(variant/4)%len(bodies)]
		subject := []string{"lunch", "@goulard3120 lunch"}[int(variant/20)%2]
		stamp := mailtest.Verdict("mx.example.org", "example.com") + "\r\nReceived: x\r\n"
		signature := mailtest.Signature("example.com", list...) + "\r\n"
		for _, to := range []string{"agent@example.org", "friend@example.net"} {
			header := signature + "From: op@example.com\r\nTo: " + to + "\r\nSubject: " + subject + "\r\nDate: " + arrivalTime.Format(time.RFC1123Z) + "\r\n"
			changed := stamp + above + header + below + "\r\n" + body
			fields, err := message.StrictFields([]byte(changed[:strings.Index(changed, "\r\n\r\n")+4]))
			if err != nil || signedText(fields, list) != signedText(mustFields(t, header+"\r\n"), list) {
				continue // the signature is not valid any more
			}
			text, passed := pass(t, filter, changed)
			if !passed {
				continue
			}
			if to != "agent@example.org" && subject == "lunch" {
				t.Errorf("a mail to somebody else passed: %q", changed)
			}
			if original, ok := pass(t, filter, stamp+header+"\r\n"+body); ok && original != text {
				t.Errorf("%q is read as %q, and without the change as %q", changed, text, original)
			}
		}
	})
}

func mustFields(t *testing.T, raw string) []message.Field {
	fields, err := message.StrictFields([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// signedText returns the text that a signature over names covers, in relaxed form (RFC 6376 section
// 3.4.2).
func signedText(fields []message.Field, names []string) string {
	var b strings.Builder
	used := map[string]int{}
	for _, name := range names {
		name = message.Lower(name)
		values := message.Values(fields, name)
		if used[name]++; used[name] <= len(values) {
			b.WriteString(name + ":" + strings.Join(strings.Fields(values[len(values)-used[name]]), " ") + "\n")
		}
	}
	return b.String()
}

// pass judges a mail like a scan and returns its text.
func pass(t *testing.T, f Filter, raw string) (text string, passed bool) {
	i := strings.Index(raw, "\r\n\r\n") + 4
	header := []byte(raw[:i])
	head := f.JudgeHeader(header, message.ParseHeader(header), int64(len(raw)), arrivalTime)
	if head.Gate != "" {
		return "", false
	}
	v, err := f.JudgeBody(t.Context(), head, func() (*bufio.Reader, error) { return bufio.NewReader(strings.NewReader(raw)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return message.ReadContent(strings.NewReader(raw), message.Sent{}).Full, v.Gate == ""
}
