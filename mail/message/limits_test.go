package message

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/limittest"
)

// TestHeaderLimits checks the limits of the fields of a received mail.
func TestHeaderLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "MaxHeader", Max: 262_144, Within: func(_ *testing.T, n int64) bool {
			return Fields([]byte(fill("X: ", n, "y")))[0].Value == fill("", n-3, "y")
		}},
		{Const: "MaxHeader", Max: 262_143, Within: func(_ *testing.T, n int64) bool { // a header that is truncated there is rejected
			_, err := StrictFields([]byte(fill("X: ", n, "\n\n")))
			return err == nil
		}},
		{Const: "maxSubject", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			return ParseHeader([]byte("Subject: "+fill("", n, "y"))).Subject == fill("", n, "y")
		}},
		{Const: "maxSubject", Max: 1000, Within: func(_ *testing.T, n int64) bool { return ReplySubject(fill("", n, "y")) == "Re: "+fill("", n, "y") }},
		{Const: "maxSubject", Max: 1000, Within: func(_ *testing.T, n int64) bool { return subject(fill("", n, "y"), false) == fill("", n, "y") }},
		{Const: "maxSubject", Max: 1000, Within: func(_ *testing.T, n int64) bool { return Forwarded(fill("", n, "(fwd)")) }},
		{Const: "maxBase", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return baseSubject(strings.Repeat("é", int(n))) == strings.Repeat("é", int(n))
		}},
		{Const: "maxMark", Max: 40, Within: func(_ *testing.T, n int64) bool { return markOf(fill("re[", n, "x")) == noMark }},
		{Const: "maxFroms", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return len(ParseHeader([]byte(strings.Repeat("From: a@example.com\n", int(n)))).Froms) == int(n)
		}},
		valueLimit("Auto-Submitted", func(h Header) string { return h.AutoSubmitted }),
		valueLimit("X-Autoreply", func(h Header) string { return strings.TrimPrefix(h.AutoReply, "x-autoreply: ") }),
		valueLimit("Precedence", func(h Header) string { return h.Precedence }),
		valueLimit("List-Id", func(h Header) string { return strings.TrimPrefix(h.ListID, "list-id: ") }),
		valueLimit("X-AgentStateLoop", func(h Header) string { return h.Agent }),
		{Const: "maxReturnPath", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return ParseHeader([]byte("Return-Path: "+fill("", n, "y"))).ReturnPath == fill("", n, "y")
		}},
		{Const: "maxMessageID", Max: 500, Within: func(_ *testing.T, n int64) bool { return len(ThreadIDs(fill("<", n, "@b>"))) == 1 }},
		{Const: "maxMessageID", Max: 500, Within: func(_ *testing.T, n int64) bool {
			return IDs{Handle: "goulard3120", Address: "agent@example.com"}.HasForm(fill("<", n, ".goulard3120@example.com>"))
		}},
		{Const: "maxReferences", Max: 50, Within: func(_ *testing.T, n int64) bool {
			return len(ParseHeader([]byte("References: "+strings.Repeat("<a@b>", int(n)))).References) == int(n)
		}},
		{Const: "minSecret", Max: 15, Within: func(_ *testing.T, n int64) bool { // too short for a valid MAC
			ids := IDs{Handle: "goulard3120", Address: "agent@example.com", IDKey: IDKey{Secret: make([]byte, n)}}
			_, ok := ids.Effect(ids.Make("ack.1", "x"))
			return !ok
		}},
		{Const: "maxDecoded", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			return strings.HasSuffix(decodeWords(fill("", n, " =?utf-8?q?y?=")), " y")
		}},
		{Const: "maxCharsets", Max: 60, Within: func(_ *testing.T, n int64) bool {
			return decodeWords(strings.Repeat("=?koi8-r?q?=C1?= ", int(n))) == strings.Repeat("а", int(n))+" "
		}},
		{Const: "maxDomain", Max: 1024, Within: func(_ *testing.T, n int64) bool { return IsASCII(NormalAddress(fill("é@", n+2, ".é"))[2:]) }}, // including the @
		{Const: "maxDomain", Max: 1024, Within: func(_ *testing.T, n int64) bool {
			_, ok := ASCIIDomain(fill("a", n, ".b"))
			return ok
		}},

		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool { return len(senders(longAddress(n))) == 1 }},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			_, err := SoleSender([]Field{{"from", longAddress(n)}})
			return err == nil
		}},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			_, params := mediaType(fill("a/b; c=", n, "y"))
			return params["c"] == fill("", n-7, "y")
		}},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			return parameters(fill("a; c=", n, "y"))["c"] == fill("", n-5, "y")
		}},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool { // of the subject of a mail that is a file
			var c contentReader
			c.attach(entity{mediaType: "message/rfc822", body: []byte("Subject: " + fill("", n, ".y"))})
			return strings.HasSuffix(c.out.Attachments[0].Title, ".y")
		}},
	})
}

// fill returns a text of n bytes: begin, zeros and end.
func fill(begin string, n int64, end string) string {
	return begin + strings.Repeat("0", int(n)-len(begin)-len(end)) + end
}

// longAddress returns an address of n bytes, including a comment.
func longAddress(n int64) string { return fill("(", n, ") op@example.com") }

// valueLimit returns the limit of a field whose value is not changed.
func valueLimit(name string, value func(Header) string) limittest.Limit {
	return limittest.Limit{Const: "maxValue", Max: 100, Within: func(_ *testing.T, n int64) bool {
		return value(ParseHeader([]byte(name+": "+fill("", n, "y")))) == fill("", n, "y")
	}}
}

// TestContentLimits checks the limits of the body of a received mail and of its files.
func TestContentLimits(t *testing.T) {
	large := append([]byte("Content-Type: application/zip\n\n"), make([]byte, 64<<20)...)
	limittest.Run(t, []limittest.Limit{
		{Const: "maxContent", Max: 67_108_864, Within: func(_ *testing.T, n int64) bool {
			return len(ReadContent(bytes.NewReader(large[:n]), Sent{}).Problems) == 0
		}},
		{Const: "maxText", Max: 4_194_304, Within: func(_ *testing.T, n int64) bool {
			c := ContentOf([]byte(fill("\n", n+1, "y")), Sent{})
			return len(c.Full) == int(n) && len(c.Problems) == 0
		}},
		{Const: "most", Max: 8_388_608, Within: func(_ *testing.T, n int64) bool {
			var c contentReader
			return len(c.text(entity{body: []byte(fill("", n, "y"))})) == int(n) && len(c.out.Problems) == 0
		}},
		{Const: "most", Max: 8_388_608, Within: func(_ *testing.T, n int64) bool { // bytes in UTF-8
			body := []byte("0" + strings.Repeat("\xe9", int(n)/2))[1-n%2:]
			return len(new(contentReader).text(entity{params: map[string]string{"charset": "latin1"}, body: body})) == int(n)
		}},
		{Const: "most", Max: 8_388_608, Within: func(_ *testing.T, n int64) bool { // bytes of earlier texts, after which one more is read
			return (&contentReader{length: int(n)}).text(entity{body: []byte("y")}) == "y"
		}},
		{Const: "maxDepth", Max: 50, Within: func(_ *testing.T, n int64) bool { return ContentOf([]byte(nestParts(n, "\ny")), Sent{}).Text == "y" }},
		{Const: "maxDepth", Max: 50, Within: func(_ *testing.T, n int64) bool { return firstLeaf([]byte(nestParts(n, "\ny")), 0) == "text/plain" }},
		{Const: "maxParts", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			return len(ContentOf([]byte(manyParts(n-1, fileHead)), Sent{}).Attachments) == int(n)-1
		}},
		{Const: "maxParts", Max: 1001, Within: func(_ *testing.T, n int64) bool {
			return len(splitParts([]byte(manyParts(n, fileHead)), "b")) == int(n)
		}}, // one more than the limit, to notice the excess
		{Const: "maxParts", Max: 1001, Within: func(_ *testing.T, n int64) bool { // lines that may close a multipart
			return !mayBeMultipart([]byte(lines(n, func(i int) string { return fmt.Sprintf("--%d--", i) })))
		}},
		{Const: "maxProblems", Max: 20, Within: func(_ *testing.T, n int64) bool {
			var c contentReader
			for i := range n {
				c.problem("%d", i)
			}
			return len(c.out.Problems) == int(n)
		}},
		{Const: "maxProblem", Max: 200, Within: func(_ *testing.T, n int64) bool { return problem("%s", fill("", n, "y")) == fill("", n, "y") }},
		{Const: "maxHints", Max: 3, Within: func(_ *testing.T, n int64) bool {
			return len(charsetsOf([]byte(strings.Repeat("Subject: =?koi8-r?q?y?=\n", int(n))))) == int(n)
		}},
		{Const: "maxHints", Max: 3, Within: func(_ *testing.T, n int64) bool {
			var c contentReader
			for range n {
				c.text(entity{params: map[string]string{"charset": "koi8-r"}})
			}
			return len(c.charsets) == int(n)
		}},
		{Const: "maxLabel", Max: 39, Within: func(_ *testing.T, n int64) bool {
			return len(charsetsOf([]byte("Subject: =?"+fill("", n, "y")+"?q?y?="))) == 1
		}},
		{Const: "maxExtension", Max: 8, Within: func(_ *testing.T, n int64) bool {
			return extension(entity{title: "a." + fill("", n, "y")}) == "."+fill("", n, "y")
		}},
		{Const: "maxKeptExtension", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return strings.HasSuffix(shortTitle(fill("", 256, fill(".", n, "y"))), fill(".", n, "y"))
		}},
		{Const: "maxTitle", Max: 255, Within: func(_ *testing.T, n int64) bool { return shortTitle(fill("", n, "y")) == fill("", n, "y") }},
		{Const: "maxDecoded", Max: 2048, Within: func(_ *testing.T, n int64) bool {
			return strings.HasSuffix(decodeTitle(fill("", n, " =?utf-8?q?y?=")), " y")
		}}, // half of it
		{Const: "maxTitleCharsets", Max: 3, Within: func(_ *testing.T, n int64) bool {
			words := lines(n, func(i int) string { return []string{"=?koi8-r?q?=C1?=", "=?koi8-r?b?wQ==?="}[i%2] })
			return decodeTitle(words) == strings.Repeat("а", int(n))
		}},
		{Const: "maxNamed", Max: 5, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(Content{Attachments: make([]Attachment, n)}.Placeholder(), "more")
		}},

		{Const: "minBroken", Max: 49, Within: func(_ *testing.T, n int64) bool {
			return !likeQuotedPrintable([]byte(fill("", n, "=")+"\ny"), math.MaxInt)
		}},
		{Const: "minForeign", Max: 19, Within: func(_ *testing.T, n int64) bool { // too short to be base64 of a text in latin1
			whole := []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xfc", int(n)/4*3))))
			return !likeBase64(whole, minForeign)
		}},
		{Const: "maxQuoteDepth", Max: 50, Within: func(_ *testing.T, n int64) bool {
			return unflow(strings.Repeat(">", int(n))+"y", false) == strings.Repeat(">", int(n))+" y"
		}},
		{Const: "maxQuotedLine", Max: 76, Within: func(_ *testing.T, n int64) bool {
			ok, _ := wholeQuotedPrintable([]byte(fill("", n, "y") + "\n"))
			return ok
		}},
		{Const: "maxBoundary", Max: 200, Within: func(_ *testing.T, n int64) bool { return boundaryText(fill("", n, "y")) }},
		{Const: "maxBegin", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return beginsAsHTML([]byte(strings.Repeat(" ", int(n)-5) + "<html>"))
		}},
		{Const: "maxQuotes", Max: 5, Within: func(_ *testing.T, n int64) bool {
			return strings.HasPrefix(pageText(strings.Repeat("<blockquote>", int(n))+"a"), strings.Repeat("> ", int(n))+"a")
		}},
		{Const: "maxQuotes", Max: 5, Within: func(_ *testing.T, n int64) bool {
			return strings.HasSuffix(pageText(strings.Repeat("<blockquote>", int(n))+"a<br>b"), "\n"+strings.Repeat("> ", int(n))+"b")
		}},
		{Const: "maxLink", Max: 2000, Within: func(_ *testing.T, n int64) bool {
			address := fill("https://a/", n, "y")
			return pageText("<a href="+address+">b</a>") == "b <"+address+">"
		}},
		{Const: "maxAlt", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return pageText("<img alt="+fill("", n, "y")+">") == "["+fill("", n, "y")+"]"
		}},
	})
}

const fileHead = "Content-Type: application/zip\n"

// nestParts returns a mail of n nested multiparts, with part in the innermost.
func nestParts(n int64, part string) string {
	for i := range n {
		part = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%s\n--b%d--\n", i, i, part, i)
	}
	return part
}

// manyParts returns a mail of n empty parts.
func manyParts(n int64, head string) string {
	return "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n"+head+"\n", int(n)) + "--b--\n"
}

func lines(n int64, line func(i int) string) string {
	var all []string
	for i := range int(n) {
		all = append(all, line(i))
	}
	return strings.Join(all, "\n")
}

// TestHistoryLimits checks the limits of the text that is removed from an answer.
func TestHistoryLimits(t *testing.T) {
	same := func(line string) func(int) string { return func(int) string { return line } }
	counted := func(from, n int64) string { // n different words
		return lines(n, func(i int) string { return fmt.Sprintf("w%d", from+int64(i)) })
	}
	onlyHello := func(in, sent string) bool {
		text, _ := ownText("hello\n\n"+in, mailKind{answers: true, mobile: true}, Sent{Texts: []string{sent}, Names: []string{"bot@x", "bot"}})
		return text == "hello"
	}
	const wrote = "bot@x wrote:\n"
	limittest.Run(t, []limittest.Limit{
		{Const: "maxSignature", Max: 8, Within: func(_ *testing.T, n int64) bool { return onlyHello("--\n"+lines(n, same("Ann")), "") }},
		{Const: "maxDeviceLine", Max: 100, Within: func(_ *testing.T, n int64) bool { return onlyHello(fill("Sent from my ", n, "y"), "") }},
		{Const: "maxDeviceWords", Max: 8, Within: func(_ *testing.T, n int64) bool {
			return onlyHello(strings.Repeat("a ", int(n)-1)+"iPhone", "")
		}},
		{Const: "maxSentWords", Max: 50_000, Within: func(_ *testing.T, n int64) bool {
			return len(words(strings.Repeat("x ", int(n)), maxSentWords)) == int(n)
		}},
		{Const: "maxSkipped", Max: 400, Within: func(_ *testing.T, n int64) bool { return onlyHello("> a b c", counted(0, n)+" a b c") }},
		{Const: "minSkipping", Max: 2, Within: func(_ *testing.T, n int64) bool { // too short to skip any words
			return !onlyHello("> "+strings.Repeat("a ", int(n)), "x "+strings.Repeat("a ", int(n)))
		}},
		{Const: "minFuzzy", Max: 4, Within: func(_ *testing.T, n int64) bool { // too short to differ in a word
			return !onlyHello("> x "+strings.ReplaceAll(counted(1, n-1), "\n", " "), counted(0, n))
		}},
		{Const: "maxFuzzy", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return onlyHello("> x "+strings.ReplaceAll(counted(1, n-1), "\n", " "), counted(0, n))
		}},
		{Const: "maxIntroLines", Max: 4, Within: func(_ *testing.T, n int64) bool {
			return onlyHello("On 2026-11-25\n"+lines(n-2, same("at"))+"\n"+wrote+"> a b c", "a b c")
		}},
		{Const: "maxBlockLines", Max: 12, Within: func(_ *testing.T, n int64) bool {
			return onlyHello("From: bot@x\n"+lines(n-1, same("To: op"))+"\n\na b c", "a b c")
		}},
		{Const: "minBlockLines", Max: 2, Within: func(_ *testing.T, n int64) bool { // too few lines for a block
			return !onlyHello("From: bot@x\n"+lines(n-1, same("To: op"))+"\n\na b c", "a b c")
		}},
		{Const: "maxIntro", Max: 600, Within: func(_ *testing.T, n int64) bool {
			return onlyHello(fill("", n, " bot@x wrote:")+"\n> a b c", "a b c")
		}},
		{Const: "maxFieldName", Max: 30, Within: func(_ *testing.T, n int64) bool { return hasLabel(strings.Repeat("y", int(n)) + ": x") }},
		{Const: "maxFirstLines", Max: 3, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(fmt.Sprint(ownText("hello\n\n"+wrote+"> "+lines(n, func(i int) string {
				if i == int(n)-1 {
					return "> a b c"
				}
				return "> other"
			}), mailKind{answers: true}, Sent{Texts: []string{"a b c"}, Names: []string{"bot@x"}})), "wrote")
		}},
		{Const: "maxControlLines", Max: 60, Within: func(_ *testing.T, n int64) bool {
			text, _ := ownText("HALT"+strings.Repeat("\n", int(n))+wrote+"a b c", mailKind{answers: true}, Sent{Names: []string{"bot@x"}})
			return Control(text) == "HALT"
		}},
		{Const: "maxTag", Max: 100, Within: func(_ *testing.T, n int64) bool { return isTag(fill("[", n, "]")) }},
		{Const: "maxBannerLabel", Max: 30, Within: func(_ *testing.T, n int64) bool { return isBanner(strings.Repeat("Y", int(n)-1) + ": a b c d e") }},
		{Const: "minBannerWords", Max: 4, Within: func(_ *testing.T, n int64) bool {
			return !isBanner(strings.TrimSpace("X: " + strings.Repeat("a ", int(n)-1)))
		}},
		{Const: "minFooterWords", Max: 11, Within: func(_ *testing.T, n int64) bool {
			text := "HALT\n\nconfidential" + strings.Repeat(" a", int(n)-1)
			return WithoutBanners(text) == text
		}},
		{Const: "minFooterRule", Max: 9, Within: func(_ *testing.T, n int64) bool {
			text := "HALT\n" + strings.Repeat("-", int(n)) + "\nx"
			return WithoutBanners(text) == text
		}},
		{Const: "maxBannerRounds", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return WithoutBanners(strings.Repeat("[EXTERNAL]\n", int(n))+"HALT") == "HALT"
		}},
		{Const: "maxReference", Max: 60, Within: func(_ *testing.T, n int64) bool {
			return refersToHTML("html "+strings.Repeat("a ", int(n)-1), "b")
		}},
		{Const: "maxName", Max: 200, Within: func(_ *testing.T, n int64) bool {
			d := Draft{Name: strings.Repeat("y", int(n)), From: "a@b"}
			return d.sender() == `"`+d.Name+`" <a@b>`
		}},
		{Const: "maxGap", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return onlyHello("> a b c\n"+lines(n-1, same("> other"))+"\n> d e f", "a b c d e f")
		}},
	})
}

// TestReportLimits checks the limits of ReadReport.
func TestReportLimits(t *testing.T) {
	const returned = "Content-Type: message/rfc822\n\nMessage-ID: <a@b>\n"
	limittest.Run(t, []limittest.Limit{
		{Const: "maxReportParts", Max: 50, Within: func(_ *testing.T, n int64) bool { // including the mail itself
			return len(ReadReport([]byte(strings.Replace(manyParts(n-1, fileHead), fileHead+"\n--b--", returned, 1))).IDs) == 1
		}},
		{Const: "maxReportDepth", Max: 8, Within: func(_ *testing.T, n int64) bool { return len(ReadReport([]byte(nestParts(n, returned))).IDs) == 1 }},
		{Const: "maxReportIDs", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return len(ReadReport([]byte("Content-Type: message/rfc822\n\n"+strings.Repeat("Message-ID: <a@b>\n", int(n)))).IDs) == int(n)
		}},
		{Const: "maxRecipients", Max: 20, Within: func(_ *testing.T, n int64) bool {
			r := ReadReport([]byte(lines(n, func(i int) string { return "X-Failed-Recipients: " + strconv.Itoa(i) + "@example.com" })))
			return len(r.Recipients) == int(n)
		}},
		{Const: "maxReasonLine", Max: 300, Within: func(_ *testing.T, n int64) bool {
			reason := "550 " + strings.Repeat("𐍈", int(n)-4)
			return ReadReport([]byte("\n"+reason)).Reason == reason
		}},
		{Const: "maxReportText", Max: 262_143, Within: func(_ *testing.T, n int64) bool { // after which another text is read
			var r reportReader
			r.text.WriteString(fill("", n, "y"))
			r.part([]byte("\ny"), 1)
			return r.text.Len() > int(n)
		}},
		{Const: "maxSearched", Max: 16_384, Within: func(_ *testing.T, n int64) bool { return reasonIn(fill("", n, "\n550")) != "" }},
		{Const: "maxSearched", Max: 16_384, Within: func(_ *testing.T, n int64) bool {
			return ReadReport([]byte("\n" + fill("", n, " user unknown"))).Failed
		}},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool { return fromDaemon([]Field{{"from", fill("", n, "mailer-daemon")}}) }},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			var r reportReader
			r.returned([]Field{{"to", longAddress(n)}})
			return slices.Equal(r.returnedTo, []string{"op@example.com"})
		}},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool { return recipientOf("Original-Recipient: rfc822; " + longAddress(n)) }},
		{Const: "maxParsed", Max: 8192, Within: func(_ *testing.T, n int64) bool { return recipientOf("Final-Recipient: rfc822; " + longAddress(n)) }},
	})
}

// recipientOf reports whether a delivery status with this field names op@example.com.
func recipientOf(field string) bool {
	var r reportReader
	r.deliveryStatus([]byte("Action: failed\n" + field + "\n"))
	return slices.Equal(r.recipients, []string{"op@example.com"})
}

// TestRenderLimits checks the limits of a rendered mail.
func TestRenderLimits(t *testing.T) {
	valid := func(change func(d *Draft)) bool {
		d := Draft{ID: "ack.1", IDKey: IDKey{Secret: make([]byte, 16)}, Handle: "goulard3120", From: "agent@example.com", To: "op@example.com", Auto: AutoGenerated}
		change(&d)
		return Render(new(bytes.Buffer), d) == nil
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "minSecret", Max: 15, Within: func(_ *testing.T, n int64) bool { // too short
			return !valid(func(d *Draft) { d.IDKey.Secret = make([]byte, n) })
		}},
		{Const: "maxPlainID", Max: 200, Within: func(_ *testing.T, n int64) bool { return valid(func(d *Draft) { d.ID = fill("", n, "y") }) }},
		{Const: "maxAddress", Max: 320, Within: func(_ *testing.T, n int64) bool { return valid(func(d *Draft) { d.To = fill("", n, "@b") }) }},
		{Const: "maxOwnReferences", Max: 20, Within: func(_ *testing.T, n int64) bool {
			ids := strings.Split(lines(n, func(i int) string { return fmt.Sprintf("<%d@b>", i) }), "\n")
			return slices.Equal(references(Draft{References: ids[1:], InReplyTo: ids[0]}), append(ids[1:], ids[0]))
		}},
		{Const: "maxFolded", Max: 76, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(subject(strings.TrimPrefix(fill("Subject: a ", n, "y"), "Subject: "), false), "\n")
		}},
		{Const: "maxLine", Max: 78, Within: func(_ *testing.T, n int64) bool {
			var b bytes.Buffer
			textPart(&b, "text/plain", fill("", n, "y"))
			return strings.Contains(b.String(), "7bit")
		}},
		{Const: "lineBytes", Max: 57, Within: func(_ *testing.T, n int64) bool {
			var b bytes.Buffer
			base64Lines(&b, make([]byte, n))
			return strings.Count(b.String(), "\n") == 1
		}},
		{Const: "maxMediaType", Max: 100, Within: func(_ *testing.T, n int64) bool { return partType(fill("a/", n, "y"), false) == fill("a/", n, "y") }},
		{Const: "maxFileName", Max: 240, Within: func(_ *testing.T, n int64) bool { return FileName(fill("", n, "y"), 1) == fill("", n, "y") }},
		{Const: "maxKeptExtension", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return strings.HasSuffix(shortName(fill("", 241, fill(".", n, "y")), 240, ""), fill(".", n, "y"))
		}},
		{Const: "maxWords", Max: 135, Within: func(_ *testing.T, n int64) bool {
			ofType, _ := nameParameters(fill("é", n, "y"))
			return titleOf(nil, []byte(strings.ReplaceAll(ofType, "\r\n", "")), nil) == fill("é", n, "y")
		}},
		{Const: "wordBytes", Max: 45, Within: func(_ *testing.T, n int64) bool { return len(encodedWords(fill("", n, "y"))) == 1 }},
		{Const: "maxParameter", Max: 60, Within: func(_ *testing.T, n int64) bool {
			return strings.HasPrefix(fileNameParameter(fill("", n, "y")), ";\r\n filename=\"")
		}},
		{Const: "maxParameter", Max: 60, Within: func(_ *testing.T, n int64) bool { // in UTF-8
			return strings.HasPrefix(fileNameParameter("é"+fill("", n-int64(len("UTF-8''%C3%A9")), "y")), ";\r\n filename*=")
		}},
		{Const: "maxContinued", Max: 391, Within: func(_ *testing.T, n int64) bool { // the maximum length that fits in lines of maxParameter
			return strings.Contains(fileNameParameter(fill("", n, "y")), " filename*0=\""+fill("", 60, "0")+"\"")
		}},
	})
}

// TestRenderChoices checks which encoding, type, content and references a mail of ours has.
func TestRenderChoices(t *testing.T) {
	for text, want := range map[string]string{"abcd": "7bit", "éabc": "quoted-printable", "éab": "base64"} { // one third beyond ASCII, and more
		var b bytes.Buffer
		textPart(&b, "text/plain", text)
		if !strings.Contains(b.String(), "Encoding: "+want+"\r\n") {
			t.Errorf("%s: want %s: %s", text, want, b.String())
		}
	}
	var b bytes.Buffer
	attachmentPart(&b, Attachment{Name: "a", Type: "text/csv", Data: []byte("x"), Apart: 1, Foreign: true}, 1)
	if !strings.HasSuffix(b.String(), "\r\n\r\n"+apartLine(1)) || strings.Contains(b.String(), "utf-8") {
		t.Errorf("an attachment that lies apart: %s", b.String())
	}
	if got := references(Draft{References: []string{"<1@b>", "<2@b>", "<2@b>", "<1@b>"}, InReplyTo: "<1@b>"}); !slices.Equal(got, []string{"<1@b>", "<2@b>", "<1@b>"}) {
		t.Errorf("references %q", got)
	}
}
